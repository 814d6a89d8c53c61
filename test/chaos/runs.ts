/** Many graph runs with effects while a server is disturbed: every run ends, every effect happened once, nothing is lost. */

import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { type Checkpointer, effect } from "holdfast";
import { expect } from "vitest";
import { z } from "zod";

const State = Annotation.Root({
  n: Annotation<number>,
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

const FIRST_STEPS = 3;
/** Runs at a time: more than the connections of a pool. */
const WIDTH = 16;
const LEAST_DISTURBANCES = 3;

export interface Disturbance {
  /** Disturbs the server once, and resolves when it is as it was. */
  once(): Promise<void>;
  /** Between two disturbances, in milliseconds. */
  readonly everyMs: readonly [least: number, most: number];
}

/** Runs at least `runs` threads to their end; every call that fails is made again, as a supervisor would. */
export async function surviveDisturbance(saver: Checkpointer, runs: number, disturbance: Disturbance): Promise<void> {
  const happened = new Map<string, number>();
  const work = effect("work", {
    input: z.object({ what: z.string() }),
    run: async ({ what }) => {
      happened.set(what, (happened.get(what) ?? 0) + 1);
      await new Promise((resolve) => setTimeout(resolve, 1));
      return `did ${what}`;
    },
    verify: ({ what }) => (happened.has(what) ? `did ${what}` : undefined),
  });
  const app = new StateGraph(State)
    .addNode("count", async ({ n }) => ({ n: n + 1, log: [`count ${n}`] }))
    .addNode("charge", async (_state, { configurable }) => ({
      log: [await work({ what: `charge ${String(configurable?.["thread_id"])}` })],
    }))
    .addNode("mail", async (_state, { configurable }) => ({
      log: [await work({ what: `mail ${String(configurable?.["thread_id"])}` })],
    }))
    .addEdge(START, "count")
    .addConditionalEdges("count", ({ n }) => (n < FIRST_STEPS ? "count" : "charge"))
    .addEdge("charge", "mail")
    .compile({ checkpointer: saver });

  let ended = false;
  let disturbed = 0;
  const disturbing = (async () => {
    const [least, most] = disturbance.everyMs;
    while (!ended) {
      await new Promise((resolve) => setTimeout(resolve, least + Math.random() * (most - least)));
      if (ended) return;
      await disturbance.once();
      disturbed += 1;
    }
  })();

  const failures = new Map<string, number>();
  const one = async (thread: string): Promise<void> => {
    const config = { configurable: { thread_id: thread }, durability: "sync" as const };
    for (;;) {
      try {
        const begun = (await app.getState(config)).values as { log?: string[] };
        const { log } = await app.invoke(begun.log === undefined ? { n: 0 } : null, config);
        expect(log).toEqual(["count 0", "count 1", "count 2", `did charge ${thread}`, `did mail ${thread}`]);
        return;
      } catch (error) {
        const { code, retryable } = error as { code?: string; retryable?: boolean };
        if (retryable !== true) throw error;
        failures.set(String(code), (failures.get(String(code)) ?? 0) + 1);
      }
    }
  };
  // A quick machine is through with `runs` before enough has happened to it: it goes on until it has.
  let made = 0;
  const lane = async () => {
    while (made < runs || disturbed < LEAST_DISTURBANCES) await one(`thread ${made++}`);
  };
  try {
    await Promise.all(Array.from({ length: WIDTH }, lane));
  } finally {
    ended = true;
    await disturbing;
  }
  console.log(
    `${made} runs, ${disturbed} disturbances, calls that failed and were repeated: ${JSON.stringify([...failures])}`,
  );
  expect(happened.size).toBe(2 * made);
  expect([...happened].filter(([, times]) => times !== 1)).toEqual([]);
  for (const thread of ["thread 0", `thread ${made - 1}`]) {
    expect((await saver.effects({ thread })).map(({ status }) => status)).toEqual(["done", "done"]);
  }
}
