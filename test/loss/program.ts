/** A graph that counts to 200, one superstep each, in a process that may kill itself in the middle. */

import { setImmediate as nextTurn } from "node:timers/promises";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { type Checkpointer, run } from "holdfast";
import { jsonl } from "holdfast/checkpointers/jsonl";
import { memory } from "holdfast/checkpointers/memory";
import { sqlite } from "holdfast/checkpointers/sqlite";

/** Backends and their settings for durability. */
export const stores: Readonly<Record<string, (path: string) => Promise<Checkpointer>>> = {
  "sqlite FULL": (path) => sqlite(path, { synchronous: "FULL" }),
  "sqlite NORMAL": (path) => sqlite(path, { synchronous: "NORMAL" }),
  "sqlite OFF": (path) => sqlite(path, { synchronous: "OFF" }),
  "jsonl fsync": (path) => jsonl(path, { fsync: true }),
  "jsonl no fsync": (path) => jsonl(path, { fsync: false }),
};

export type Durability = "sync" | "async" | "exit";

export const STEPS = 200;
/** Supersteps that were finished when the process died. */
export const FINISHED = 150;

const State = Annotation.Root({ n: Annotation<number>() });

export const config = (durability: Durability) => ({
  configurable: { thread_id: "t" },
  durability,
  recursionLimit: 1000,
});

export const input = { n: 0 };

/** With `turns` a node gives the event loop a turn, as every node does that waits for the outside world. */
export function counting(checkpointer: Checkpointer, dies: boolean, turns: boolean) {
  return new StateGraph(State)
    .addNode("count", async ({ n }) => {
      if (dies && n === FINISHED) process.kill(process.pid, "SIGKILL");
      if (turns) await nextTurn();
      return { n: n + 1 };
    })
    .addEdge(START, "count")
    .addConditionalEdges("count", ({ n }) => (n < STEPS ? "count" : END))
    .compile({ checkpointer });
}

const [store = "", durability, turns, path = ""] = process.argv.slice(2);
const open = store === "memory" ? async () => memory() : stores[store];
if (open !== undefined) {
  await run(counting(await open(path), true, turns === "turns"), input, config(durability as Durability));
}
