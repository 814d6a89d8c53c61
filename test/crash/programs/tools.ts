/** An agent with a scripted model: two tools in one turn, one more, then the answer; each tool is an effect. */

import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import type { ChatResult } from "@langchain/core/outputs";
import { tool } from "@langchain/core/tools";
import { createAgent } from "langchain";
import { z } from "zod";
import { main } from "./play.ts";
import { send } from "./world.ts";

const script = [
  [
    { name: "charge", args: { what: "charge 17" } },
    { name: "reserve", args: { what: "reserve 17" } },
  ],
  [{ name: "mail", args: { what: "mail 17" } }],
];

/** Says what its script says at this point of the dialogue; keeps nothing in memory. */
class ScriptedModel extends BaseChatModel {
  constructor() {
    super({});
  }

  override _llmType(): string {
    return "scripted";
  }

  override bindTools(): this {
    return this;
  }

  override async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const turn = messages.filter((message) => message.type === "ai").length;
    const calls = (script[turn] ?? []).map((call, i) => ({
      ...call,
      id: `call-${turn}-${i}`,
      type: "tool_call" as const,
    }));
    const message = new AIMessage({ content: calls.length > 0 ? "" : "all done", tool_calls: calls, id: `ai-${turn}` });
    return { generations: [{ text: "", message }] };
  }
}

const sending = (name: string) =>
  tool(async ({ what }: { what: string }) => send({ what }), {
    name,
    description: name,
    schema: z.object({ what: z.string() }),
  });

await main(
  (checkpointer) => ({
    app: createAgent({
      model: new ScriptedModel(),
      tools: [sending("charge"), sending("reserve"), sending("mail")],
      checkpointer,
    }).graph,
    thread: "tools",
    input: { messages: [{ role: "user", content: "order 17, please", id: "user-0" }] },
  }),
  // Tool messages get random ids.
  (values) => (values as { messages: BaseMessage[] }).messages.map((message) => [message.type, message.content]),
);
