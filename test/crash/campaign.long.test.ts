/** The campaign of `npm run crash`, by a fixed list of seeds. */

import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { kitFile, type ServingChild, serve } from "../../src/testing/child.ts";
import { redisAvailable, sharedRedis } from "../servers/redis.ts";
import { type CampaignCounts, disturbances, totals } from "./campaign/counts.ts";
import { addRound, playRounds } from "./campaign/rounds.ts";

/** On each backend: rounds with the seeds 1, 2, … */
const ROUNDS = 2;
const DISTURBANCES = 50;

let counter: ServingChild;
beforeAll(async () => {
  counter = await serve(kitFile("counter-server"));
});
afterAll(() => counter.stop());

test("workers are killed and stopped a hundred times on each backend, among failing commits and jumping clocks: no effect is lost or repeated, no run is stuck, every thread has one head and every question one decision", async () => {
  const counts: CampaignCounts = {};
  const problems: string[] = [];
  await playRounds({
    urls: {
      sqlite: "",
      postgres: inject("postgresUrl"),
      ...(redisAvailable ? { redis: (await sharedRedis()).url } : {}),
    },
    counterUrl: counter.line,
    seed: 1,
    rounds: ROUNDS,
    disturbances: DISTURBANCES,
    onEnd: (result) => {
      addRound(counts, result);
      problems.push(...result.problems.map((problem) => `seed ${result.seed} on ${result.backend}: ${problem}`));
    },
  });
  expect(problems).toEqual([]);
  for (const [backend, one] of Object.entries(counts))
    expect(disturbances(one), backend).toBeGreaterThanOrEqual(ROUNDS * DISTURBANCES);
  const all = totals(counts);
  console.log(JSON.stringify(all));
  expect(all).toMatchObject({ rounds: ROUNDS * Object.keys(counts).length, lost: 0, repeated: 0, stuck: 0 });
  // A campaign in which a kind of disturbance does not come proves nothing about it.
  const { deaths, freezes, takenOverFrozen, drains, storeErrors, lostAnswers, clockShifts, takeovers, staleRefused } =
    all;
  const kinds = {
    deaths,
    freezes,
    takenOverFrozen,
    drains,
    storeErrors,
    lostAnswers,
    clockShifts,
    takeovers,
    staleRefused,
  };
  expect(Object.entries(kinds).filter(([, times]) => times === 0)).toEqual([]);
});
