/** The order of parallel branches, stored and read back (S4): a hundred seeds on every backend. */

import { Annotation, DeltaChannel, START, StateGraph } from "@langchain/langgraph";
import type { Checkpointer } from "holdfast";
import { expect, test } from "vitest";
import { newStore, storeNames } from "../backends-table.ts";
import { at } from "./subject.ts";

/** A generator of numbers in [0, 1) that gives the same ones for the same seed. */
function seeded(seed: number): () => number {
  let state = seed + 1;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

/** Up to eight branches, of names in any order, that end in any order, on a plain and on a delta channel. */
function branches(checkpointer: Checkpointer, seed: number) {
  const random = seeded(seed);
  const items = () =>
    new DeltaChannel<string[], string[]>((state, updates) => (state ?? []).concat(...updates), {
      snapshotFrequency: 50,
    });
  const State = Annotation.Root({
    order: Annotation<string>({ reducer: (a, b) => `${a}(${b})`, default: () => "" }),
    items: items as never,
  });
  const graph = new StateGraph(State) as unknown as StateGraph<
    unknown,
    { order: string; items: string[] },
    unknown,
    string
  >;
  const names = Array.from(
    { length: 2 + Math.floor(random() * 7) },
    (_, i) => `${String.fromCharCode(97 + Math.floor(random() * 26))}${i}`,
  );
  for (const name of names) {
    const turns = Math.floor(random() * 4);
    graph.addNode(name, async () => {
      for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
      return { order: name, items: [name] };
    });
    graph.addEdge(START as never, name);
  }
  return graph.compile({ checkpointer });
}

test.each(storeNames)(
  "parallel branches read back in the order in which the live run applied them, on %s",
  async (name) => {
    const store = await newStore(name);
    const first = await store.open();
    const live: unknown[] = [];
    for (let seed = 0; seed < 100; seed += 1) {
      const { order, items } = await branches(first, seed).invoke(
        { order: "in", items: ["in"] } as never,
        at(String(seed), { durability: seed % 2 === 0 ? "sync" : "async" }),
      );
      live.push({ order, items });
    }
    await first.close();
    const second = await store.open();
    for (let seed = 0; seed < 100; seed += 1) {
      expect((await branches(second, seed).getState(at(String(seed)))).values).toEqual(live[seed]);
    }
  },
);
