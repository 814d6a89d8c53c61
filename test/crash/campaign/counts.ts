/** What a campaign has done and found, by backend and scenario. */

import { type CampaignBackend, type ScenarioName, scenarioNames } from "./plan.ts";

export interface ScenarioCounts {
  threads: number;
  runs: number;
  /** Claims after a run's first one: each is a worker that went on where another had been. */
  claimedAgain: number;
  /** Executed by the outside, each under a key of its own. */
  effects: number;
  lost: number;
  repeated: number;
  /** Runs that did not end. */
  stuck: number;
}

export interface BackendCounts {
  rounds: number;
  /** SIGKILL. */
  deaths: number;
  /** Of these at a fault point, the others at any moment. */
  deathsAtPoints: number;
  /** SIGSTOP and SIGCONT. */
  freezes: number;
  freezesAtPoints: number;
  /** Freezes at whose end another worker had taken over everything. */
  takenOverFrozen: number;
  /** SIGTERM. */
  drains: number;
  storeErrors: number;
  lostAnswers: number;
  clockShifts: number;
  takeovers: number;
  /** Commits of a worker that had been taken over, refused. */
  staleRefused: number;
  /** Runs that a worker found taken over when it wanted to store their end. */
  runsLost: number;
  /** Runs that three workers in a row died with, and an operator put on their way again. */
  crashLoops: number;
  questionsAnswered: number;
  /** Requests that came again under the same key, from a worker that had stood still inside of the body. */
  absorbed: number;
  /** What workers reported, by code. */
  errors: Record<string, number>;
  scenarios: Record<ScenarioName, ScenarioCounts>;
}

const noScenario = (): ScenarioCounts => ({
  threads: 0,
  runs: 0,
  claimedAgain: 0,
  effects: 0,
  lost: 0,
  repeated: 0,
  stuck: 0,
});

export function noBackendCounts(): BackendCounts {
  return {
    rounds: 0,
    deaths: 0,
    deathsAtPoints: 0,
    freezes: 0,
    freezesAtPoints: 0,
    takenOverFrozen: 0,
    drains: 0,
    storeErrors: 0,
    lostAnswers: 0,
    clockShifts: 0,
    takeovers: 0,
    staleRefused: 0,
    runsLost: 0,
    crashLoops: 0,
    questionsAnswered: 0,
    absorbed: 0,
    errors: {},
    scenarios: Object.fromEntries(scenarioNames.map((name) => [name, noScenario()])) as BackendCounts["scenarios"],
  };
}

export type CampaignCounts = Partial<Record<CampaignBackend, BackendCounts>>;

/** Adds `more` to `sum`, number by number. */
export function addCounts<T extends object>(sum: T, more: T): void {
  for (const [name, value] of Object.entries(more)) {
    const target = sum as Record<string, unknown>;
    if (typeof value === "number") target[name] = Number(target[name] ?? 0) + value;
    else addCounts(target[name] as object, value as object);
  }
}

export const disturbances = ({ deaths, freezes }: BackendCounts): number => deaths + freezes;

/** All scenarios and backends together. */
export function totals(counts: CampaignCounts): Omit<BackendCounts, "scenarios"> & ScenarioCounts {
  const all = noBackendCounts();
  for (const backend of Object.values(counts)) addCounts(all, backend);
  const { scenarios, ...rest } = all;
  const sum = noScenario();
  for (const scenario of Object.values(scenarios)) addCounts(sum, scenario);
  return { ...rest, ...sum };
}
