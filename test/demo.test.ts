import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { DemoResult } from "../examples/demo/demo.ts";
import type { KilledRun } from "../examples/demo/killed-run.ts";

const dist = (path: string) => fileURLToPath(new URL(`../dist/${path}`, import.meta.url));

/** Temporary files of the programs under test go here, so that what they leave behind is seen. */
let temporary: string;

beforeEach(async () => {
  temporary = await mkdtemp(join(tmpdir(), "holdfast-test-"));
});

afterEach(() => rm(temporary, { recursive: true, force: true }));

function start(program: string, args: readonly string[], env: Record<string, string> = {}) {
  return spawn(process.execPath, [dist(program), ...args], {
    env: { ...process.env, TMPDIR: temporary, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

async function finish(child: ReturnType<typeof start>) {
  const [[code], stdout, stderr] = await Promise.all([once(child, "close"), text(child.stdout), text(child.stderr)]);
  return { code: code as number | null, stdout, stderr };
}

/** Starting up to a hundred processes takes half a minute on an idle machine, and much longer on a busy one. */
vi.setConfig({ testTimeout: 600_000 });

const demo = (args: readonly string[]) => finish(start("examples/demo/main.js", args));

describe("npm run demo", () => {
  test("kills both graphs in each variant, finds nothing repeated or lost by Holdfast, and leaves nothing behind", async () => {
    const { code, stdout, stderr } = await demo(["--kills", "2", "--json"]);
    const result = JSON.parse(stdout) as DemoResult;
    expect(result.violations).toEqual([]);
    expect(code).toBe(0);
    expect(result.rows.map((row) => [row.variant, row.graph, row.points])).toEqual([
      ["holdfast", "inbox-report", 2],
      ["holdfast", "order", 2],
      ["official", "inbox-report", 2],
      ["official", "order", 2],
      ["official-sync", "inbox-report", 2],
      ["official-sync", "order", 2],
    ]);
    const ours = result.rows.slice(0, 2);
    for (const row of ours) {
      expect(row).toMatchObject({ repeated: 0, lost: 0, differing: 0 });
      expect(row.kills).toBeGreaterThan(0);
      expect(row.resumes).toBeGreaterThanOrEqual(row.kills);
    }
    // Six summaries and a report; a charge, a reservation, a mail and a receipt.
    expect(ours.map((row) => row.executed)).toEqual([2 * 7, 2 * 4]);
    expect(stderr).toContain("unbroken run");
    expect(await readdir(temporary)).toEqual([]);
  });

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

  test("refuses the memory backend with exit code 2, and explains itself with --help", async () => {
    const [refused, helped] = await Promise.all([demo(["--backend", "memory"]), demo(["--help"])]);
    expect(refused).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining("is gone when it is killed"),
    });
    expect(helped).toMatchObject({ code: 0, stderr: "", stdout: expect.stringContaining("--inbox DIR") });
  });

  test("interrupted, it ends its processes and removes its files", async () => {
    const child = start("examples/demo/main.js", ["--kills", "1000"]);
    for await (const line of createInterface(child.stderr)) if (line.includes("1 of ")) break;
    child.kill("SIGINT");
    const [code] = await once(child, "exit");
    expect(code).toBe(130);
    expect(await readdir(temporary)).toEqual([]);
  });
});

describe("a process killed when the mail has gone out and nobody knows it", () => {
  const oneKill = async (backend: string, broken: string) => {
    const args = [backend, "effect:send-mail:1:after", temporary];
    const { stdout, stderr } = await finish(start("test/demo/one-kill.js", args, { HOLDFAST_TEST_BREAK: broken }));
    expect(stderr).toBe("");
    return JSON.parse(stdout) as KilledRun;
  };

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
