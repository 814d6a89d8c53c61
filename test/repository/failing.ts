/** A test that fails, for `test/exit-code.test.ts`. */

import { expect, test } from "vitest";

test("fails", () => {
  expect("the exit code").toBe("0");
});
