/** The project's tests, if there were but one and it failed. */

import type { ViteUserConfig } from "vitest/config";
import config from "../../vitest.config.ts";

const failing: ViteUserConfig = { ...config, test: { ...config.test, include: ["test/repository/failing.ts"] } };
export default failing;
