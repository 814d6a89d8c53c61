/** A node fails after it has charged a card. The node runs again; the card is not charged again. */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { effect, run } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { z } from "zod";

const charge = effect("charge-card", {
  input: z.object({ order: z.string(), cents: z.number() }),
  output: z.object({ chargeId: z.string() }),
  run: async ({ order, cents }, { idempotencyKey }) => {
    console.log(`bank: charging ${cents} cents for ${order}, key of ${idempotencyKey.length} characters`);
    return { chargeId: `charge-${order}` };
  },
});

const State = Annotation.Root({ order: Annotation<string>(), chargeId: Annotation<string>() });
let attempts = 0;

const app = new StateGraph(State)
  .addNode("pay", async ({ order }) => {
    attempts += 1;
    const { value, cached } = await charge.outcome({ order, cents: 12_900 });
    console.log(`node: attempt ${attempts}, ${value.chargeId}, ${cached ? "from the record" : "charged just now"}`);
    if (attempts === 1) throw new Error("the next line of the node has a bug");
    return { chargeId: value.chargeId };
  })
  .addEdge(START, "pay")
  .addEdge("pay", END)
  .compile({ checkpointer: memory() });

const config = { configurable: { thread_id: "t1" } };
await run(app, { order: "order-1" }, config).catch((error: Error) => console.log(`run: ${error.message}`));
const result = await run(app, null, config);
console.log(`run: ${result.status}, ${result.values.chargeId}`);
