/**
 * A finished order is forked before its charge with another address, and then into a new thread as it was. The charge is
 * made once for all three; the label of the other address is made after a person, another process, has agreed.
 */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { timeTravel } from "holdfast";
import { faultPoint, reportResult, START_AGAIN } from "holdfast/testing";
import { goOn, open } from "./play.ts";
import { send } from "./world.ts";

const State = Annotation.Root({
  address: Annotation<string>,
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

const checkpointer = await open();
const app = new StateGraph(State)
  .addNode("plan", () => ({ log: ["plan ".repeat(100)] }))
  .addNode("charge", async () => ({ log: [await send({ what: "charge" })] }))
  .addNode("label", async ({ address }) => ({ log: [await send({ what: `label for ${address}` })] }))
  .addEdge(START, "plan")
  .addEdge("plan", "charge")
  .addEdge("charge", "label")
  .addEdge("label", END)
  .compile({ checkpointer });
const travel = timeTravel(app);

/** The last checkpoint of the order's first run from which the charge is made; and whether there is a branch already. */
async function look() {
  let place = "";
  let forked = false;
  for await (const { next, checkpoint, fork } of travel.history("order")) {
    if (next[0] === "charge") place = checkpoint;
    forked ||= fork !== undefined;
  }
  return { place, forked };
}

async function play(): Promise<unknown> {
  const input = { address: "the office" };
  if (!(await look()).forked) {
    await goOn(checkpointer, { app, thread: "order", input });
    faultPoint("before-fork");
    await travel.fork("order", (await look()).place, { values: { address: "the harbour" } });
    faultPoint("after-fork");
  }
  for (const { id, kind } of await checkpointer.waits({ thread: "order", status: ["open"] })) {
    if (kind === "question") await checkpointer.answer(id, { type: "approve" }, { by: "ada" });
  }
  const branch = await goOn(checkpointer, { app, thread: "order", input: null });
  if (branch === undefined) return undefined;
  if ((await app.getState({ configurable: { thread_id: "copy" } })).createdAt === undefined) {
    await travel.fork("order", (await look()).place, { to: "copy" });
    faultPoint("after-copy");
  }
  const copy = await goOn(checkpointer, { app, thread: "copy", input: null });
  return copy === undefined ? undefined : { branch, copy };
}

const result = await play();
if (result === undefined) process.exitCode = START_AGAIN;
else reportResult(result);
await checkpointer.close();
