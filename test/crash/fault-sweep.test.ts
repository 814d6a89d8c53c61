/** Every commit of a scenario fails, in every way a commit can fail. */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { type Backend, Checkpointer, effect, isHoldfastError, run } from "holdfast";
import { type FaultScenario, faultSweep } from "holdfast/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { newStore, type Store, storeNames } from "../backends-table.ts";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

/** Three nodes, two effects; the outside world is a map that counts. */
class World {
  readonly executed = new Map<string, number>();
  readonly keys = new Set<string>();

  readonly #verified = effect("verified", {
    input: z.string(),
    run: (what, { idempotencyKey }) => this.#act(what, idempotencyKey),
    verify: (what, { idempotencyKey }) => (this.keys.has(idempotencyKey) ? `did ${what}` : undefined),
  });

  readonly #blind = effect("blind", {
    input: z.string(),
    run: (what, { idempotencyKey }) => this.#act(what, idempotencyKey),
  });

  #act(what: string, key: string): string {
    this.executed.set(what, (this.executed.get(what) ?? 0) + 1);
    this.keys.add(key);
    return `did ${what}`;
  }

  graph(checkpointer: Checkpointer) {
    return new StateGraph(State)
      .addNode("charge", async () => ({ log: [await this.#verified("charge")] }))
      .addNode("think", () => ({ log: ["thought ".repeat(100)] }))
      .addNode("mail", async () => ({ log: [await this.#blind("mail")] }))
      .addEdge(START, "charge")
      .addEdge("charge", "think")
      .addEdge("think", "mail")
      .addEdge("mail", END)
      .compile({ checkpointer });
  }
}

const finalLog = ["input", "did charge", "thought ".repeat(100), "did mail"];

interface Recovered {
  readonly world: World;
  readonly log: unknown;
  /** Whether the thread was finished before anything was recovered. */
  readonly finishedBefore: boolean;
}

interface Swept {
  readonly world: World;
  readonly thread: string;
  readonly durability: "sync" | "async";
}

async function play({ world, thread, durability }: Swept, checkpointer: Checkpointer) {
  const app = world.graph(checkpointer);
  const config = { configurable: { thread_id: thread }, durability };
  const { createdAt } = await app.getState(config);
  return run(app, createdAt === undefined ? { log: ["input"] } : null, config);
}

/** Goes on until the thread is finished; what parks is settled by looking at the world. */
async function recover(swept: Swept, backend: Backend): Promise<Recovered> {
  const { world, thread } = swept;
  const checkpointer = new Checkpointer(backend);
  const before = await world.graph(checkpointer).getState({ configurable: { thread_id: thread } });
  const finishedBefore = before.createdAt !== undefined && before.tasks.length === 0;
  for (let tries = 0; tries < 5; tries++) {
    const { status, values } = await play(swept, checkpointer);
    if (status !== "parked") return { world, log: (values as { log: unknown }).log, finishedBefore };
    for (const { key, status: state, name } of await checkpointer.effects({ thread })) {
      if (name !== "blind" || (state !== "intent" && state !== "failed")) continue;
      await checkpointer.settle(key, world.keys.has(key) ? { done: "did mail" } : { notDone: true }, {
        by: "operator",
      });
    }
  }
  throw new Error("still parked after five tries");
}

/** On a thread of its own. */
async function scenarioOn(store: Store, swept: Swept): Promise<FaultScenario<Recovered>> {
  const backend = await store.backend();
  let again: Backend | undefined;
  return {
    backend,
    run: (faulty) => play(swept, new Checkpointer(faulty)),
    // Another owner of the same store, as after a restart.
    recover: async () => {
      await backend.close();
      again = await store.backend();
      return recover(swept, again);
    },
    close: async () => {
      await backend.close();
      await again?.close();
    },
  };
}

describe.each(storeNames)(
  "on %s, whatever commit fails, in whatever way, nothing is lost, no effect repeated, and the error is typed",
  (name) => {
    test.each(["sync", "async"] as const)("%s durability", { timeout: 300_000 }, async (durability) => {
      const store = await newStore(name);
      let threads = 0;
      const { byMode } = await faultSweep({
        scenario: () => {
          threads += 1;
          return scenarioOn(store, { world: new World(), thread: `swept ${threads}`, durability });
        },
        print: () => {},
        check: ({ error, injected, result: { world, log, finishedBefore } }) => {
          expect(log).toEqual(finalLog);
          expect(Object.fromEntries(world.executed)).toEqual({ charge: 1, mail: 1 });
          if (error !== undefined) expect(isHoldfastError(error), String(error)).toBe(true);
          // A run that reported success was durable, whatever failed on its way.
          if (error === undefined) expect(finishedBefore).toBe(true);
          if (!injected) expect(error).toBeUndefined();
        },
      });
      // Input, start, three nodes; intent and outcome of two effects.
      for (const count of Object.values(byMode)) expect(count).toBeGreaterThanOrEqual(durability === "sync" ? 8 : 5);
    });
  },
);
