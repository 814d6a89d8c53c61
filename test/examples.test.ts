import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";

const path = (relative: string) => fileURLToPath(new URL(`../${relative}`, import.meta.url));
const names = readdirSync(path("examples")).filter((name) => /^\d\d-.*\.ts$/.test(name));

describe.each(names)("examples/%s", (name) => {
  const stem = name.slice(0, -".ts".length);

  test("prints what its .out.txt says", async () => {
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [path(`dist/examples/${stem}.js`)]);
    expect(stderr).toBe("");
    expect(stdout).toBe(readFileSync(path(`examples/${stem}.out.txt`), "utf8"));
  });

  test("is short enough to be read at once", () => {
    expect(
      readFileSync(path(`examples/${name}`), "utf8")
        .trimEnd()
        .split("\n").length,
    ).toBeLessThanOrEqual(80);
  });
});

test("there are examples", () => {
  expect(names.length).toBeGreaterThanOrEqual(4);
});
