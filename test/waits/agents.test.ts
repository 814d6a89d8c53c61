/** Approvals of an agent's calls, also of an agent that another agent calls: each call decided by itself, once. */

import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ask, type Checkpointer, effect } from "holdfast";
import { createAgent, FakeToolCallingModel, humanInTheLoopMiddleware } from "langchain";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { newStore, storeNames } from "../backends-table.ts";
import { at } from "../checkpointer/subject.ts";
import { openWaits } from "./graphs.ts";

const eve = { by: "eve" };

interface Agent {
  invoke(input: unknown, config?: unknown): Promise<{ messages: BaseMessage[] }>;
}

type Call = { readonly id: string; readonly name: string; readonly args: Record<string, unknown> };

/** A model that says these calls, one list a turn. `turn` is the one that comes next; it goes on in another process. */
const model = (turns: readonly (readonly Call[])[], turn = { current: 0 }) =>
  new FakeToolCallingModel({ toolCalls: turns as never, indexRef: turn } as never);

/** What the world has seen, and the tools that reach it. */
function bank(gate: (cents: number) => Promise<string | undefined> = async () => undefined) {
  const paid: number[] = [];
  const charge = effect("charge", { input: z.int(), run: (cents) => paid.push(cents) });
  const pay = tool(
    async ({ cents }: { cents: number }) => (await gate(cents)) ?? `paid ${cents}, ${await charge(cents)}`,
    { name: "pay", description: "pays", schema: z.object({ cents: z.int() }) },
  );
  const reads: string[] = [];
  const read = tool(({ what }: { what: string }) => `${what} ${reads.push(what)}`, {
    name: "read",
    description: "reads",
    schema: z.object({ what: z.string() }),
  });
  return { paid, reads, pay, read, turns: { inner: { current: 0 }, outer: { current: 0 } } };
}

const middleware = () => [
  humanInTheLoopMiddleware({
    interruptOn: { pay: { allowedDecisions: ["approve", "edit", "reject"] } },
  } as never) as never,
];

const payment = (id: string, cents: number): Call => ({ id, name: "pay", args: { cents } });
const reading = (id: string): Call => ({ id, name: "read", args: { what: "balance" } });
const go = { messages: [new HumanMessage("go")] };

/** An agent whose only tool is another agent that begins with reading and then wants to pay. */
function outer(
  saver: Checkpointer,
  { pay, read, turns }: ReturnType<typeof bank>,
): { agent: Agent; inner: () => BaseMessage[] } {
  let said: BaseMessage[] = [];
  const inner = createAgent({
    model: model([[reading("r1")], [payment("p1", 100)], []], turns.inner),
    tools: [pay, read],
    middleware: middleware(),
  }) as unknown as Agent;
  const delegate = tool(
    async () => {
      said = (await inner.invoke(go)).messages;
      return "done";
    },
    { name: "delegate", description: "delegates", schema: z.object({}) },
  );
  const agent = createAgent({
    model: model([[{ id: "d1", name: "delegate", args: {} }], []], turns.outer),
    tools: [delegate],
    checkpointer: saver,
  }) as unknown as Agent;
  return { agent, inner: () => said };
}

const toolCallsOf = (messages: readonly BaseMessage[]) =>
  messages.flatMap((message) => (AIMessage.isInstance(message) ? (message.tool_calls ?? []) : []));
const resultsOf = (messages: readonly BaseMessage[]) =>
  messages.filter((message) => ToolMessage.isInstance(message)).map((message) => String(message.content));

describe.each(storeNames)("%s", (name) => {
  test("an approval of an inner agent's call holds for that call, whatever the agent did before it", async () => {
    const store = await newStore(name);
    const parts = bank();
    const first = await store.open();
    await outer(first, parts).agent.invoke(go, at("t"));
    const [open, ...others] = await openWaits(first);
    expect(others).toEqual([]);
    expect(open).toMatchObject({ name: "pay", details: { cents: 100 } });
    await first.answer(open?.id as string, { type: "approve" }, eve);
    await first.close();
    const second = await store.open();
    await outer(second, parts).agent.invoke(null, at("t"));
    expect(parts).toMatchObject({ paid: [100], reads: ["balance"] });
    expect(await openWaits(second)).toEqual([]);
    expect((await second.waits({ thread: "t" })).map(({ status }) => status)).toEqual(["consumed"]);
  });

  test("an edited call of an inner agent runs instead of the proposed one, and its history shows it as the call", async () => {
    const saver = await (await newStore(name)).open();
    const parts = bank();
    const { agent, inner } = outer(saver, parts);
    await agent.invoke(go, at("t"));
    const [open] = await openWaits(saver);
    await saver.answer(open?.id as string, { type: "edit", value: { cents: 10 } }, eve);
    await agent.invoke(null, at("t"));
    expect(parts.paid).toEqual([10]);
    expect(toolCallsOf(inner()).filter((call) => call.name === "pay")).toMatchObject([{ args: { cents: 10 } }]);
    expect(resultsOf(inner())).toEqual(["balance 1", "paid 10, 1"]);
  });

  test("a rejected call of an inner agent does not run, and the reason reaches the agent", async () => {
    const saver = await (await newStore(name)).open();
    const parts = bank();
    const { agent, inner } = outer(saver, parts);
    await agent.invoke(go, at("t"));
    const [open] = await openWaits(saver);
    await saver.answer(open?.id as string, { type: "reject", comment: "too much" }, eve);
    await agent.invoke(null, at("t"));
    expect(parts.paid).toEqual([]);
    expect(resultsOf(inner())).toEqual(["balance 1", "too much"]);
  });

  test("of three calls in one turn each has its own decision: the approved and the edited run, the rejected does not", async () => {
    const saver = await (await newStore(name)).open();
    const parts = bank(async (cents) => {
      const { approved, value, comment } = await ask("Pay?", { details: cents });
      if (!approved) return `refused: ${comment}`;
      return value === cents ? undefined : `paid ${String(value)} instead, ${parts.paid.push(value as number)}`;
    });
    const agent = createAgent({
      model: model([[payment("a", 1), payment("b", 2), payment("c", 3)], []]),
      tools: [parts.pay],
      checkpointer: saver,
    }) as unknown as Agent;
    await agent.invoke(go, at("t"));
    const decide = async (cents: number, decision: Parameters<typeof saver.answer>[1]) => {
      const wait = (await openWaits(saver)).find(({ details }) => details === cents);
      await saver.answer(wait?.id as string, decision, eve);
    };
    await decide(2, { type: "reject", comment: "no" });
    await agent.invoke(null, at("t"));
    expect(await openWaits(saver)).toHaveLength(2);
    await decide(1, { type: "approve" });
    await decide(3, { type: "edit", value: 30 });
    const { messages } = await agent.invoke(null, at("t"));
    expect(resultsOf(messages).map((text) => text.split(",")[0])).toEqual(["paid 1", "refused: no", "paid 30 instead"]);
    expect(parts.paid.toSorted((a, b) => a - b)).toEqual([1, 30]);
  });

  test("a model that repeats a call that was rejected is refused with the reason, and nobody is asked again", async () => {
    const store = await newStore(name);
    const asking = async (saver: Checkpointer, turn: { current: number }) => {
      const parts = bank(async (cents) => {
        const { approved, comment } = await ask("Pay?", { details: cents, rejections: 2 });
        return approved ? undefined : `refused: ${comment}`;
      });
      const again = (id: string) => [payment(id, 100)];
      const agent = createAgent({
        model: model([again("a"), again("b"), again("c"), again("d"), [payment("e", 7)], []], turn),
        tools: [parts.pay],
        checkpointer: saver,
      }) as unknown as Agent;
      return { parts, agent };
    };
    const turn = { current: 0 };
    const first = await store.open();
    const { agent } = await asking(first, turn);
    await agent.invoke(go, at("t"));
    for (const comment of ["too much", "still too much"]) {
      const [open] = await openWaits(first);
      await first.answer(open?.id as string, { type: "reject", comment }, eve);
      await agent.invoke(null, at("t"));
    }
    // What is asked now is the other payment: the two calls in between were refused by what was decided.
    expect((await openWaits(first)).map(({ details }) => details)).toEqual([7]);
    await first.close();
    const second = await store.open();
    const later = await asking(second, turn);
    const [open] = await openWaits(second);
    await second.answer(open?.id as string, { type: "approve" }, eve);
    const { messages } = await later.agent.invoke(null, at("t"));
    const refused = ["too much", ...new Array<string>(3).fill("still too much")].map((reason) => `refused: ${reason}`);
    expect(resultsOf(messages)).toEqual([...refused, "paid 7, 1"]);
    expect(later.parts.paid).toEqual([7]);
  });
});
