import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CrashMatrixError, type CrashMatrixOptions, type CrashReport, crashMatrix } from "holdfast/testing";
import { afterAll, beforeAll, expect, test, vi } from "vitest";

const toy = new URL("../../dist/bundled/test/testing/programs/toy.js", import.meta.url);

// Processes are started by the dozen; a busy machine takes its time.
vi.setConfig({ testTimeout: 600_000 });

/** Directories that a failing matrix leaves behind end up here. */
let temporary: string;

beforeAll(() => {
  temporary = mkdtempSync(join(tmpdir(), "holdfast-kit-test-"));
  process.env.TMPDIR = temporary;
});

afterAll(() => {
  delete process.env.TMPDIR;
  rmSync(temporary, { recursive: true, force: true });
});

/** A matrix that prints nothing. */
function matrix(fault: string, options: Partial<CrashMatrixOptions> = {}): Promise<CrashReport> {
  return crashMatrix({ program: toy, args: [fault], print: () => {}, ...options });
}

async function failure(fault: string, options: Partial<CrashMatrixOptions> = {}): Promise<CrashMatrixError> {
  const error = await matrix(fault, options).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(CrashMatrixError);
  return error as CrashMatrixError;
}

const commits = (n: number) =>
  Array.from({ length: n }, (_, i) => ["before", "inside", "after"].map((phase) => `commit:${i + 1}:${phase}`)).flat();

test("a correct program is killed at every commit and every effect body and passes", async () => {
  const lines: string[] = [];
  const report = await matrix("none", { print: (text) => lines.push(text) });
  const expected = [
    ...commits(8),
    ...["first", "second"].flatMap((name) => ["before", "inside", "after"].map((phase) => `effect:${name}:1:${phase}`)),
    "point:before-report:1",
  ];
  expect([...report.points].sort()).toEqual(expected.sort());
  expect(report.reached).toEqual(report.points);
  expect(report).toMatchObject({
    kills: 31,
    restarts: 31,
    failedStarts: 0,
    effects: 62,
    repeated: 0,
    lost: 0,
    violations: [],
    missed: [],
  });
  expect(lines.join("\n")).toContain("31 of 31 points reached, 31 kills, 31 restarts, 62 effects, 0 repeated, 0 lost");
  expect(lines.join("\n")).toContain("commit:1-8 (before inside after)");
});

test("an effect that is not recorded is found: it is executed again", async () => {
  const { report, message } = await failure("no-effect", { points: ["commit:5:before"] });
  expect(report).toMatchObject({ repeated: 1, lost: 0, kills: 1 });
  expect(message).toContain('expected "second" to be executed once, as without a kill; the counter saw it 2 times');
});

test("an effect that is believed done because it was begun is found: it is lost", async () => {
  const { report } = await failure("believes-intent", { points: ["commit:2:after"] });
  expect(report).toMatchObject({ repeated: 0, lost: 1 });
});

test("a result that differs from that of the unbroken run is found", async () => {
  const { report, message } = await failure("other-result", { points: ["commit:1:after"] });
  expect(report.violations.map(({ kind }) => kind)).toEqual(["result"]);
  expect(message).toContain('got {"log":["step 1","step 2"],"restarted":true}');
});

test("a finished node that begins again is found", async () => {
  const { report } = await failure("runs-nodes-again", { points: ["effect:second:1:before"] });
  expect(report.violations.map(({ kind }) => kind)).toEqual(["node"]);
});

test("an event that the journal lost in a kill, or has twice, is found", async () => {
  const lost = await failure("journal-forgets", { points: ["commit:3:after", "commit:8:after"] });
  expect(lost.report.violations.map(({ kind }) => kind)).toEqual(["journal", "journal", "journal"]);
  expect(lost.message).toContain("expected an outcome of effect first; the journal has only its intent");
  expect(lost.message).toContain("expected 1 outcomes of first of thread toy; the journal has 0");
  expect(lost.message).toContain("expected thread toy to be finished 1 times; the journal says 0");
  const twice = await failure("journals-again", { points: ["commit:3:before"] });
  expect(twice.message).toContain("expected each event once; intent first stands there again");
});

test("a program that never exits with 0 again is found, with what it printed", async () => {
  const { report, message } = await failure("never-recovers", { points: ["commit:2:before"], restartsMax: 2 });
  expect(report).toMatchObject({ restarts: 2, failedStarts: 2 });
  expect(message).toContain("cannot go on from here");
});

test("a check of the user's own decides too, and the failing state is kept for inspection", async () => {
  const seen: string[] = [];
  const { report, message } = await failure("none", {
    points: ["commit:2:inside"],
    check: ({ plan, dir, counts }) => {
      seen.push(plan);
      expect(existsSync(`${dir}/log.json`)).toBe(true);
      expect(counts).toEqual({ first: 1, second: 1 });
      if (plan !== "") throw new Error("not to my taste");
    },
  });
  expect(seen).toEqual(["", "commit:2:inside"]);
  expect(message).toContain("killed at commit:2:inside: check: check failed: not to my taste");
  expect(existsSync(`${report.violations[0]?.dir}/log.json`)).toBe(true);
});

test("a listed point that does not exist fails the matrix, and its message has the command to try it again", async () => {
  const { report, message } = await failure("none", { points: ["commit:1:before", "commit:99:before"] });
  expect(report).toMatchObject({ reached: ["commit:1:before"], missed: ["commit:99:before"], violations: [] });
  expect(message).toMatch(/again: node \S+crash-once\.js \S+toy\.js commit:99:before none/);
});

test("a place that is no fault point is refused by name", async () => {
  await expect(matrix("none", { points: ["commit:one"] })).rejects.toThrow('"commit:one" names no place');
});

test("a program that asks to be started again is killed in its second start too", async () => {
  const report = await matrix("two-starts", {
    points: (all) => all.filter((plan) => plan === "commit:5:inside" || plan === "- > effect:second:1:inside"),
  });
  expect(report.reached).toEqual(["commit:5:inside", "- > effect:second:1:inside"]);
  expect(report).toMatchObject({ kills: 2, restarts: 4 });
});

test("with depth 2 the start that recovers is killed as well", async () => {
  const report = await matrix("none", { points: ["commit:1:after", "effect:second:1:inside"], depth: 2 });
  expect(report.points).toHaveLength(4);
  expect(report.reached).toHaveLength(4);
  expect(report.kills).toBe(6);
});

test("a program that fails without a kill, or reports no result, ends the matrix at once", async () => {
  await expect(crashMatrix({ program: "/nonexistent.js", restartsMax: 0 })).rejects.toThrow(
    "the run without a kill is wrong",
  );
  await expect(matrix("reports-nothing")).rejects.toThrow(
    "expected the program to report its result with reportResult(value)",
  );
});

test("nothing is left behind: no directory of a run that was right", async () => {
  const before = readdirSync(temporary);
  await matrix("none", { points: ["commit:1:before"] });
  expect(readdirSync(temporary)).toEqual(before);
});
