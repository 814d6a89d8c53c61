import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { createInterface } from "node:readline";
import { describe, expect, test, vi } from "vitest";
import type { DemoResult } from "../examples/demo/demo.ts";
import { demo, oneKill, start, temporary } from "./demo/processes.ts";

/** Starting dozens of processes takes a while on a busy machine. */
vi.setConfig({ testTimeout: 600_000 });

describe("npm run demo", () => {
  test("kills both graphs in each variant, finds nothing repeated or lost by Holdfast, and leaves nothing behind", async () => {
    const { code, stdout, stderr } = await demo(["--kills", "1", "--json"]);
    const result = JSON.parse(stdout) as DemoResult;
    expect(result.violations).toEqual([]);
    expect(code).toBe(0);
    expect(result.rows.map((row) => [row.variant, row.graph, row.points])).toEqual([
      ["holdfast", "inbox-report", 1],
      ["holdfast", "order", 1],
      ["official", "inbox-report", 1],
      ["official", "order", 1],
      ["official-sync", "inbox-report", 1],
      ["official-sync", "order", 1],
    ]);
    const ours = result.rows.slice(0, 2);
    for (const row of ours) {
      expect(row).toMatchObject({ repeated: 0, lost: 0, differing: 0 });
      expect(row.kills).toBeGreaterThan(0);
      expect(row.resumes).toBeGreaterThanOrEqual(row.kills);
    }
    // Six summaries and a report; a charge, a reservation, a mail and a receipt.
    expect(ours.map((row) => row.executed)).toEqual([7, 4]);
    expect(stderr).toContain("unbroken run");
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

test("a process killed when the mail has gone out and nobody knows it sends no second one: the operator decides", async () => {
  const run = await oneKill("sqlite", "");
  expect(run).toMatchObject({ reached: true, resumes: 2, settled: 1 });
  expect(run.verdict).toMatchObject({ repeated: 0, lost: 0, complaints: [] });
});
