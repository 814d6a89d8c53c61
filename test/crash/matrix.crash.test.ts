import { describe, expect, test } from "vitest";
import { fewPoints, killScenario, scenarios } from "./scenarios.ts";

describe("killed at a few points on SQLite, every scenario ends as if it had not been killed", () => {
  for (const scenario of scenarios) {
    if (scenario.backends?.includes("sqlite") === false) continue;
    test(scenario.name, async () => {
      const report = await killScenario(scenario, "sqlite", { points: fewPoints, print: () => {} });
      expect(report).toMatchObject({ repeated: 0, lost: 0, violations: [], missed: [], failedStarts: 0 });
      expect(report.kills).toBeGreaterThanOrEqual(3);
    });
  }
});
