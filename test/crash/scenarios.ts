/** The crash scenarios: a program each, and how often each of its effects is to be executed, kills or not. */

import { type CrashEnd, type CrashMatrixOptions, type CrashReport, crashMatrix } from "holdfast/testing";
import { expect, inject } from "vitest";
import { sharedRedis } from "../servers/redis.ts";

/** `official`: LangGraph's own SqliteSaver, with effects and waits in a ledger of ours. */
export type BackendName = "sqlite" | "jsonl" | "postgres" | "redis" | "official";

export interface Scenario {
  readonly name: string;
  /** File in `programs/`, without extension. */
  readonly program: string;
  /** After the backend's name. */
  readonly args?: readonly string[];
  readonly counts: Readonly<Record<string, number>>;
  /** Default: all. One is enough where the scenario is about the engine and not about what is stored. */
  readonly backends?: readonly BackendName[];
}

const once = (...identities: string[]) => Object.fromEntries(identities.map((identity) => [identity, 1]));

export const scenarios: readonly Scenario[] = [
  { name: "five nodes in a row, sync durability", program: "plain", counts: once("charge", "mail", "file") },
  {
    name: "five nodes in a row, async durability",
    program: "plain",
    args: ["async"],
    counts: once("charge", "mail", "file"),
    backends: ["sqlite"],
  },
  {
    name: "a fan-out of Sends",
    program: "parallel",
    counts: once("part a", "part b", "part c", "part d", "join of 5"),
  },
  {
    name: "subgraphs as node and in a node",
    program: "subgraph",
    counts: once("before", "node first", "node second", "called first", "called second", "after"),
    backends: ["sqlite"],
  },
  { name: "a loop with the same effect each turn", program: "loop", counts: { tick: 8 } },
  {
    name: "the functional API",
    program: "functional",
    counts: once("part one", "part two", "part three", "mail"),
    backends: ["sqlite"],
  },
  { name: "tools of an agent", program: "tools", counts: once("charge 17", "reserve 17", "mail 17") },
  {
    name: "questions answered by another process",
    program: "interrupt",
    counts: once("draft", "quote", "booking at 42", "parcel"),
  },
  {
    name: "approvals, a deadline, a timer and an event",
    program: "approval",
    counts: once("draft", "pay approve", "ship to Oslo", "decided by deadline", "rested", "received 42"),
    // A life takes six starts.
    backends: ["sqlite"],
  },
  { name: "a run of the queue, and its answer", program: "queue", counts: once("charge", "ship") },
  { name: "effects settled by an operator", program: "settle", counts: once("letter", "telegram", "fax") },
  {
    name: "a retry policy and an error handler",
    program: "retry",
    counts: once("before the retry", "third time lucky", "before the fault", "apology"),
    backends: ["sqlite"],
  },
  {
    name: "bookings in the database's own transactions",
    program: "transaction",
    counts: once("statement"),
    backends: ["sqlite"],
  },
  {
    name: "a deleted thread whose id is used again",
    program: "delete-thread",
    counts: { greeting: 2, "work of the first life": 1, "work of the second life": 1 },
  },
  {
    name: "a finished order forked in place and into a new thread",
    program: "fork",
    counts: once("charge", "label for the office", "label for the harbour"),
  },
  {
    name: "two threads in one process",
    program: "two-threads",
    counts: once("left one", "left three", "right one", "right three"),
  },
];

/** Kills the scenario's program; its effects must be counted as listed, at the end of every run. */
export async function killScenario(
  scenario: Scenario,
  backend: BackendName,
  options: Partial<CrashMatrixOptions> = {},
): Promise<CrashReport> {
  return crashMatrix({
    program: new URL(`../../dist/bundled/test/crash/programs/${scenario.program}.js`, import.meta.url),
    args: [backend, ...(scenario.args ?? [])],
    env: await serverOf(backend),
    check: ({ counts }: CrashEnd) => expect(counts).toEqual(scenario.counts),
    ...options,
  });
}

async function serverOf(backend: BackendName): Promise<Record<string, string>> {
  if (backend === "postgres") return { HOLDFAST_TEST_POSTGRES: inject("postgresUrl") };
  return backend === "redis" ? { HOLDFAST_TEST_REDIS: (await sharedRedis()).url } : {};
}

/**
 * Two of a scenario's points: for even scenarios an effect's answer on its way and a commit that nobody was told of, for
 * odd ones a body that has ended and half a commit; in a later start where the program has several.
 */
export function twoPoints(all: readonly string[], scenario: number): readonly string[] {
  const pick = (pattern: RegExp, where: number) => {
    const found = all.filter((point) => pattern.test(point));
    return found[Math.floor(where * (found.length - 1))];
  };
  const points =
    scenario % 2 === 0
      ? [pick(/effect:.*:inside$/, 1), pick(/commit:\d+:after$/, 0.75)]
      : [pick(/effect:.*:after$/, 0), pick(/commit:\d+:inside$/, 0.5)];
  const found = points.filter((point) => point !== undefined);
  return found.length === 2 ? found : [...found, ...all.slice(0, 2 - found.length)];
}
