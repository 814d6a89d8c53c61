import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { DemoResult } from "../examples/demo/demo.ts";
import { demo, finish, oneKill, start, temporary } from "./demo/processes.ts";

describe("npm run demo", () => {
  test("reads the user's own inbox and changes nothing in it; --keep leaves the report behind", async () => {
    const inbox = join(temporary, "mine");
    await mkdir(inbox);
    await writeFile(join(inbox, "note.txt"), "My own words. And more.\n");
    const { code, stdout } = await demo(["--kills", "1", "--json", "--backend", "jsonl", "--inbox", inbox, "--keep"]);
    expect(code).toBe(0);
    expect(await readdir(inbox)).toEqual(["note.txt"]);
    const { kept } = JSON.parse(stdout) as DemoResult;
    const report = await readFile(join(kept ?? "", "holdfast", "inbox-report", "unbroken", "report.md"), "utf8");
    expect(report).toBe("# Inbox report\n\n1 file\n\n## note.txt\n\nMy own words.\n");
  });

  test("ends with exit code 1 and names the violation where work is repeated", async () => {
    const broken = start("test/demo/broken-demo.js", ["--kills", "2"], { HOLDFAST_TEST_BREAK: "state" });
    const { code, stdout } = await finish(broken);
    expect(code).toBe(1);
    expect(stdout).toContain("Holdfast has failed:");
    expect(stdout).toMatch(/, killed at .*: .* was done 2 times instead of 1/);
    expect(await readdir(temporary)).toEqual([]);
  });
});

describe("a process killed when the mail has gone out and nobody knows it", () => {
  test.each(["sqlite", "jsonl"])(
    "sends no second mail on %s: the operator decides, and the run goes on",
    async (backend) => {
      const run = await oneKill(backend, "");
      expect(run).toMatchObject({ reached: true, resumes: 2, settled: 1 });
      expect(run.verdict).toMatchObject({ repeated: 0, lost: 0, complaints: [] });
    },
  );

  test("sends a second mail where effects are taken away, and the judge sees it", async () => {
    const run = await oneKill("sqlite", "effects");
    expect(run).toMatchObject({ reached: true, resumes: 1, settled: 0 });
    expect(run.verdict).toMatchObject({
      repeated: 1,
      complaints: expect.arrayContaining(["mail of order-1 was done 2 times instead of 1"]),
    });
  });
});
