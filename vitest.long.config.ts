import { defineConfig, mergeConfig } from "vitest/config";
import base from "./vitest.config.ts";

/** `npm run test:long`: what takes minutes. One file at a time: each of them uses all cores itself. */
export default defineConfig({
  ...mergeConfig(base, {}),
  test: {
    globalSetup: "test/servers/global-setup.ts",
    include: ["test/**/*.long.test.ts"],
    testTimeout: 30 * 60_000,
    hookTimeout: 60_000,
    fileParallelism: false,
  },
});
