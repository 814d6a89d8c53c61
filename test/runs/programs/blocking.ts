/** Two nodes with an effect each, which an independent counter counts; the first one blocks its event loop after its effect. */

import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { type Checkpointer, effect } from "holdfast";
import { count, counted } from "holdfast/testing";
import { z } from "zod";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

export function blocking(checkpointer: Checkpointer, block: () => void) {
  const act = effect("act", {
    input: z.string(),
    run: async (what, { idempotencyKey }) => {
      await count(what, { idempotencyKey });
      return what;
    },
    verify: async (what, { idempotencyKey }) => ((await counted(what, idempotencyKey)) > 0 ? what : undefined),
  });
  return new StateGraph(State)
    .addNode("first", async () => {
      const done = await act("first");
      block();
      return { log: [done] };
    })
    .addNode("second", async () => ({ log: [await act("second")] }))
    .addEdge(START, "first")
    .addEdge("first", "second")
    .compile({ checkpointer });
}
