/** A test that fails, for `test/exit-code.test.ts`. */

import { expect, test } from "vitest";

test("what is said of the exit code is not so, and this test fails", () => {
  expect("the exit code").toBe("0");
});
