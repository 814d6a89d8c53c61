/**
 * What a round does to its workers and threads, all of it from a seed: which scenarios, how many workers, how each of their
 * lives is disturbed, at which moments and how it ends. What the operating system makes of it, which thread is where at that
 * moment, is not part of the plan and differs from run to run.
 */

import { Random } from "./random.ts";

export const campaignBackends = ["sqlite", "postgres", "redis"] as const;
export type CampaignBackend = (typeof campaignBackends)[number];

export const scenarioNames = [
  "plain",
  "parallel",
  "subgraph",
  "question",
  "double",
  "deadline",
  "cancel",
  "drain",
  "delete",
  "timer",
  "fork",
] as const;
export type ScenarioName = (typeof scenarioNames)[number];

export const HOUR_MS = 3_600_000;

/** Where a worker stands still: after so many milliseconds of its service, or at a fault point that it reaches. */
export type Moment = { readonly afterMs: number } | { readonly point: string };

export interface Freeze {
  readonly at: Moment;
  /** At least so long; where another worker takes over, until it has. */
  readonly forMs: number;
}

/** One worker process, from its first claim to its end. */
export interface LifePlan {
  /** The commit groups that fail: `before` nothing is stored, `after` it is stored and the answer is an error. */
  readonly faults: readonly { readonly commit: number; readonly mode: "before" | "after" }[];
  readonly clock: { readonly afterMs: number; readonly byMs: number } | undefined;
  readonly freezes: readonly Freeze[];
  /** SIGKILL or SIGTERM at this time, and SIGKILL at the point if that is reached earlier. */
  readonly end: { readonly kind: "kill" | "drain"; readonly afterMs: number; readonly point: string | undefined };
}

export interface ThreadPlan {
  readonly thread: string;
  readonly scenario: ScenarioName;
  /** When somebody outside acts on it: answers, cancels, deletes; counted from what they react to. */
  readonly actAfterMs: number;
  /** Which decision an answerer gives, see the scenarios. */
  readonly answers: boolean;
}

export interface RoundPlan {
  readonly seed: number;
  readonly backend: CampaignBackend;
  readonly workers: number;
  life(slot: number, life: number): LifePlan;
  thread(index: number): ThreadPlan;
}

const CLOCKS = [-HOUR_MS, HOUR_MS];

export function roundPlan(seed: number, backend: CampaignBackend): RoundPlan {
  return {
    seed,
    backend,
    workers: new Random(seed, backend, "workers").pick([1, 2, 3, 3, 4]),
    life: (slot, life) => lifePlan(new Random(seed, backend, "life", slot, life)),
    thread: (index) => threadPlan(seed, backend, index),
  };
}

function lifePlan(random: Random): LifePlan {
  const drains = random.chance(0.08);
  return {
    faults: Array.from({ length: random.pick([0, 1, 1, 2]) }, () => ({
      commit: random.whole(1, 30),
      mode: random.pick(["before", "after"] as const),
    })),
    clock: random.chance(0.2) ? { afterMs: random.whole(0, 2000), byMs: random.pick(CLOCKS) } : undefined,
    freezes: Array.from({ length: random.pick([1, 2, 3, 4]) }, () => ({
      at: random.chance(0.35) ? { point: pointIn(random) } : { afterMs: random.whole(100, 4500) },
      forMs: random.whole(20, 400),
    })),
    end: {
      kind: drains ? "drain" : "kill",
      afterMs: random.whole(800, 5000),
      point: !drains && random.chance(0.7) ? pointIn(random) : undefined,
    },
  };
}

const PLACES = ["before", "inside", "after"] as const;

function pointIn(random: Random): string {
  const place = random.pick(PLACES);
  if (random.chance(0.4)) return `commit:${random.whole(1, 40)}:${place}`;
  return `effect:${random.pick(["send", "send", "send-again"])}:${random.whole(1, 6)}:${place}`;
}

/** Every scenario comes once in each handful of threads, in an order of its own. */
function threadPlan(seed: number, backend: CampaignBackend, index: number): ThreadPlan {
  const handful = Math.floor(index / scenarioNames.length);
  const order = new Random(seed, backend, "order", handful).shuffled(scenarioNames);
  const scenario = order[index % scenarioNames.length] as ScenarioName;
  const random = new Random(seed, backend, "thread", index);
  return {
    thread: `${scenario}-${index}`,
    scenario,
    actAfterMs: random.whole(0, 400),
    answers: random.chance(0.85),
  };
}
