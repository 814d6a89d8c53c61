/** Graphs on LangGraph's own SqliteSaver with a ledger: killed at its calls as well as at our commits. */

import { describe, expect, test } from "vitest";
import { killScenario, scenarios } from "../crash/scenarios.ts";

const names = [
  "five nodes in a row, sync durability",
  "five nodes in a row, async durability",
  "questions answered by another process",
  "approvals, a deadline, a timer and an event",
  "a fan-out of Sends",
];

/** One point of each kind: before and after a checkpoint and a write of the official saver, in a commit, in an effect. */
function few(all: readonly string[]): readonly string[] {
  const pick = (pattern: RegExp, where: number) => {
    const found = all.filter((point) => pattern.test(point));
    return found[Math.floor(where * (found.length - 1))];
  };
  const points = [
    pick(/official-put:/, 0.6),
    pick(/official-put-done:/, 0.5),
    pick(/official-writes:/, 0.6),
    pick(/official-writes-done:/, 0.5),
    pick(/commit:\d+:inside$/, 0.7),
    pick(/effect:.*:after$/, 1),
  ];
  return [...new Set(points.filter((point) => point !== undefined))];
}

describe("killed on the official SqliteSaver no effect is repeated or lost:", () => {
  for (const scenario of scenarios.filter(({ name }) => names.includes(name))) {
    test(scenario.name, { timeout: 300_000 }, async () => {
      const report = await killScenario(scenario, "official", { points: few, print: () => {} });
      expect(report).toMatchObject({ repeated: 0, lost: 0, violations: [], failedStarts: 0 });
      expect(report.kills).toBeGreaterThanOrEqual(5);
    });
  }
});
