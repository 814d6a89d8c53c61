/**
 * Runs for the workers of a runtime: what a request asks for becomes a row, and whoever serves the graph executes it. A run
 * that was answered with 200 is executed also where this process dies the next moment.
 */

import { HoldfastError } from "../errors.ts";
import { LANGGRAPH_STATUS } from "../model.ts";
import { ACTIVE } from "../runs/multitask.ts";
import type { RunRecord } from "../runs/run-record.ts";
import type { Runtime } from "../runs/runtime.ts";
import type { Identity } from "./access.ts";
import type { ThreadRef } from "./back-off.ts";
import type { HttpParts } from "./http-app.ts";
import { Problem } from "./problem.ts";
import { answersOf, record } from "./recording.ts";
import { assistantId, isResume, type RunBody, unsupported } from "./run-request.ts";

/** What only the process can say that executes the run: `createRuntime({ config })`. */
const OF_THE_WORKER = [
  "context",
  "metadata",
  "interrupt_before",
  "interrupt_after",
  "durability",
  "checkpoint_during",
  "on_paused",
] as const;

/** @throws Problem UNSUPPORTED_FIELD */
export function checkQueuedBody(body: RunBody): void {
  for (const field of OF_THE_WORKER)
    if (body[field] !== undefined && body[field] !== null)
      throw unsupported(field, field === "on_paused" ? 'use "multitask_strategy": "interrupt"' : "the worker says it");
  const { tags = [], configurable = {} } = body.config ?? {};
  if (tags.length > 0) throw unsupported("config.tags", "the worker says it");
  for (const key of Object.keys(configurable)) throw unsupported(`config.configurable.${key}`, "the worker says it");
}

/** Queues a run with an input, after, instead of, or not beside one that has not ended. */
export async function queueInput(runtime: Runtime, ref: ThreadRef, body: RunBody, key?: string): Promise<RunRecord> {
  const { run } = await runtime.start(ref.graph, body.input, {
    threadId: ref.thread,
    owner: ref.owner,
    key,
    multitask: body.multitask_strategy ?? "enqueue",
    recursionLimit: body.config?.recursion_limit,
  });
  return run;
}

/** Records answers, which queues the run that waits for them; a thread without a run gets one that goes on with it. */
export async function queueGoOn(
  parts: HttpParts,
  runtime: Runtime,
  ref: ThreadRef,
  body: RunBody,
  identity: Identity,
): Promise<RunRecord> {
  const { thread, graph, owner } = ref;
  if (isResume(body)) {
    const given = await answersOf(parts.checkpointer.waitLedger, thread, body.command?.resume, identity.owner);
    for (const { id, decision } of given) await record(parts, id, decision, undefined, identity);
  }
  const [active] = await runtime.activeRuns(thread);
  if (active !== undefined && isResume(body)) return active;
  if (active !== undefined)
    throw new Problem("THREAD_BUSY", `Thread ${JSON.stringify(thread)} has a run that has not ended: ${active.id}.`, {
      thread,
      run: active.id,
      status: active.status,
    });
  const { run } = await runtime.start(graph, null, {
    threadId: thread,
    owner,
    recursionLimit: body.config?.recursion_limit,
  });
  return run;
}

/** The run that the thread began with: it says whose thread it is before anything else of it is stored. */
export async function firstRun(runtime: Runtime, thread: string): Promise<RunRecord | undefined> {
  const [first] = await runtime.list({ thread, limit: 1 });
  return first;
}

export const isTheirs = (run: RunRecord, { owner }: Identity): boolean => owner === undefined || run.owner === owner;

/** @throws UNKNOWN_RUN, also where it is another thread's or owner's */
export async function findRun(runtime: Runtime, thread: string, id: string, { owner }: Identity): Promise<RunRecord> {
  const run = await runtime.get(id, owner === undefined ? {} : { owner });
  if (run.thread === thread) return run;
  throw new HoldfastError("UNKNOWN_RUN", "It is another thread's.", { details: { id } });
}

/** `Run` of LangGraph's SDK. */
export function runView(run: RunRecord) {
  const { id, thread, graph, createdAt, error, cancellation } = run;
  const metadata: Record<string, string | Record<string, string>> = { graph_id: graph, holdfast_status: run.status };
  if (error !== undefined) metadata["error"] = { name: error.name, message: error.message };
  const byDeadline = run.status === "cancelled" && cancellation?.by === "deadline";
  return {
    run_id: id,
    thread_id: thread,
    assistant_id: assistantId(graph),
    created_at: createdAt.toISOString(),
    updated_at: (cancellation?.at ?? createdAt).toISOString(),
    status: byDeadline ? "timeout" : LANGGRAPH_STATUS[run.status],
    metadata,
    multitask_strategy: "enqueue",
  };
}

/** Our statuses of one of LangGraph's. */
export function statusesOf(langgraph: string): readonly RunRecord["status"][] {
  const all = [...ACTIVE, "succeeded", "failed", "cancelled"] as const;
  return all.filter(
    (status) => LANGGRAPH_STATUS[status] === langgraph || (langgraph === "timeout" && status === "cancelled"),
  );
}
