/** The same effect with the same input on each of four turns: four executions, not one and not five. */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { nodeStarted } from "holdfast/testing";
import { main } from "./play.ts";
import { send } from "./world.ts";

const State = Annotation.Root({
  turn: Annotation<number>,
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

await main((checkpointer) => ({
  app: new StateGraph(State)
    .addNode("tick", async ({ turn }) => {
      await nodeStarted(`tick ${turn}`, turn + 1);
      // Twice in one task as well: equal calls are told apart by their order.
      await send({ what: "tick" });
      return { turn: turn + 1, log: [`${turn}: ${await send({ what: "tick" })}`] };
    })
    .addEdge(START, "tick")
    .addConditionalEdges("tick", ({ turn }) => (turn < 4 ? "tick" : END), ["tick", END])
    .compile({ checkpointer }),
  thread: "loop",
  input: { turn: 0 },
}));
