/** A graph whose decision is followed by one effect, which an independent counter counts. */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { ask, type Checkpointer, effect } from "holdfast";
import { count, counted } from "holdfast/testing";
import { z } from "zod";

const NoticeState = Annotation.Root({
  subject: Annotation<string>(),
  decision: Annotation<string>(),
  sent: Annotation<string>(),
});

const send = effect("send", {
  input: z.object({ subject: z.string() }),
  run: async ({ subject }, { idempotencyKey }) => {
    await count(subject, { idempotencyKey });
    return `sent ${subject}`;
  },
  verify: async ({ subject }, { idempotencyKey }) =>
    (await counted(subject, idempotencyKey)) > 0 ? `sent ${subject}` : undefined,
});

/** Sends a notice whatever was decided, so that it can be counted for any decision. */
export function notice(checkpointer: Checkpointer) {
  return new StateGraph(NoticeState)
    .addNode("ask", async ({ subject }) => {
      const { decision, by } = await ask("Send it?", { details: { subject } });
      return { decision: `${decision} by ${by}` };
    })
    .addNode("send", async ({ subject }) => ({ sent: await send({ subject }) }))
    .addEdge(START, "ask")
    .addEdge("ask", "send")
    .addEdge("send", END)
    .compile({ checkpointer });
}
