/** Runs that are asked for over HTTP and executed by workers, with LangGraph's own client over a real server. */

import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { serve as listen } from "@hono/node-server";
import { type BaseCheckpointSaver, START, StateGraph } from "@langchain/langgraph";
import { Client } from "@langchain/langgraph-sdk";
import { ask, type Checkpointer } from "holdfast";
import { createApprovals } from "holdfast/approvals";
import { createRuntime } from "holdfast/runs";
import { describe, expect, onTestFinished, test } from "vitest";
import { newStore, storeNames } from "../backends-table.ts";
import { oneNode, State } from "./served.ts";

const graphsOf = (saver: BaseCheckpointSaver, body: () => Promise<void> = async () => {}) => ({
  work: oneNode(saver, body),
  payment: new StateGraph(State)
    .addNode("ask", async () => ({ log: [`paid: ${(await ask("Pay?")).decision}`] }))
    .addEdge(START, "ask")
    .compile({ checkpointer: saver }),
  broken: oneNode(saver, async () => {
    throw new TypeError("no such card");
  }),
});

type Users = Readonly<Record<string, { readonly user: string; readonly owner?: string }>>;

/** Endpoints that only queue, in front of a store; `worker` executes, as another process would. */
async function site(checkpointer: Checkpointer, users?: Users, body?: () => Promise<void>) {
  const graphs = graphsOf(checkpointer, body);
  const runtime = createRuntime({ checkpointer, graphs, onError: () => {} });
  const approvals = createApprovals({
    checkpointer,
    graphs,
    runtime,
    ...(users === undefined ? {} : { authenticate: (request) => users[request.headers.get("x-api-key") ?? ""] }),
  });
  const server = listen({ fetch: approvals.fetch, port: 0, hostname: "127.0.0.1" });
  onTestFinished(async () => {
    server.close();
    await approvals.close();
    await runtime.close();
  });
  await once(server, "listening");
  const apiUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const clientOf = (apiKey: string | null) => new Client({ apiUrl, apiKey });
  const worker = () => runtime.worker({ pollMs: 50, takeoverMs: 50 }).start();
  return { apiUrl, client: clientOf(null), clientOf, runtime, worker };
}

async function refusal(call: Promise<unknown>): Promise<readonly [number, string]> {
  try {
    await call;
  } catch (error) {
    const { status, text } = error as { status: number; text: string };
    return [status, (JSON.parse(text) as { error: { code: string } }).error.code];
  }
  throw new Error("It was not refused.");
}

describe.each(storeNames)("on %s", (store) => {
  const opened = async () => (await newStore(store)).open();

  test("a run that was answered is a row, and is executed by whoever has a worker; the client joins it", async () => {
    const { client, runtime, worker } = await site(await opened());
    const run = await client.runs.create("t", "work", { input: { amount: 1 } });
    expect(run).toMatchObject({ thread_id: "t", status: "pending", metadata: { graph_id: "work" } });
    expect(await runtime.get(run.run_id)).toMatchObject({ status: "queued", input: { amount: 1 } });
    expect(await client.runs.get("t", run.run_id)).toMatchObject({ run_id: run.run_id, status: "pending" });
    worker();
    expect(await client.runs.join("t", run.run_id)).toMatchObject({ amount: 1 });
    expect(await client.runs.list("t")).toMatchObject([{ run_id: run.run_id, status: "success" }]);
    expect(await client.runs.list("t", { status: "pending" })).toEqual([]);
  });

  test("an answer queues the run that waits for it, in the same commit, and the client's resume answers too", async () => {
    const { client, runtime, worker } = await site(await opened());
    const running = worker();
    const asked = (await client.runs.wait("t", "payment", { input: { amount: 1 } })) as { __interrupt__: unknown[] };
    expect(asked.__interrupt__).toHaveLength(1);
    await running.drain();
    const [run] = await runtime.activeRuns("t");
    expect(run?.status).toBe("waiting");
    const resumed = await client.runs.create("t", "payment", { command: { resume: { type: "approve" } } });
    expect(resumed).toMatchObject({ run_id: run?.id, status: "pending" });
    expect(await runtime.get(resumed.run_id)).toMatchObject({ status: "queued" });
    worker();
    expect(await client.runs.join("t", resumed.run_id)).toMatchObject({ log: ["paid: approve"] });
  });
});

const memory = async () => (await newStore("memory")).open();

test("a run that fails is told as LangGraph's servers tell it, and the next one of its thread is executed", async () => {
  const { client, worker } = await site(await memory());
  worker();
  await expect(client.runs.wait("t", "broken", { input: { amount: 1 } })).rejects.toThrow("no such card");
  const [run] = await client.runs.list("t", { status: "error" });
  expect(run).toMatchObject({ status: "error", metadata: { error: { name: "TypeError", message: "no such card" } } });
});

test("a cancel is recorded as the user's, with the client that sends no body", async () => {
  const { client, runtime } = await site(await memory());
  const { run_id } = await client.runs.create("t", "work", { input: { amount: 1 } });
  await client.runs.cancel("t", run_id, true);
  expect(await runtime.get(run_id)).toMatchObject({ status: "cancelled", cancellation: { by: "local" } });
  expect(await client.runs.get("t", run_id)).toMatchObject({ status: "interrupted" });
});

test("a page of another site cannot cancel", async () => {
  const users = { key: { user: "ada" } };
  const { apiUrl, clientOf, runtime } = await site(await memory(), users);
  const { run_id } = await clientOf("key").runs.create("t", "work", { input: { amount: 1 } });
  const url = `${apiUrl}/threads/t/runs/${run_id}/cancel`;
  const sent = (origin: string) => fetch(url, { method: "POST", headers: { "x-api-key": "key", origin } });
  expect((await sent("http://evil.example")).status).toBe(415);
  expect((await runtime.get(run_id)).status).toBe("queued");
  expect((await sent(apiUrl)).status).toBe(200);
});

test("what becomes of a run of the thread that has not ended is said by the request: after it, not beside it, instead of it", async () => {
  const { client, runtime } = await site(await memory());
  const first = await client.runs.create("t", "work", { input: { amount: 1 } });
  const second = await client.runs.create("t", "work", { input: { amount: 2 } });
  const beside = client.runs.create("t", "work", { input: { amount: 3 }, multitaskStrategy: "reject" });
  expect(await refusal(beside)).toEqual([409, "THREAD_HAS_RUN"]);
  expect((await runtime.activeRuns("t")).map(({ id }) => id)).toEqual([first.run_id, second.run_id]);
  const last = await client.runs.create("t", "work", { input: { amount: 4 }, multitaskStrategy: "interrupt" });
  expect((await runtime.activeRuns("t")).map(({ id }) => id)).toEqual([last.run_id]);
  expect(await refusal(client.runs.create("t", "work", { input: null }))).toEqual([409, "THREAD_BUSY"]);
});

test("a request that is repeated under its Idempotency-Key is answered with the same run; another input is refused", async () => {
  const { apiUrl, runtime } = await site(await memory());
  const headers = { "content-type": "application/json", "idempotency-key": "order 17" };
  const send = (amount: number) => {
    const body = JSON.stringify({ assistant_id: "work", input: { amount } });
    return fetch(`${apiUrl}/threads/t/runs`, { method: "POST", headers, body });
  };
  const [one, two] = [await send(1), await send(1)];
  const [first, second] = [await one.json(), await two.json()] as { run_id: string }[];
  expect(second?.run_id).toBe(first?.run_id);
  expect((await send(2)).status).toBe(409);
  expect(await runtime.list()).toHaveLength(1);
});

test("runs are their owner's: to everybody else they are not there", async () => {
  const users = { a: { user: "ada", owner: "acme" }, b: { user: "bob", owner: "rival" } };
  const { clientOf, runtime } = await site(await memory(), users);
  const [mine, theirs] = [clientOf("a"), clientOf("b")];
  const { run_id } = await mine.runs.create("t", "work", { input: { amount: 1 } });
  expect(await refusal(theirs.runs.get("t", run_id))).toEqual([404, "UNKNOWN_RUN"]);
  expect(await refusal(theirs.runs.cancel("t", run_id))).toEqual([404, "UNKNOWN_RUN"]);
  expect(await refusal(theirs.runs.create("t", "work", { input: { amount: 2 } }))).toEqual([404, "UNKNOWN_THREAD"]);
  expect(await theirs.runs.list("t")).toEqual([]);
  expect(await refusal(mine.runs.get("another thread", run_id))).toEqual([404, "UNKNOWN_RUN"]);
  expect(await runtime.list()).toHaveLength(1);
});

test("what only the worker can say is refused by name, and nothing is queued", async () => {
  const { client, runtime } = await site(await memory());
  for (const more of [
    { context: { a: 1 } },
    { metadata: { a: 1 } },
    { interruptBefore: ["work"] },
    { durability: "sync" },
  ])
    expect(await refusal(client.runs.create("t", "work", { input: { amount: 1 }, ...(more as object) }))).toEqual([
      422,
      "UNSUPPORTED_FIELD",
    ]);
  expect(await runtime.list()).toEqual([]);
});

test("a runtime of another checkpointer is refused", async () => {
  const [checkpointer, other] = [await memory(), await memory()];
  const runtime = createRuntime({ checkpointer: other, graphs: {} });
  expect(() => createApprovals({ checkpointer, graphs: {}, runtime })).toThrow(/FOREIGN_CHECKPOINTER/);
});
