/** Three replays from before a charge. The graph runs four times, and the card is charged once. */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { effect, timeTravel } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { z } from "zod";

let charges = 0;
const charge = effect("charge-card", {
  input: z.object({ order: z.string(), cents: z.number() }),
  run: async ({ order, cents }) => {
    charges += 1;
    console.log(`  bank: charging ${cents} cents for ${order}`);
    return { chargeId: `charge-${charges}` };
  },
});

const State = Annotation.Root({
  order: Annotation<string>(),
  cents: Annotation<number>(),
  chargeId: Annotation<string>(),
});
const app = new StateGraph(State)
  .addNode("price", () => ({ cents: 12_900 }))
  .addNode("pay", ({ order, cents }) => charge({ order, cents }))
  .addEdge(START, "price")
  .addEdge("price", "pay")
  .addEdge("pay", END)
  .compile({ checkpointer: memory() });

const config = { configurable: { thread_id: "t1" } };
console.log("first run");
console.log(`  ${(await app.invoke({ order: "order-1" }, config)).chargeId}`);

const travel = timeTravel(app);
let beforePay = "";
for await (const { checkpoint, next } of travel.history("t1")) if (next[0] === "pay") beforePay = checkpoint;

// LangGraph's own replay: plain `invoke` at an older checkpoint.
for (const replay of [1, 2, 3]) {
  console.log(`replay ${replay}`);
  const old = { configurable: { thread_id: "t1", checkpoint_id: beforePay } };
  console.log(`  ${(await app.invoke(null, old)).chargeId}`);
}

console.log(`charges: ${charges}`);
for await (const { effects } of travel.history("t1")) {
  for (const { name, deed, left } of effects)
    console.log(`${name}: ${deed}${left ? ", on a branch that was left" : ""}`);
}
