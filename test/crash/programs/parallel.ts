/** A fan-out of four Sends with an effect each; the order in which a reducer sees them must survive a kill. */

import { Annotation, END, Send, START, StateGraph } from "@langchain/langgraph";
import { nodeStarted } from "holdfast/testing";
import { main } from "./play.ts";
import { send } from "./world.ts";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
  parts: Annotation<string[]>,
});
const Part = Annotation.Root({ part: Annotation<string> });

await main((checkpointer) => ({
  app: new StateGraph(State)
    .addNode("split", async () => {
      await nodeStarted("split", 1);
      return { parts: ["c", "a", "d", "b"], log: ["split"] };
    })
    .addNode(
      "work",
      async ({ part }: typeof Part.State) => {
        await nodeStarted(`work ${part}`, 2);
        // Later parts answer first, so the order of completion is not the order of the tasks.
        for (let turns = part === "c" ? 4 : 0; turns > 0; turns--) await new Promise(setImmediate);
        return { log: [await send({ what: `part ${part}` })] };
      },
      { input: Part },
    )
    .addNode("join", async ({ log }) => {
      await nodeStarted("join", 3);
      return { log: [await send({ what: `join of ${log.length}` })] };
    })
    .addEdge(START, "split")
    .addConditionalEdges("split", ({ parts }) => parts.map((part) => new Send("work", { part })), ["work"])
    .addEdge("work", "join")
    .addEdge("join", END)
    .compile({ checkpointer }),
  thread: "parallel",
  input: { log: [] },
}));
