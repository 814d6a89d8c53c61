/** `run`: makes a thread's job go on until it is finished or has to wait, in this process. */

import type { RunnableConfig } from "@langchain/core/runnables";
import { isCommand } from "@langchain/langgraph";
import { eraOf } from "./backend.ts";
import { type Checkpointer, isCheckpointer } from "./checkpointer.ts";
import { digestOf } from "./effect-record.ts";
import { HoldfastError } from "./errors.ts";
import { placeOf } from "./place.ts";
import type { WaitRecord } from "./wait-record.ts";

/**
 * `finished` nothing is left to do · `waiting` for an answer, an event or a time, or at a breakpoint · `parked` an
 * effect's outcome must be settled by a person · `already_done` it was finished before, nothing was run.
 */
export type RunResultStatus = "finished" | "waiting" | "parked" | "already_done";

export interface RunResult<Values = Record<string, unknown>> {
  readonly status: RunResultStatus;
  /** The thread's state values. */
  readonly values: Values;
  /** What it waits for, oldest first; `id` is that of the interrupt. */
  readonly waits: readonly WaitRecord[];
}

export interface Snapshot {
  readonly values: unknown;
  readonly tasks: readonly unknown[];
  readonly config: RunnableConfig;
  readonly metadata?: unknown;
}

/** What `run` needs of a compiled graph: LangGraph's own methods. */
export interface RunnableGraph {
  readonly checkpointer?: unknown;
  invoke(input: never, config: never): Promise<unknown>;
  getState(config: RunnableConfig): Promise<unknown>;
}

/**
 * Starts the thread's job, or goes on with it; call it again with the same arguments after a crash.
 *
 * - The thread is new: `input` starts it.
 * - `input` is `null`, or equals the last input the thread accepted: what is unfinished goes on; what is finished is
 *   answered with `already_done` and nothing runs.
 * - A `Command`: is handed to the graph as it is, for example `new Command({ resume: { [wait.id]: answer } })`.
 * - Another input: starts the next turn of a finished thread; refused while something is unfinished, because LangGraph
 *   would drop that silently.
 *
 * Errors of nodes are rethrown; the thread can be run again. With a journal its events are written and reconciled.
 *
 * @param app a graph compiled with a Holdfast checkpointer
 * @param config LangGraph's run config; `configurable.thread_id` names the thread
 * @throws FOREIGN_CHECKPOINTER, MISSING_THREAD_ID, INVALID_ARGUMENT (see above), WAIT_STRANDED (this graph has no task
 *   that takes what the thread waits for), whatever the graph throws
 */
export async function run<Values = Record<string, unknown>>(
  app: RunnableGraph,
  input: unknown,
  config: RunnableConfig & Readonly<Record<string, unknown>>,
): Promise<RunResult<Values>> {
  const saver = app.checkpointer;
  if (!isCheckpointer(saver)) {
    throw new HoldfastError(
      "FOREIGN_CHECKPOINTER",
      "run() needs a graph compiled with a Holdfast checkpointer: graph.compile({ checkpointer: await sqlite(file) }).",
    );
  }
  const { thread } = placeOf(config);
  const where = { configurable: { thread_id: thread } };
  const before = (await app.getState(where)) as Snapshot;
  const exists = before.metadata !== undefined;
  if (!exists && (input === null || input === undefined)) {
    throw new HoldfastError(
      "INVALID_ARGUMENT",
      `Thread ${JSON.stringify(thread)} has not begun, so there is nothing to go on with. Pass its input: run(app, input, config).`,
      {
        details: { thread },
      },
    );
  }
  // A command answers questions or steers what is there: it is no new input and drops nothing.
  const command = isCommand(input);
  const fresh =
    exists && !command && input !== null && input !== undefined && !(await isLastInput(saver, thread, input));
  if (exists && !fresh && !command) {
    const finished = await lookAgain<Values>(saver, thread, before);
    if (finished !== undefined) return finished;
  } else if (fresh && before.tasks.length > 0) {
    throw new HoldfastError(
      "INVALID_ARGUMENT",
      `Thread ${JSON.stringify(thread)} has unfinished work, and this is not the input it began with: LangGraph would drop that work. ` +
        "Pass null to go on with it, or use another thread_id; to drop it on purpose, call app.invoke(input, config).",
      { details: { thread } },
    );
  }
  if (exists) await saver.journal?.resumed(thread, checkpointOf(before));
  return carryOn<Values>(app, saver, exists && !fresh && !command ? null : input, config);
}

/**
 * Looks at a thread that another process may have left: adds to the journal what that has not written any more. Undefined where
 * something is unfinished. @throws WAIT_STRANDED
 */
export async function lookAgain<Values>(
  saver: Checkpointer,
  thread: string,
  before: Snapshot,
): Promise<RunResult<Values> | undefined> {
  const finished = before.tasks.length === 0;
  if (finished) await assertNothingWaits(saver, thread);
  await reconcile(saver, thread, finished ? checkpointOf(before) : undefined);
  return finished ? { status: "already_done", values: before.values as Values, waits: [] } : undefined;
}

/** Invokes the graph, again where something was answered or came due meanwhile, and says how the thread stands then. */
export async function carryOn<Values>(
  app: RunnableGraph,
  saver: Checkpointer,
  given: unknown,
  config: RunnableConfig & Readonly<Record<string, unknown>>,
): Promise<RunResult<Values>> {
  const { thread } = placeOf(config);
  await app.invoke(given as never, config as never);
  let waits = await unfinishedWaits(saver, thread);
  for (let decided = answered(waits); decided.length > 0; ) {
    await app.invoke(null as never, config as never);
    waits = await unfinishedWaits(saver, thread);
    const left = answered(waits);
    const taken = decided.some((wait) => !left.some(({ id, decision }) => sameDecision(wait, id, decision)));
    if (!taken) throw stranded(thread, left);
    decided = left;
  }
  return conclude<Values>(app, saver, thread, waits);
}

const unfinishedWaits = (saver: Checkpointer, thread: string) => saver.waits({ thread, status: ["open", "answered"] });

const answered = (waits: readonly WaitRecord[]) => waits.filter(({ status }) => status === "answered");

const sameDecision = (wait: WaitRecord, id: string, decision: WaitRecord["decision"]): boolean =>
  wait.id === id && wait.decision?.seq === decision?.seq;

/** Where no task is left but a question or a decision is, the node that asked is gone. */
async function assertNothingWaits(saver: Checkpointer, thread: string): Promise<void> {
  const waits = await unfinishedWaits(saver, thread);
  if (waits.length > 0) throw stranded(thread, waits);
}

function stranded(thread: string, waits: readonly WaitRecord[]): HoldfastError {
  const list = waits.map(({ id, name, status }) => `${JSON.stringify(name)} (${status}, ${id})`).join(", ");
  return new HoldfastError(
    "WAIT_STRANDED",
    `Thread ${JSON.stringify(thread)} waits for what no task of this graph asks: ${list}. The graph has changed since: a node was ` +
      "renamed or removed. Nothing was dropped. Run it with a graph that has the node, or close what waits on purpose: " +
      "app.updateState(config, values, asNode).",
    { details: { thread, waits: waits.map(({ id, name, status, ns, task }) => ({ id, name, status, ns, task })) } },
  );
}

/** @param waits those that are open */
async function conclude<Values>(
  app: RunnableGraph,
  saver: Checkpointer,
  thread: string,
  waits: readonly WaitRecord[],
): Promise<RunResult<Values>> {
  const after = (await app.getState({ configurable: { thread_id: thread } })) as Snapshot;
  const values = after.values as Values;
  if (after.tasks.length === 0 && waits.length === 0) {
    await saver.journal?.finished(thread, checkpointOf(after));
    return { status: "finished", values, waits };
  }
  for (const wait of waits) await saver.journal?.question(thread, wait);
  const parked = waits.some((wait) => wait.kind === "settle");
  return { status: parked ? "parked" : "waiting", values, waits };
}

const checkpointOf = (state: Snapshot): string => String(state.config.configurable?.["checkpoint_id"] ?? "");

/** LangGraph keeps the input of a run in the channel `__start__` of its input checkpoint. */
async function isLastInput(saver: Checkpointer, thread: string, input: unknown): Promise<boolean> {
  const { serde } = saver.effectLedger;
  const digest = (value: unknown) =>
    digestOf(
      serde,
      serde.toTree(value, saver.effectLedger.blobs(), () => "the input"),
    );
  const newest = saver.list(
    { configurable: { thread_id: thread, checkpoint_ns: "" } },
    { filter: { source: "input" }, limit: 1 },
  );
  for await (const { checkpoint } of newest) {
    return digest(checkpoint.channel_values["__start__"]) === digest(input);
  }
  return false;
}

async function reconcile(saver: Checkpointer, thread: string, finishedAt: string | undefined): Promise<void> {
  if (saver.journal === undefined) return;
  const era = await eraOf(saver.backend, thread);
  await saver.journal.reconcile(thread, era, await saver.effects({ thread }), finishedAt);
}
