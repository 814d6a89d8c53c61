/** A run of the queue: started under a key, executed by a worker of each life, answered in another life than the one that asked. */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { ask } from "holdfast";
import { createRuntime } from "holdfast/runs";
import { faultPoint, reportResult, START_AGAIN } from "holdfast/testing";
import { durability, open } from "./play.ts";
import { send, sendAgain } from "./world.ts";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

const checkpointer = await open();
const order = new StateGraph(State)
  .addNode("charge", async () => ({ log: [await send({ what: "charge" })] }))
  .addNode("ask", async () => ({ log: [`ship: ${(await ask("Ship it?")).decision}`] }))
  .addNode("ship", async () => ({ log: [await sendAgain({ what: "ship" })] }))
  .addEdge(START, "charge")
  .addEdge("charge", "ask")
  .addEdge("ask", "ship")
  .addEdge("ship", END)
  .compile({ checkpointer });

const runtime = createRuntime({ checkpointer, graphs: { order }, config: () => ({ durability }) as object });
const { run } = await runtime.start("order", { log: ["input"] }, { threadId: "queue", key: "order 1" });
for (const { id } of await checkpointer.waits({ thread: "queue", status: ["open"] }))
  await checkpointer.answer(id, { type: "approve" }, { by: "ana" });
runtime.worker({ pollMs: 20, takeoverMs: 20 }).start();
const { status, error } = await runtime.wait(run.id);
await runtime.close();
if (status === "succeeded") reportResult((await order.getState({ configurable: { thread_id: "queue" } })).values);
else if (status === "waiting") process.exitCode = START_AGAIN;
else throw new Error(`the run is ${status}: ${JSON.stringify(error)}`);
faultPoint("before-close");
await checkpointer.close();
