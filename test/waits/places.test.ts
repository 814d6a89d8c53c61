/** Questions in every place where LangGraph runs user code: each listed once, answered by id, asked once. */

import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import {
  Annotation,
  Command,
  entrypoint,
  interrupt,
  isGraphInterrupt,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
  task,
} from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { ask, type Checkpointer, channels, effect, type SwallowedWaitEvent } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { createAgent, FakeToolCallingModel, humanInTheLoopMiddleware } from "langchain";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { at, errorOf } from "../checkpointer/subject.ts";
import { type App, Log, openWaits, sequence, shownIds } from "./graphs.ts";

const eve = { by: "eve" };

interface Runnable {
  invoke(input: unknown, config: unknown): Promise<unknown>;
}

interface Place {
  readonly name: string;
  /** How many questions are open at the first pause. */
  readonly questions: number;
  readonly input?: unknown;
  build(saver: Checkpointer, asked: (what: string) => Promise<string>): Runnable;
}

const call = (id: string, what: string) => ({ id, name: "delete", args: { what } });
const calls = (...ids: string[]) => new AIMessage({ content: "", tool_calls: ids.map((id) => call(id, id)) });

const deleteTool = (asked: (what: string) => Promise<string>) =>
  tool(async ({ what }) => asked(what), {
    name: "delete",
    description: "deletes",
    schema: z.object({ what: z.string() }),
  });

/** The same node at the bottom of so many graphs. */
function nested(depth: number, node: () => Promise<{ log: string[] }>): App {
  const body = depth === 1 ? node : nested(depth - 1, node);
  return new StateGraph(Log)
    .addNode("a", body as typeof node)
    .addEdge(START, "a")
    .compile() as unknown as App;
}

const places: readonly Place[] = [
  {
    name: "a node of a subgraph three graphs deep",
    questions: 1,
    build: (saver, asked) =>
      new StateGraph(Log)
        .addNode(
          "outer",
          nested(3, async () => ({ log: [await asked("x")] })),
        )
        .addEdge(START, "outer")
        .compile({ checkpointer: saver }),
  },
  {
    name: "a subgraph invoked in a node's body",
    questions: 1,
    build: (saver, asked) => {
      const inner = nested(1, async () => ({ log: [await asked("x")] }));
      return sequence(saver, { outer: async () => ({ log: (await inner.invoke({ log: [] })).log }) });
    },
  },
  {
    name: "tasks of Send",
    questions: 3,
    build: (saver, asked) =>
      new StateGraph(Log)
        .addNode("one", async ({ what }: { what: string }) => ({ log: [await asked(what)] }))
        .addConditionalEdges(START, () => ["x", "y", "z"].map((what) => new Send("one", { what })))
        .compile({ checkpointer: saver }) as unknown as Runnable,
  },
  {
    name: "tasks of an entrypoint",
    questions: 2,
    build: (saver, asked) => {
      const one = task("one", async (what: string) => asked(what));
      return entrypoint({ name: "job", checkpointer: saver }, async () =>
        Promise.all([one("x"), one("y")]),
      ) as Runnable;
    },
  },
  {
    name: "an error handler",
    questions: 1,
    build: (saver, asked) =>
      new StateGraph(Log)
        .addNode(
          "a",
          (): { log: string[] } => {
            throw new Error("broken");
          },
          { errorHandler: async () => ({ log: [await asked("x")] }) } as never,
        )
        .addEdge(START, "a")
        .compile({ checkpointer: saver }),
  },
  {
    name: "tools of ToolNode",
    questions: 3,
    input: { messages: [] },
    build: (saver, asked) =>
      new StateGraph(MessagesAnnotation)
        .addNode("model", () => ({ messages: [calls("x", "y", "z")] }))
        .addNode("tools", new ToolNode([deleteTool(asked)]))
        .addEdge(START, "model")
        .addEdge("model", "tools")
        .compile({ checkpointer: saver }),
  },
  {
    name: "tools of createAgent",
    questions: 2,
    input: { messages: [new HumanMessage("go")] },
    build: (saver, asked) =>
      createAgent({
        model: new FakeToolCallingModel({ toolCalls: [[call("x", "x"), call("y", "y")], []] }),
        tools: [deleteTool(asked)],
        checkpointer: saver,
      }) as unknown as Runnable,
  },
];

describe.each(places)("in $name", ({ questions, input = { log: [] }, build }) => {
  test("every question is listed once with an id of its own, and answers in any order reach their questions", async () => {
    const saver = memory();
    const answers = new Map<string, string>();
    const seen = { executed: 0 };
    const act = effect("act", { input: z.string(), run: () => ++seen.executed });
    const app = build(saver, async (what) => {
      const { value } = await ask("Delete?", { details: what });
      await act(what);
      answers.set(what, String(value));
      return String(value);
    });
    await app.invoke(input, at("t"));
    const waits = await openWaits(saver);
    expect(waits).toHaveLength(questions);
    expect(new Set(waits.map(({ id }) => id)).size).toBe(questions);
    for (const { id, details } of [...waits].reverse()) {
      await saver.answer(id, { type: "edit", value: `${String(details)}!` }, eve);
      await app.invoke(null, at("t"));
    }
    expect(await openWaits(saver)).toEqual([]);
    const expected = ["x", "y", "z"].slice(0, questions).map((what) => [what, `${what}!`] as const);
    expect([...answers].sort()).toEqual(expected);
    expect(seen.executed).toBe(questions);
    expect((await saver.waits({ thread: "t" })).map(({ status }) => status)).toEqual(expected.map(() => "consumed"));
  });
});

test("a nested question is one entry, in the store and in the thread's state", async () => {
  const saver = memory();
  const app = new StateGraph(Log)
    .addNode(
      "outer",
      nested(3, async () => ({ log: [(await ask("Ok?")).decision] })),
    )
    .addEdge(START, "outer")
    .compile({ checkpointer: saver });
  await app.invoke({ log: [] }, at("t"));
  const [wait, ...others] = await openWaits(saver);
  expect(others).toEqual([]);
  expect(await shownIds(app as unknown as App)).toEqual([wait?.id]);
});

test("plain interrupts of subgraphs are answered through the store, wherever they stand", async () => {
  const saver = memory();
  const app = new StateGraph(Log)
    .addNode(
      "outer",
      nested(2, async () => ({ log: [`${String(interrupt("a?"))} ${String(interrupt("b?"))}`] })),
    )
    .addEdge(START, "outer")
    .compile({ checkpointer: saver });
  await app.invoke({ log: [] }, at("t"));
  for (const value of ["one", "two"]) {
    const [open, ...others] = await openWaits(saver);
    expect(others).toEqual([]);
    await saver.answer(open?.id as string, { type: "respond", value }, eve);
    await app.invoke(null, at("t"));
  }
  expect((await app.getState(at("t"))).values).toEqual({ log: ["one two"] });
});

test("a pause is no failure: retry policies do not count it", async () => {
  const saver = memory();
  let runs = 0;
  const app = new StateGraph(Log)
    .addNode(
      "a",
      async () => {
        runs += 1;
        return { log: [(await ask("Ok?")).decision] };
      },
      { retryPolicy: { maxAttempts: 3, initialInterval: 1 } },
    )
    .addEdge(START, "a")
    .compile({ checkpointer: saver });
  await app.invoke({ log: [] }, at("t"));
  expect(runs).toBe(1);
  await app.invoke(new Command({ resume: true }), at("t"));
  expect((await app.getState(at("t"))).values).toEqual({ log: ["approve"] });
});

test("code that catches the pause is warned about, and its question is closed", async () => {
  const saver = memory();
  const events: SwallowedWaitEvent[] = [];
  const listen = (event: unknown) => events.push(event as SwallowedWaitEvent);
  channels.waitSwallowed.subscribe(listen);
  onTestFinished(() => {
    channels.waitSwallowed.unsubscribe(listen);
  });
  const app = sequence(saver, {
    a: async () => {
      try {
        return { log: [(await ask("Ok?")).decision] };
      } catch (error) {
        return { log: [isGraphInterrupt(error) ? "swallowed" : "failed"] };
      }
    },
  });
  expect((await app.invoke({ log: [] }, at("t"))).log).toEqual(["swallowed"]);
  expect(events).toMatchObject([{ thread: "t", name: "Ok?" }]);
  expect(await saver.waits({ thread: "t" })).toMatchObject([{ status: "superseded" }]);
  await app.invoke({ log: ["next"] }, at("t"));
});

test("humanInTheLoopMiddleware: an edited call runs instead of the proposed one, once", async () => {
  const saver = memory();
  const paid: number[] = [];
  const pay = tool(async ({ cents }: { cents: number }) => `${paid.push(cents)}`, {
    name: "pay",
    description: "pays",
    schema: z.object({ cents: z.int() }),
  });
  const gate = humanInTheLoopMiddleware({
    interruptOn: { pay: { allowedDecisions: ["approve", "edit", "reject"] } },
  } as never);
  const agent = createAgent({
    model: new FakeToolCallingModel({ toolCalls: [[{ id: "1", name: "pay", args: { cents: 100 } }], []] }),
    tools: [pay],
    middleware: [gate as never],
    checkpointer: saver,
  }) as unknown as Runnable;
  await agent.invoke({ messages: [new HumanMessage("go")] }, at("t"));
  const [open, ...others] = await openWaits(saver);
  expect(others).toEqual([]);
  expect(open).toMatchObject({ name: "pay", details: { cents: 100 }, allow: ["approve", "edit", "reject", "respond"] });
  await saver.answer(open?.id as string, { type: "edit", value: { cents: 10 } }, eve);
  await agent.invoke(null, at("t"));
  expect(paid).toEqual([10]);
});

test("threads of one process do not see each other's questions", async () => {
  const saver = memory();
  const app = sequence(saver, { a: async ({ log }) => ({ log: [(await ask("Ok?", { details: log[0] })).decision] }) });
  const threads = Array.from({ length: 20 }, (_, i) => `t${i}`);
  await Promise.all(
    threads.map((thread) =>
      app.invoke({ log: [thread] }, { configurable: { thread_id: thread, owner: `owner of ${thread}` } }),
    ),
  );
  for (const thread of threads) {
    const owned = await saver.waits({ owner: `owner of ${thread}` });
    expect(owned.map((wait) => [wait.thread, wait.details])).toEqual([[thread, thread]]);
  }
  const [other] = await saver.waits({ thread: "t1" });
  expect(
    await errorOf(saver.answer(other?.id as string, { type: "approve" }, { by: "eve", owner: "owner of t2" })),
  ).toMatchObject({
    code: "UNKNOWN_WAIT",
  });
});

test("a finished sibling does not run again beside a paused task", async () => {
  const saver = memory();
  let bodies = 0;
  const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
  const app = new StateGraph(State)
    .addNode("done", () => ({ log: [`done ${++bodies}`] }))
    .addNode("asks", async () => ({ log: [(await ask("Ok?")).decision] }))
    .addEdge(START, "done")
    .addEdge(START, "asks")
    .compile({ checkpointer: saver });
  await app.invoke({ log: [] }, at("t"));
  for (let i = 0; i < 3; i += 1) await app.invoke(null, at("t"));
  await app.invoke(new Command({ resume: true }), at("t"));
  expect(bodies).toBe(1);
});

test("five hundred runs with two pauses in one node all end, none in silence", { timeout: 300_000 }, async () => {
  const saver = memory();
  const app = sequence(saver, {
    a: async () => ({ log: [(await ask("One?")).decision, (await ask("Two?")).decision] }),
  });
  const threads = Array.from({ length: 500 }, (_, i) => `t${i}`);
  for (const thread of threads) await app.invoke({ log: [] }, at(thread));
  for (let round = 0; round < 2; round += 1) {
    const open = await saver.waits({ status: ["open"] });
    expect(open).toHaveLength(500);
    for (const { id, thread } of open) {
      await saver.answer(id, { type: "approve" }, eve);
      await app.invoke(null, at(thread));
    }
  }
  for (const thread of threads) {
    const { values, tasks } = await app.getState(at(thread));
    expect(values).toEqual({ log: ["approve", "approve"] });
    expect(tasks).toEqual([]);
  }
});

test("a question asked by a later run belongs to the owner and the graph of the thread, also where that run names none", async () => {
  const saver = memory();
  const app = sequence(saver, {
    a: async () => ({ log: [(await ask("One?")).decision] }),
    b: () => ({ log: [String(interrupt("Two?"))] }),
  });
  await app.invoke({ log: [] }, { configurable: { thread_id: "t", owner: "ada", graph_id: "order" } });
  for (let i = 0; i < 2; i += 1) {
    const [open, ...others] = await openWaits(saver);
    expect(others).toEqual([]);
    expect(open).toMatchObject({ owner: "ada", graph: "order" });
    await saver.answer(open?.id as string, { type: "approve" }, eve);
    await app.invoke(null, at("t"));
  }
});
