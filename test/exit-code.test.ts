/** Whoever runs the tests may look at nothing but the exit code. */

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

test("a run of tests of which one has failed ends with an exit code other than 0", async () => {
  const vitest = fileURLToPath(new URL("../node_modules/vitest/vitest.mjs", import.meta.url));
  const args = [vitest, "run", "--config", "test/repository/failing.config.ts", "--root", "."];
  const cwd = fileURLToPath(new URL("..", import.meta.url));
  const [code, output] = await new Promise<[unknown, string]>((resolve) => {
    execFile(process.execPath, args, { cwd }, (error, stdout) => resolve([error?.code ?? 0, stdout]));
  });
  expect(output).toContain("1 failed");
  expect(code).toBe(1);
});
