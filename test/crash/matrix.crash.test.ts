import { CrashMatrixError } from "holdfast/testing";
import { describe, expect, test } from "vitest";
import { killScenario, scenarios, twoPoints } from "./scenarios.ts";

/** Processes are started by the dozen; a busy machine takes its time. */
const timeout = 600_000;

// Every second scenario, at two points: the whole matrix is among the long tests.
describe("killed at two points on SQLite, a scenario ends as if it had not been killed", () => {
  for (const [at, scenario] of scenarios.filter((_, place) => place % 2 === 0).entries()) {
    test(scenario.name, { timeout }, async () => {
      const report = await killScenario(scenario, "sqlite", { points: (all) => twoPoints(all, at), print: () => {} });
      expect(report).toMatchObject({ repeated: 0, lost: 0, violations: [], missed: [], failedStarts: 0 });
      expect(report.kills).toBe(report.points.length);
      expect(report.kills).toBeGreaterThanOrEqual(2);
    });
  }
});

test("killed on the official SqliteSaver with a ledger, a graph ends as if it had not been killed", {
  timeout,
}, async () => {
  const [plain] = scenarios;
  if (plain === undefined) throw new Error("no scenario");
  const points = (all: readonly string[]) => [
    ...all.filter((point) => point.includes("official-put-done:")).slice(3, 4),
    ...all.filter((point) => /effect:.*:after$/.test(point)).slice(-1),
  ];
  const report = await killScenario(plain, "official", { points, print: () => {} });
  expect(report).toMatchObject({ kills: 2, repeated: 0, lost: 0, violations: [], missed: [], failedStarts: 0 });
});

test("the same nodes without effect() are found to act twice, by the same matrix", { timeout }, async () => {
  const [plain] = scenarios;
  if (plain === undefined) throw new Error("no scenario");
  const unrecorded = { ...plain, args: ["sync", "unrecorded"] };
  const points = (all: readonly string[]) => all.filter((point) => /^commit:[456]:before$/.test(point));
  const error = await killScenario(unrecorded, "sqlite", { points, print: () => {} }).catch(
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(CrashMatrixError);
  const { report } = error as CrashMatrixError;
  expect(report).toMatchObject({ kills: 3, lost: 0, missed: [] });
  expect(report.repeated).toBeGreaterThanOrEqual(1);
});
