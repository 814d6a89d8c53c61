/** Effects that nobody can ask about: after a kill in doubt the run parks, and an operator's process settles it. */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { nodeStarted } from "holdfast/testing";
import { main } from "./play.ts";
import { send, sendBlind } from "./world.ts";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

await main((checkpointer) => ({
  app: new StateGraph(State)
    .addNode("letter", async () => {
      await nodeStarted("letter", 1);
      return { log: [await sendBlind({ what: "letter" })] };
    })
    .addNode("both", async () => {
      await nodeStarted("both", 2);
      return { log: await Promise.all([sendBlind({ what: "telegram" }), send({ what: "fax" })]) };
    })
    .addEdge(START, "letter")
    .addEdge("letter", "both")
    .addEdge("both", END)
    .compile({ checkpointer }),
  thread: "settle",
  input: { log: ["input"] },
}));
