/** An order was paid and shipped to the wrong address. Two edits of its past: one needs no charge, one asks before it makes one. */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { effect, type ForkOptions, run, timeTravel } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { z } from "zod";

const charge = effect("charge-card", {
  input: z.object({ cents: z.number() }),
  run: async ({ cents }) => {
    console.log(`  bank: charging ${cents} cents`);
    return `receipt for ${cents} cents`;
  },
});
const label = effect("print-label", {
  input: z.object({ address: z.string() }),
  onFork: "execute", // a second label does no harm
  run: async ({ address }) => {
    console.log(`  printer: label for ${address}`);
    return `label for ${address}`;
  },
});

const State = Annotation.Root({
  address: Annotation<string>(),
  cents: Annotation<number>(),
  receipt: Annotation<string>(),
  label: Annotation<string>(),
});
const checkpointer = memory();
const app = new StateGraph(State)
  .addNode("pay", async ({ cents }) => ({ receipt: await charge({ cents }) }))
  .addNode("ship", async ({ address }) => ({ label: await label({ address }) }))
  .addEdge(START, "pay")
  .addEdge("pay", "ship")
  .addEdge("ship", END)
  .compile({ checkpointer });
const travel = timeTravel(app);
const thread = "order-1";
const where = { configurable: { thread_id: thread } };

console.log("the order");
await run(app, { address: "the office", cents: 900 }, where);
const places = new Map<string | undefined, string>();
for await (const { checkpoint, next } of travel.history(thread)) places.set(next[0], checkpoint);

/** Shows what a fork would do, makes it, and goes on. */
async function fork(title: string, node: string, options: ForkOptions) {
  console.log(title);
  const place = places.get(node) ?? "";
  const { next, effects } = await travel.preview(thread, place, options);
  console.log(`  preview: ${next.map((task) => task.node).join(", ")} runs first`);
  for (const { effect, same, other } of effects) {
    console.log(
      `  preview: ${effect.name} of ${JSON.stringify(effect.input)}: ${same.does}; with another input: ${other.does}`,
    );
  }
  await travel.fork(thread, place, options);
  return run<typeof State.State>(app, null, where);
}

const moved = await fork("after the charge, another address", "ship", { values: { address: "the harbour" } });
console.log(`  ${moved.status}: ${moved.values.receipt}, ${moved.values.label}`);

const dearer = await fork("before the charge, another amount", "pay", { values: { cents: 1200 } });
console.log(`  ${dearer.status}`);
for (const { id, details } of await checkpointer.waits({ thread, status: ["open"] })) {
  const { input, left } = details as { input: object; left: { input: object; outcome: string } };
  console.log(`  asked: ${JSON.stringify(input)} instead of ${JSON.stringify(left.input)}, ${left.outcome}`);
  await checkpointer.answer(id, { type: "respond", value: { recorded: true } }, { by: "ada" });
}
const finished = await run<typeof State.State>(app, null, where);
console.log(`  ${finished.status}: ${finished.values.receipt}, ${finished.values.label}`);
