/** A graph with one effect, which an independent counter counts. */

import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { type Checkpointer, effect } from "holdfast";
import { count, counted } from "holdfast/testing";
import { z } from "zod";

const State = Annotation.Root({ receipt: Annotation<string>() });

interface Holds {
  readonly before?: () => Promise<void>;
  readonly after?: () => Promise<void>;
}

/** @param idempotent whether the receiver counts a key only once */
export function charging(checkpointer: Checkpointer, { before, after }: Holds = {}, idempotent = false) {
  const charge = effect("charge", {
    input: z.string(),
    run: async (card, { idempotencyKey }) => {
      await before?.();
      await count(card, { idempotencyKey, idempotent });
      await after?.();
      return `charged ${card}`;
    },
    verify: async (card, { idempotencyKey }) =>
      (await counted(card, idempotencyKey)) > 0 ? `charged ${card}` : undefined,
  });
  return new StateGraph(State)
    .addNode("charge", async () => ({ receipt: await charge("card 1") }))
    .addEdge(START, "charge")
    .compile({ checkpointer });
}
