/** A thread is deleted when it is finished, and its id is used again: what the first life did is not the second's. */

import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { faultPoint, reportResult, stateDirectory } from "holdfast/testing";
import { goOn, open } from "./play.ts";
import { send } from "./world.ts";

const State = Annotation.Root({
  life: Annotation<string>,
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

const checkpointer = await open();
const app = new StateGraph(State)
  // The same input in both lives: after the deletion no record of the first may answer for the second.
  .addNode("greet", async () => ({ log: [await send({ what: "greeting" })] }))
  .addNode("work", async ({ life }) => ({ log: [await send({ what: `work of the ${life} life` })] }))
  .addEdge(START, "greet")
  .addEdge("greet", "work")
  .addEdge("work", END)
  .compile({ checkpointer });

const first = join(stateDirectory(), "first-life-over");
const deleted = join(stateDirectory(), "deleted");
if (!existsSync(first)) {
  await goOn(checkpointer, { app, thread: "phoenix", input: { life: "first" } });
  writeFileSync(first, "");
}
if (!existsSync(deleted)) {
  faultPoint("before-delete");
  await checkpointer.deleteThread("phoenix");
  faultPoint("after-delete");
  const gone = await app.getState({ configurable: { thread_id: "phoenix" } });
  if (gone.createdAt !== undefined) throw new Error("the thread is still there after its deletion");
  writeFileSync(deleted, "");
}
reportResult(await goOn(checkpointer, { app, thread: "phoenix", input: { life: "second" } }));
await checkpointer.close();
