/** A store that answers late: what it says is what was there when it was asked. */

import { Annotation, Send, START, StateGraph } from "@langchain/langgraph";
import { type Backend, effect } from "holdfast";
import { expect, test } from "vitest";
import { z } from "zod";
import { newStore } from "../backends-table.ts";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

/** Answers a question about the effects of a thread some turns of the event loop after it has looked. */
function late(backend: Backend): Backend {
  return new Proxy(backend, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      if (name !== "effects") return value.bind(target) as unknown;
      return async (query: Parameters<Backend["effects"]>[0]) => {
        const rows = await target.effects(query);
        if ("thread" in query) for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
        return rows;
      };
    },
  });
}

test("an outcome that one call on a branch has taken is not taken by another one, however late the store answers", async () => {
  const saver = await (await newStore("memory")).open(undefined, late);
  let bodies = 0;
  const ping = effect("ping", { input: z.string(), run: () => `pong ${++bodies}` });
  const fan = { out: 2 };
  const app = new StateGraph(State)
    .addNode("a", () => ({}))
    .addNode("w", async () => ({ log: await Promise.all([ping("x"), ping("x")]) }))
    .addEdge(START, "a")
    .addConditionalEdges("a", () => Array.from({ length: fan.out }, (_, n) => new Send("w", { n })), ["w"])
    .compile({ checkpointer: saver });
  const thread = { configurable: { thread_id: "t" } };
  await app.invoke({ log: [] }, thread);
  expect(bodies).toBe(4);
  fan.out = 3;
  const start = [];
  for await (const { next, config } of app.getStateHistory(thread)) if (next[0] === "a") start.push(config);
  const { log } = await app.invoke(null, start[0] as never);
  expect(bodies).toBe(6);
  expect(new Set(log).size).toBe(6);
});
