/** A subgraph as a node, and one called from a node's body, with effects inside, before and after. */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { nodeStarted } from "holdfast/testing";
import { main } from "./play.ts";
import { send } from "./world.ts";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});
const Inner = Annotation.Root({
  name: Annotation<string>,
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

/** Two steps with an effect each. */
const inner = (name: string, step: number) =>
  new StateGraph(Inner)
    .addNode("first", async () => {
      await nodeStarted(`${name} first`, step);
      return { log: [await send({ what: `${name} first` })] };
    })
    .addNode("second", async () => {
      await nodeStarted(`${name} second`, step + 1);
      return { log: [await send({ what: `${name} second` })] };
    })
    .addEdge(START, "first")
    .addEdge("first", "second")
    .addEdge("second", END)
    .compile();

const asNode = inner("node", 2);
const called = inner("called", 4);

await main((checkpointer) => ({
  app: new StateGraph(State)
    .addNode("before", async () => {
      await nodeStarted("before", 1);
      return { log: [await send({ what: "before" })] };
    })
    .addNode("inner", asNode)
    .addNode("caller", async () => {
      const { log } = await called.invoke({ name: "called", log: [] });
      return { log: [`caller saw ${log.join(", ")}`, await send({ what: "after" })] };
    })
    .addEdge(START, "before")
    .addEdge("before", "inner")
    .addEdge("inner", "caller")
    .addEdge("caller", END)
    .compile({ checkpointer }),
  thread: "subgraph",
  input: { log: ["input"] },
}));
