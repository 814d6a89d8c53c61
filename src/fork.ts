/** Forks and rollbacks of threads: append-only, in one commit, and nothing runs by them. */

import type { RunnableConfig } from "@langchain/core/runnables";
import type { Checkpointer } from "./checkpointer.ts";
import { HoldfastError, isHoldfastError } from "./errors.ts";
import { storeFork } from "./fork-commit.ts";
import type { ForkableGraph } from "./fork-draft.ts";
import { type ForkRequest, planFork } from "./fork-plan.ts";
import { FORK_POLICIES, isOnFork, type OnFork } from "./fork-policy.ts";
import { checkId } from "./place.ts";

export interface ForkOptions {
  /** What the state is changed by: goes through the reducers, as in LangGraph's `updateState`. */
  readonly values?: unknown;
  /** The node that counts as having written the values: the graph goes on after it. Default as in `updateState`. */
  readonly asNode?: string;
  /** What the whole branch does about effects that were left behind. Default: what each effect says, and `reuse`. */
  readonly effects?: OnFork;
  /** Id of a new thread that begins with the state; it must not exist. Default: the branch is made in the same thread. */
  readonly to?: string;
}

/** A branch that was begun. */
export interface Forked {
  readonly thread: string;
  /** The new head. */
  readonly checkpoint: string;
  /**
   * To go on with: `app.invoke(null, config)` or `run(app, null, config)`. It names the thread only: with a
   * `checkpoint_id` each call would begin another branch.
   */
  readonly config: RunnableConfig;
}

/** How often a fork is planned anew where the thread changes meanwhile. */
const TRIES = 5;

const CHANGED = ["HEAD_MOVED", "WAIT_CONFLICT", "DECISION_CONFLICT", "LIST_CONFLICT"] as const;

export async function forkThread(app: ForkableGraph, saver: Checkpointer, request: ForkRequest): Promise<Forked> {
  const { to } = request;
  for (let attempt = 1; ; attempt += 1) {
    await assertFree(saver, to);
    const plan = await planFork(app, saver, request);
    try {
      await storeFork(saver, plan);
    } catch (error) {
      if (to !== undefined && isHoldfastError(error, "HEAD_MOVED")) throw threadExists(to);
      if (attempt < TRIES && CHANGED.some((code) => isHoldfastError(error, code))) continue;
      throw error;
    }
    const thread = to ?? request.thread;
    const root = plan.placements.find(({ ns }) => ns === "");
    return { thread, checkpoint: root?.checkpoint.id ?? "", config: { configurable: { thread_id: thread } } };
  }
}

/** @throws THREAD_EXISTS */
export async function assertFree(saver: Checkpointer, thread: string | undefined): Promise<void> {
  if (thread === undefined) return;
  const { head } = await saver.backend.load(thread, "", undefined);
  if (head !== undefined) throw threadExists(thread);
}

function threadExists(thread: string): HoldfastError {
  return new HoldfastError(
    "THREAD_EXISTS",
    `Thread ${JSON.stringify(thread)} has checkpoints already, and a fork begins a new thread. Nothing was written. Use an id that is free, ` +
      "or leave `to` out to fork inside the thread.",
    { details: { thread } },
  );
}

const FORK_OPTIONS = ["values", "asNode", "effects", "to"];

/** @throws INVALID_ARGUMENT, INVALID_ID */
export function checkFork(call: string, thread: unknown, checkpoint: unknown, options: ForkOptions = {}): void {
  checkText(call, "thread", thread);
  checkText(call, "checkpoint", checkpoint);
  if (typeof options !== "object" || options === null)
    throw invalid(`${call}: the options are ${JSON.stringify(options)}; pass an object.`);
  for (const option of Object.keys(options)) {
    if (!FORK_OPTIONS.includes(option))
      throw invalid(`${call}: unknown option ${JSON.stringify(option)}. Known: ${FORK_OPTIONS.join(", ")}.`);
  }
  const { asNode, effects, to, values } = options;
  if (asNode !== undefined && (typeof asNode !== "string" || asNode === ""))
    throw invalid(`${call}: asNode is ${JSON.stringify(asNode)}; use the name of a node.`);
  if (asNode === "__copy__") throw invalid(`${call}: a fork without values is a copy; leave asNode out.`);
  if (values === null) throw invalid(`${call}: values is null; leave it out to keep the state as it was.`);
  if (effects !== undefined && !isOnFork(effects))
    throw invalid(`${call}: effects is ${JSON.stringify(effects)}; use one of ${FORK_POLICIES.join(", ")}.`);
  if (to === undefined) return;
  checkText(call, "to", to);
  if (to === thread) throw invalid(`${call}: \`to\` is the thread itself. Leave it out to fork inside the thread.`);
}

function checkText(call: string, what: string, id: unknown): void {
  if (typeof id !== "string" || id === "")
    throw invalid(`${call}: ${what} is ${JSON.stringify(id)}; use its id, a text that is not empty.`);
  checkId(what, id);
}

const invalid = (message: string) => new HoldfastError("INVALID_ARGUMENT", message);
