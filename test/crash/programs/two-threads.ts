/** Two threads at once in one process: their commits share groups, and a kill meets both wherever they stand. */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { reportResult } from "holdfast/testing";
import { goOn, open } from "./play.ts";
import { send } from "./world.ts";

const State = Annotation.Root({
  name: Annotation<string>,
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

const checkpointer = await open();
const app = new StateGraph(State)
  .addNode("one", async ({ name }) => ({ log: [await send({ what: `${name} one` })] }))
  .addNode("two", async () => ({ log: ["two"] }))
  .addNode("three", async ({ name }) => ({ log: [await send({ what: `${name} three` })] }))
  .addEdge(START, "one")
  .addEdge("one", "two")
  .addEdge("two", "three")
  .addEdge("three", END)
  .compile({ checkpointer });

const play = (name: string) => goOn(checkpointer, { app, thread: name, input: { name } });
reportResult(await Promise.all([play("left"), play("right")]));
await checkpointer.close();
