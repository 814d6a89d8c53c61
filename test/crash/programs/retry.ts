/** A node under a retry policy whose effect fails twice before it happens, and a failing node with an error handler. */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { main } from "./play.ts";
import { send, sendThirdTime } from "./world.ts";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

await main((checkpointer) => ({
  app: new StateGraph(State)
    .addNode(
      "stubborn",
      async () => {
        const before = await send({ what: "before the retry" });
        return { log: [before, await sendThirdTime({ what: "third time lucky" })] };
      },
      { retryPolicy: { maxAttempts: 8, initialInterval: 5, jitter: false, logWarning: false, retryOn: () => true } },
    )
    .addNode(
      "broken",
      async () => {
        await send({ what: "before the fault" });
        throw new Error("this node never works");
      },
      {
        errorHandler: async () => ({ log: [await send({ what: "apology" })] }),
      },
    )
    .addEdge(START, "stubborn")
    .addEdge("stubborn", "broken")
    .addEdge("broken", END)
    .compile({ checkpointer }),
  thread: "retry",
  input: { log: ["input"] },
}));
