/** Two questions in one node, each answered by another process than the one that asked; effects around them run once. */

import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { main } from "./play.ts";
import { send } from "./world.ts";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

await main((checkpointer) => ({
  app: new StateGraph(State)
    .addNode("prepare", async () => ({ log: [await send({ what: "draft" })] }))
    .addNode("ask", async () => {
      const quote = await send({ what: "quote" });
      const price = interrupt("price?") as number;
      const booked = await send({ what: `booking at ${price}` });
      const address = interrupt("address?") as string;
      return { log: [quote, booked, `to ${address}`] };
    })
    .addNode("ship", async () => ({ log: [await send({ what: "parcel" })] }))
    .addEdge(START, "prepare")
    .addEdge("prepare", "ask")
    .addEdge("ask", "ship")
    .addEdge("ship", END)
    .compile({ checkpointer }),
  thread: "interrupt",
  input: { log: ["input"] },
  answers: { "price?": 42, "address?": "the harbour" },
}));
