/** Starting runs and reading state, with LangGraph's own client over a real server. */

import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { serve as listen } from "@hono/node-server";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { Annotation, type BaseCheckpointSaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { Client } from "@langchain/langgraph-sdk";
import { ask } from "holdfast";
import type { Graphs } from "holdfast/approvals";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { oneNode, payment, type ServeOptions, State, served, thread } from "./served.ts";

async function withClient<const G extends Graphs>(
  graphs: (checkpointer: BaseCheckpointSaver) => G,
  options?: ServeOptions,
) {
  const site = await served(graphs, options);
  const server = listen({ fetch: site.approvals.fetch, port: 0, hostname: "127.0.0.1" });
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const apiUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = new Client({ apiUrl, apiKey: null });
  return { ...site, client };
}

/** What the client throws for an answer, as status and code. */
async function refusal(call: Promise<unknown>): Promise<readonly [number, string, Record<string, unknown>]> {
  try {
    await call;
  } catch (error) {
    const { status, text } = error as { status: number; text: string };
    const { error: answer } = JSON.parse(text) as { error: { code: string; details: Record<string, unknown> } };
    return [status, answer.code, answer.details];
  }
  throw new Error("It was not refused.");
}

/** Two questions side by side. */
function pair(checkpointer: BaseCheckpointSaver) {
  return new StateGraph(State)
    .addNode("left", async () => ({ log: [`left ${(await ask("Left?")).decision}`] }))
    .addNode("right", async () => ({ log: [`right ${(await ask("Right?")).decision}`] }))
    .addEdge(START, "left")
    .addEdge(START, "right")
    .compile({ checkpointer });
}

test("a run is answered at once, when its input is stored, and goes on in this process", async () => {
  let letGo = (): void => {};
  const gate = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const { approvals, checkpointer, client } = await withClient((saver) => ({ slow: oneNode(saver, () => gate) }));
  let created: unknown;
  const run = await client.runs.create("t", "slow", {
    input: { amount: 1 },
    metadata: { source: "test" },
    onRunCreated: (one) => {
      created = one;
    },
  });
  expect(run).toMatchObject({ thread_id: "t", status: "pending", metadata: { source: "test", graph_id: "slow" } });
  expect(created).toEqual({ run_id: run.run_id, thread_id: "t" });
  const stored = [];
  for await (const { metadata } of checkpointer.list(thread("t"))) stored.push(metadata?.source);
  expect(stored).toContain("input");
  const busy = await refusal(client.runs.create("t", "slow", { input: { amount: 2 } }));
  expect(busy.slice(0, 2)).toEqual([409, "THREAD_BUSY"]);
  letGo();
  await approvals.idle();
  const state = await client.threads.getState("t");
  expect(state).toMatchObject({ values: { amount: 1 }, next: [], checkpoint: { thread_id: "t", checkpoint_ns: "" } });
});

test("a run is not answered as long as its input is not stored", async () => {
  let store = (): void => {};
  const stored = new Promise<void>((resolve) => {
    store = resolve;
  });
  const { post, approvals } = await served((saver) => ({ one: oneNode(saver, () => undefined) }), {
    wrap: (backend) => {
      const commit = backend.commit.bind(backend);
      backend.commit = async (group) => stored.then(() => commit(group));
      return backend;
    },
  });
  onTestFinished(store);
  let status = 0;
  const answered = post("/threads/t/runs", { assistant_id: "one", input: { amount: 1 } }).then((answer) => {
    status = answer.status;
  });
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
  expect(status).toBe(0);
  store();
  await answered;
  expect(status).toBe(200);
  await approvals.idle();
});

test("the id of an assistant is the one that LangGraph's servers give to the same graph", async () => {
  const { client } = await withClient((saver) => ({ agent: oneNode(saver, () => undefined) }));
  const run = await client.runs.create("t", "fe096781-5601-53d2-b2f6-0d3403f7e9ca", { input: { amount: 1 } });
  expect(run.assistant_id).toBe("fe096781-5601-53d2-b2f6-0d3403f7e9ca");
});

describe("a thread that waits", () => {
  test("the question is the same in the stream, in the state and in the list, under one id", async () => {
    const { client, graphs, open } = await withClient((saver) => ({ payment: payment(saver) }));
    const streamed: unknown[] = [];
    for await (const chunk of await graphs.payment.stream({ amount: 5 }, { ...thread("t"), streamMode: "updates" }))
      streamed.push(chunk);
    const wait = await open();
    const shown = { id: wait.id, value: wait.value };
    expect(streamed.at(-1)).toEqual({ __interrupt__: [shown] });
    const state = await client.threads.getState("t");
    expect(state.tasks.map(({ name, interrupts }) => ({ name, interrupts }))).toEqual([
      { name: "ask", interrupts: [shown] },
    ]);
    expect(state.next).toEqual(["ask"]);
  });

  test("the state of the outer graph shows what the inner one asks, and the list since when", async () => {
    const now = Date.parse("2026-03-01T09:00:00Z");
    const { client, graphs, open } = await withClient(
      (saver) => {
        const inner = oneNode(undefined as never, () => ask("Inner?"));
        return {
          outer: new StateGraph(State).addNode("sub", inner).addEdge(START, "sub").compile({ checkpointer: saver }),
        };
      },
      { saver: { now: () => now } },
    );
    await graphs.outer.invoke({}, thread("t"));
    const { id, path, openedAt } = await open();
    expect([path, openedAt]).toEqual([["sub"], "2026-03-01T09:00:00.000Z"]);
    const flat = await client.threads.getState("t");
    expect(flat.tasks).toMatchObject([
      { name: "sub", interrupts: [{ id, value: { question: "Inner?" } }], state: null },
    ]);
    expect(flat.tasks[0]?.checkpoint).toMatchObject({ thread_id: "t", checkpoint_ns: expect.stringMatching(/^sub:/) });
    const deep = await client.threads.getState("t", undefined, { subgraphs: true });
    expect(deep.tasks[0]?.state).toMatchObject({ next: ["one"], tasks: [{ name: "one", interrupts: [{ id }] }] });
  });

  test("a new input is refused and the question stays; asked for on purpose, the question is closed as superseded", async () => {
    const { approvals, checkpointer, client, graphs, get, open, post } = await withClient((saver) => ({
      payment: payment(saver),
    }));
    await graphs.payment.invoke({ amount: 5 }, thread("t"));
    const { id } = await open();
    const [status, code, details] = await refusal(client.runs.create("t", "payment", { input: { amount: 6 } }));
    expect([status, code]).toEqual([409, "THREAD_WAITING"]);
    expect(details).toMatchObject({ thread: "t", waits: [{ id }] });
    expect((await open()).id).toBe(id);
    expect((await graphs.payment.getState(thread("t"))).values.amount).toBe(5);
    const body = { assistant_id: "payment", input: { amount: 6 }, on_paused: "supersede" };
    expect((await post("/threads/t/runs", body)).status).toBe(200);
    await approvals.idle();
    expect((await open()).question).toBe("Pay 6?");
    expect((await get(`/approvals/${id}`)).body.status).toBe("superseded");
    expect((await get(`/approvals/${id}/decisions`)).body.decisions).toMatchObject([{ wait: id, type: "supersede" }]);
    expect((await checkpointer.verifyDecisions()).broken).toEqual([]);
  });

  test("one answer without a name is taken where one question is open, as the asker's", async () => {
    const { approvals, client, graphs, get, open } = await withClient((saver) => ({ payment: payment(saver) }), {
      options: { authenticate: () => ({ user: "ada" }) },
    });
    await graphs.payment.invoke({ amount: 5 }, thread("t"));
    const { id } = await open();
    await client.runs.create("t", "payment", { command: { resume: true } });
    await approvals.idle();
    expect((await get(`/approvals/${id}`)).body.decision).toMatchObject({ type: "approve", by: "ada", via: "http" });
    expect((await client.threads.getState<typeof State.State>("t")).values.log).toEqual(["approve ada", "paid 5"]);
    const again = await refusal(client.runs.create("t", "payment", { command: { resume: true } }));
    expect(again.slice(0, 2)).toEqual([409, "NOTHING_ASKED"]);
  });

  test("one answer without a name is refused where two questions are open, and each stays open", async () => {
    const { approvals, client, graphs, get } = await withClient((saver) => ({ pair: pair(saver) }));
    await graphs.pair.invoke({}, thread("t"));
    const { waits } = (await get("/approvals")).body;
    const [status, code, details] = await refusal(client.runs.create("t", "pair", { command: { resume: true } }));
    expect([status, code]).toEqual([409, "AMBIGUOUS_ANSWER"]);
    expect(details["ids"]).toEqual(waits.map(({ id }) => id));
    expect((await get("/approvals")).body.waits).toEqual(waits);
    const resume = Object.fromEntries(waits.map(({ id }) => [id, { type: "reject" }]));
    await client.runs.create("t", "pair", { command: { resume } });
    await approvals.idle();
    expect((await client.threads.getState<typeof State.State>("t")).values.log.sort()).toEqual([
      "left reject",
      "right reject",
    ]);
  });

  test("an answer to an id that the thread does not have, and one that does not fit, record none of the others", async () => {
    const { client, graphs, get } = await withClient((saver) => ({ pair: pair(saver) }));
    await graphs.pair.invoke({}, thread("t"));
    await graphs.pair.invoke({}, thread("other"));
    const own = (await get("/approvals?thread=t")).body.waits.map(({ id }) => id);
    const [foreign] = (await get("/approvals?thread=other")).body.waits;
    for (const [resume, expected] of [
      [{ [own[0] ?? ""]: true, ["0".repeat(32)]: true }, [404, "UNKNOWN_WAIT"]],
      [{ [own[0] ?? ""]: true, [foreign?.id ?? ""]: true }, [404, "UNKNOWN_WAIT"]],
      [{ [own[0] ?? ""]: true, [own[1] ?? ""]: { type: "edit", value: 1 } }, [422, "INVALID_ANSWER"]],
    ] as const) {
      const refused = await refusal(client.runs.create("t", "pair", { command: { resume } }));
      expect(refused.slice(0, 2)).toEqual(expected);
    }
    expect((await get("/approvals")).body.waits).toHaveLength(4);
  });
});

describe("a thread that failed", () => {
  test("its failure is told, its state shows the error without a stack, and new input does not drop its work", async () => {
    let fail = true;
    const { approvals, client, failures } = await withClient((saver) => ({
      one: oneNode(saver, async () => {
        if (fail) throw new Error("the bank is down");
        return { log: ["done"] };
      }),
    }));
    await client.runs.create("t", "one", { input: { amount: 1 } });
    await approvals.idle();
    expect(failures).toMatchObject([
      { error: { message: "the bank is down" }, context: { thread: "t", graph: "one" } },
    ]);
    const state = await client.threads.getState("t");
    expect(state.tasks).toMatchObject([{ name: "one", error: "Error: the bank is down" }]);
    expect(JSON.stringify(state)).not.toContain("runs.test.ts");
    const [status, code] = await refusal(client.runs.create("t", "one", { input: { amount: 2 } }));
    expect([status, code]).toEqual([409, "THREAD_UNFINISHED"]);
    fail = false;
    await client.runs.create("t", "one", { input: null });
    await approvals.idle();
    expect((await client.threads.getState("t")).values).toEqual({ amount: 1, log: ["done"] });
  });

  test("a finished thread takes the same input once more, as its next turn", async () => {
    const { approvals, client } = await withClient((saver) => ({ one: oneNode(saver, () => ({ log: ["turn"] })) }));
    for (let turn = 0; turn < 2; turn++) {
      await client.runs.create("t", "one", { input: { amount: 1 } });
      await approvals.idle();
    }
    expect((await client.threads.getState("t")).values).toEqual({ amount: 1, log: ["turn", "turn"] });
  });
});

test("messages are shown as LangGraph's servers show them", async () => {
  const Chat = Annotation.Root({ ...MessagesAnnotation.spec });
  const { approvals, client } = await withClient((saver) => ({
    chat: new StateGraph(Chat)
      .addNode("answer", () => ({ messages: [new AIMessage({ id: "2", content: "Hello" })] }))
      .addEdge(START, "answer")
      .compile({ checkpointer: saver }),
  }));
  const input = { messages: [{ type: "human", content: "Hi", id: "1" }] };
  await client.runs.create("t", "chat", { input });
  await approvals.idle();
  const { values } = await client.threads.getState<{ messages: unknown[] }>("t");
  expect(values.messages).toMatchObject([
    { type: "human", content: "Hi", id: "1" },
    { type: "ai", content: "Hello", id: "2", tool_calls: [] },
  ]);
  expect(new HumanMessage("x").getType()).toBe("human");
});

describe("what is refused", () => {
  test("threads and assistants that are not there are 404", async () => {
    const { client } = await withClient((saver) => ({ one: oneNode(saver, () => undefined) }));
    const refused = await Promise.all([
      refusal(client.threads.getState("none")),
      refusal(client.runs.create("none", "one", { input: null })),
      refusal(client.runs.create("none", "one", { command: { resume: true } })),
      refusal(client.runs.create("none", "one", { input: { amount: 1 }, ifNotExists: "reject" })),
      refusal(client.runs.create("none", "two", { input: { amount: 1 } })),
    ]);
    expect(refused.map(([status, code]) => `${status} ${code}`)).toEqual([
      "404 UNKNOWN_THREAD",
      "404 UNKNOWN_THREAD",
      "404 UNKNOWN_THREAD",
      "404 UNKNOWN_THREAD",
      "404 UNKNOWN_ASSISTANT",
    ]);
  });

  test.each([
    ["checkpoint_id", { checkpoint_id: "1" }],
    ["checkpoint", { checkpoint: { checkpoint_id: "1" } }],
    ["webhook", { webhook: "http://x" }],
    ["after_seconds", { after_seconds: 1 }],
    ["on_completion", { on_completion: "delete" }],
    ["langsmith_tracer", { langsmith_tracer: {} }],
    ["multitask_strategy", { multitask_strategy: "enqueue" }],
    ["command.goto", { command: { goto: "__end__" } }],
    ["command.update", { command: { update: {} } }],
    ["config.configurable.owner", { config: { configurable: { owner: "boss" } } }],
    ["config.configurable.thread_id", { config: { configurable: { thread_id: "other" } } }],
    ["config.configurable.on_paused", { config: { configurable: { on_paused: "supersede" } } }],
    ["config.configurable.langgraph_auth_user_id", { config: { configurable: { langgraph_auth_user_id: "boss" } } }],
    ["config.configurable.__pregel_resuming", { config: { configurable: { __pregel_resuming: true } } }],
  ])("%s would change what a run does, and is refused by name instead of dropped", async (field, part) => {
    const { post, checkpointer } = await served((saver) => ({ one: oneNode(saver, () => undefined) }));
    const answer = await post("/threads/t/runs", { assistant_id: "one", input: { amount: 1 }, ...part });
    expect([answer.status, answer.body.error.code]).toEqual([422, "UNSUPPORTED_FIELD"]);
    expect(answer.body.error.details).toEqual({ field });
    expect(await checkpointer.getTuple(thread("t"))).toBeUndefined();
  });

  test("a field that nobody knows, and an input beside a command, are refused", async () => {
    const { post } = await served((saver) => ({ one: oneNode(saver, () => undefined) }));
    for (const part of [{ inputs: {} }, { command: { resume: 1 } }, { config: { recursionLimit: 5 } }]) {
      const answer = await post("/threads/t/runs", { assistant_id: "one", input: { amount: 1 }, ...part });
      expect([answer.status, answer.body.error.code]).toEqual([400, "INVALID_REQUEST"]);
    }
  });

  test("an input that the graph does not take is 422, and no thread begins", async () => {
    const { post, get, failures } = await served((saver) => ({
      strict: new StateGraph(z.object({ amount: z.number() }))
        .addNode("one", () => ({}))
        .addEdge(START, "one")
        .compile({ checkpointer: saver }),
    }));
    const answer = await post("/threads/t/runs", { assistant_id: "strict", input: { amount: "many" } });
    expect([answer.status, answer.body.error.code]).toEqual([422, "INVALID_INPUT"]);
    expect(answer.body.error.details).toMatchObject({ issues: [{ path: "amount" }] });
    expect((await get("/threads/t/state")).status).toBe(404);
    expect(failures).toEqual([]);
  });

  test("unfinished work of one graph is not continued or dropped by another", async () => {
    const { approvals, graphs, post } = await served((saver) => ({
      a: pair(saver),
      b: oneNode(saver, () => undefined),
    }));
    await graphs.a.invoke({}, thread("t", { graph_id: "a" }));
    for (const body of [{ input: null }, { command: { resume: true } }]) {
      const answer = await post("/threads/t/runs", { assistant_id: "b", ...body });
      expect([answer.status, answer.body.error.code]).toEqual([409, "WRONG_GRAPH"]);
    }
    await approvals.idle();
    expect((await graphs.a.getState(thread("t"))).next).toEqual(["left", "right"]);
  });
});
