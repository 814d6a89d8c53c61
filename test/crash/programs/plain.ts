/**
 * Five nodes in a row, three of them with an effect, and a text long enough to be stored apart. With a third argument,
 * "unrecorded", the same nodes act without `effect`.
 */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { nodeStarted } from "holdfast/testing";
import { durability, main } from "./play.ts";
import { send, sendAgain, sendUnrecorded } from "./world.ts";

const unrecorded = process.argv[4] === "unrecorded";
const act = unrecorded ? sendUnrecorded : send;
const actAgain = unrecorded ? sendUnrecorded : sendAgain;

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
  text: Annotation<string>,
});

/** In async durability a finished node without an effect may run again, so there only the effects are watched. */
const began = async (name: string, step: number) => {
  if (durability === "sync") await nodeStarted(name, step);
};

await main((checkpointer) => ({
  app: new StateGraph(State)
    .addNode("plan", async () => {
      await began("plan", 1);
      return { log: ["plan"], text: "a long text ".repeat(100) };
    })
    .addNode("charge", async () => {
      await began("charge", 2);
      return { log: [await act({ what: "charge" })] };
    })
    .addNode("think", async ({ text }) => {
      await began("think", 3);
      return { log: [`thought about ${text.length}`] };
    })
    .addNode("mail", async () => {
      await began("mail", 4);
      return { log: [await actAgain({ what: "mail" })] };
    })
    .addNode("file", async () => {
      await began("file", 5);
      return { log: [await act({ what: "file" })] };
    })
    .addEdge(START, "plan")
    .addEdge("plan", "charge")
    .addEdge("charge", "think")
    .addEdge("think", "mail")
    .addEdge("mail", "file")
    .addEdge("file", END)
    .compile({ checkpointer }),
  thread: "plain",
  input: { log: ["input"] },
}));
