/**
 * Starting runs and reading state, in the shapes of LangGraph's servers, so that `@langchain/langgraph-sdk` can be used.
 *
 * A run is answered when its input is stored; it goes on in this process, or, where there is a runtime, in any that has a
 * worker. A thread is its owner's: to everybody else it is not there.
 */

import { randomUUID } from "node:crypto";
import { createRoute, z } from "@hono/zod-openapi";
import type { RunnableConfig } from "@langchain/core/runnables";
import { originOf, type ThreadOrigin } from "../thread-origin.ts";
import { threadWaiting } from "../thread-waits.ts";
import type { RunRecord } from "../runs/run-record.ts";
import type { Runtime } from "../runs/runtime.ts";
import type { Identity } from "./access.ts";
import type { ThreadRef } from "./back-off.ts";
import type { HttpApp, HttpParts } from "./http-app.ts";
import { Problem } from "./problem.ts";
import { checkQueuedBody, firstRun, isTheirs, queueGoOn, queueInput, runView } from "./queued-runs.ts";
import { answersOf, record } from "./recording.ts";
import { answers, jsonAnswer, jsonBody } from "./route-answers.ts";
import {
  assistantId,
  checkRunBody,
  isResume,
  type RunBody,
  runBodySchema,
  runConfig,
  runSchema,
  threadParam,
} from "./run-request.ts";
import { resultOf } from "./run-routes.ts";
import { type Snapshot, threadState } from "./thread-state.ts";

const create = createRoute({
  method: "post",
  path: "/threads/{thread}/runs",
  summary: "Start a run, answer a question, or go on; in LangGraph's own shape",
  request: { params: threadParam, body: jsonBody(runBodySchema) },
  responses: {
    200: jsonAnswer("The run: its input is stored, and it goes on.", runSchema),
    ...answers(400, 401, 403, 404, 409, 413, 415, 422),
  },
});

const state = createRoute({
  method: "get",
  path: "/threads/{thread}/state",
  summary: "The thread's state, in LangGraph's own shape (`ThreadState`)",
  request: {
    params: threadParam,
    query: z.strictObject({ subgraphs: z.enum(["true", "false", "1", "0"]).optional() }),
  },
  responses: {
    200: jsonAnswer("The state.", z.record(z.string(), z.unknown()).openapi("ThreadState")),
    ...answers(401, 403, 404, 409),
  },
});

const waitFor = createRoute({
  method: "post",
  path: "/threads/{thread}/runs/wait",
  summary: "The same, answered when the run has ended or waits, with the thread's values",
  request: { params: threadParam, body: jsonBody(runBodySchema) },
  responses: {
    200: jsonAnswer("As of `join`.", z.record(z.string(), z.unknown())),
    ...answers(400, 401, 403, 404, 409, 413, 415, 422),
  },
});

export function threadRoutes(app: HttpApp, parts: HttpParts): void {
  const { runtime } = parts;
  const place = (thread: string, run: string) => `/threads/${encodeURIComponent(thread)}/runs/${run}`;

  app.openapi(create, async (c) => {
    const { thread } = c.req.valid("param");
    const body = c.req.valid("json");
    checkRunBody(body, runtime !== undefined);
    const key = c.req.header("idempotency-key");
    const run =
      runtime === undefined
        ? await startRun(parts, thread, body, c.var.identity)
        : runView(await queueRun(parts, runtime, thread, body, c.var.identity, key));
    c.header("content-location", place(thread, run.run_id));
    return c.json(run, 200);
  });

  if (runtime !== undefined)
    app.openapi(waitFor, async (c) => {
      const { thread } = c.req.valid("param");
      const body = c.req.valid("json");
      checkRunBody(body, true);
      const key = c.req.header("idempotency-key");
      const run = await queueRun(parts, runtime, thread, body, c.var.identity, key);
      c.header("content-location", place(thread, run.id));
      return c.json(await resultOf(parts, await runtime.wait(run.id, { signal: c.req.raw.signal })), 200);
    });

  app.openapi(state, async (c) => {
    const { thread } = c.req.valid("param");
    const found = await findThread(parts, thread, c.var.identity);
    if (found === undefined) throw unknownThread(thread);
    parts.runner.assertServed(thread, found.graph_id);
    const graph = parts.graphs[parts.runner.graphNamed(found.graph_id) ?? ""];
    if (graph === undefined) throw new Problem("UNKNOWN_GRAPH", "No graphs are served here, so no state can be read.");
    const subgraphs = ["true", "1"].includes(c.req.valid("query").subgraphs ?? "");
    const snapshot = await graph.getState({ configurable: { thread_id: thread } }, { subgraphs });
    return c.json({ ...threadState(snapshot as Snapshot) }, 200);
  });
}

async function startRun(parts: HttpParts, thread: string, body: RunBody, identity: Identity) {
  const graph = graphOf(parts, body.assistant_id);
  const found = await findThread(parts, thread, identity);
  const fresh = body.input !== undefined && body.input !== null;
  if (found === undefined && (!fresh || body.if_not_exists === "reject")) throw unknownThread(thread);
  const ref: ThreadRef = { thread, graph, owner: identity.owner ?? found?.owner };
  const runId = randomUUID();
  const config = runConfig(body, runId, identity.user);
  if (fresh) await begin(parts, ref, found, body, config);
  else await goOn(parts, ref, found, body, config, identity);
  const now = new Date().toISOString();
  return {
    run_id: runId,
    thread_id: thread,
    assistant_id: assistantId(graph),
    created_at: now,
    updated_at: now,
    status: "pending",
    metadata: { ...body.metadata, graph_id: graph },
    multitask_strategy: "reject",
  };
}

/** As {@link startRun}, for the workers of a runtime. */
async function queueRun(
  parts: HttpParts,
  runtime: Runtime,
  thread: string,
  body: RunBody,
  identity: Identity,
  key: string | undefined,
): Promise<RunRecord> {
  checkQueuedBody(body);
  const graph = graphOf(parts, body.assistant_id);
  const found = await findThread(parts, thread, identity);
  const first = found === undefined ? await firstRun(runtime, thread) : undefined;
  if (first !== undefined && !isTheirs(first, identity)) throw unknownThread(thread);
  const fresh = body.input !== undefined && body.input !== null;
  if (found === undefined && first === undefined && (!fresh || body.if_not_exists === "reject"))
    throw unknownThread(thread);
  const ref: ThreadRef = { thread, graph, owner: identity.owner ?? found?.owner };
  if (!fresh) {
    if (found?.graph_id !== undefined && found.graph_id !== graph) throw wrongGraph(thread, found.graph_id, graph);
    return queueGoOn(parts, runtime, ref, body, identity);
  }
  // What a run left unfinished is for the next one to take over or to end; what nobody's run has left would be dropped.
  if (found !== undefined && (await runtime.activeRuns(thread)).length === 0) await refuseUnfinished(parts, ref, found);
  return queueInput(runtime, ref, body, key);
}

/** A new input. What the thread still has to do would be dropped by it: only on purpose. */
async function begin(
  parts: HttpParts,
  ref: ThreadRef,
  found: ThreadOrigin | undefined,
  body: RunBody,
  config: RunnableConfig,
): Promise<void> {
  if (found !== undefined && body.on_paused !== "supersede") await refuseUnfinished(parts, ref, found);
  await parts.runner.begin(ref, body.input, config);
}

/** @throws THREAD_WAITING · Problem THREAD_BUSY, THREAD_UNFINISHED, WRONG_GRAPH */
async function refuseUnfinished(
  { checkpointer, graphs, runner }: HttpParts,
  { thread, graph }: ThreadRef,
  found: ThreadOrigin,
): Promise<void> {
  const waits = await checkpointer.waitLedger.rows({ thread, status: ["open", "answered"] });
  if (waits.length > 0) throw threadWaiting(thread, waits);
  if (runner.isRunning(thread)) throw new Problem("THREAD_BUSY", `Thread ${JSON.stringify(thread)} is running.`);
  const last = graphs[found.graph_id ?? graph];
  if (last === undefined) throw wrongGraph(thread, found.graph_id, graph);
  const { next } = (await last.getState({ configurable: { thread_id: thread } })) as Snapshot;
  if (next.length > 0) throw unfinished(thread, next);
}

/** No input: answers where there are any, and on with what is unfinished. */
async function goOn(
  parts: HttpParts,
  ref: ThreadRef,
  found: ThreadOrigin | undefined,
  body: RunBody,
  config: RunnableConfig,
  identity: Identity,
): Promise<void> {
  const { runner } = parts;
  const { thread, graph } = ref;
  if (found?.graph_id !== undefined && found.graph_id !== graph) throw wrongGraph(thread, found.graph_id, graph);
  if (isResume(body)) {
    const given = await answersOf(parts.checkpointer.waitLedger, thread, body.command?.resume, identity.owner);
    for (const { id, decision } of given) await record(parts, id, decision, undefined, identity);
  } else if (runner.isRunning(thread)) {
    throw new Problem("THREAD_BUSY", `Thread ${JSON.stringify(thread)} is running.`);
  }
  void runner.goOn(thread, { ref, config });
}

function graphOf({ graphs }: HttpParts, assistant: string): string {
  const name = Object.keys(graphs).find((known) => known === assistant || assistantId(known) === assistant);
  if (name !== undefined) return name;
  throw new Problem("UNKNOWN_ASSISTANT", `There is no assistant ${JSON.stringify(assistant)}.`, {
    served: Object.keys(graphs),
  });
}

/** What is known of a thread; undefined where there is none, or none for who asks. */
async function findThread(
  { checkpointer }: HttpParts,
  thread: string,
  { owner }: Identity,
): Promise<ThreadOrigin | undefined> {
  const tuple = await checkpointer.getTuple({ configurable: { thread_id: thread } });
  if (tuple === undefined) return undefined;
  const origin = originOf(tuple);
  if (owner !== undefined && origin.owner !== owner) throw unknownThread(thread);
  return origin;
}

const unknownThread = (thread: string) =>
  new Problem("UNKNOWN_THREAD", `There is no thread ${JSON.stringify(thread)}.`, { thread });

const wrongGraph = (thread: string, recorded: string | undefined, asked: string) =>
  new Problem("WRONG_GRAPH", `Thread ${JSON.stringify(thread)} has unfinished work of another graph.`, {
    thread,
    graph: recorded ?? null,
    asked,
  });

const unfinished = (thread: string, next: readonly string[]) =>
  new Problem(
    "THREAD_UNFINISHED",
    `Thread ${JSON.stringify(thread)} has unfinished work (${next.join(", ")}). New input would drop that, so it was refused and nothing ` +
      'of it is stored. Go on with `"input": null`, or send `"on_paused": "supersede"` to drop it on purpose.',
    { thread, next },
  );
