/** The module that the tests give to `holdfast worker`. Each node says on a line of its own that it begins. */

import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { ask, type Checkpointer } from "holdfast";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

const say = (node: string) => console.log(JSON.stringify({ event: "node", node }));

/** `hold`: until SIGUSR2 comes. `stuck`: for ever, and it does not listen to its signal. */
async function during(what: string | undefined): Promise<void> {
  if (what === "hold") await new Promise((resolve) => process.once("SIGUSR2", resolve));
  if (what === "stuck") await new Promise(() => setInterval(() => {}, 1000));
  if (what === "throw") throw new TypeError("no such card");
}

export const graphs = (checkpointer: Checkpointer) => ({
  steps: new StateGraph(State)
    .addNode("first", async ({ log }) => {
      // Listens before it says that it does.
      const held = during(log.at(-1));
      say("first");
      await held;
      return { log: ["first"] };
    })
    .addNode("second", () => {
      say("second");
      return { log: ["second"] };
    })
    .addEdge(START, "first")
    .addEdge("first", "second")
    .compile({ checkpointer }),
  asks: new StateGraph(State)
    .addNode("ask", async () => ({ log: [(await ask("Pay?")).decision] }))
    .addEdge(START, "ask")
    .compile({ checkpointer }),
});
