/** One claimed run, from its claim to where it ends, waits, fails or is handed back. */

import type { RunnableConfig } from "@langchain/core/runnables";
import { isGraphDrained, RunControl } from "@langchain/langgraph";
import type { Checkpointer } from "../checkpointer.ts";
import { type ErrorCode, isHoldfastError } from "../errors.ts";
import { carryOn, lookAgain, type RunnableGraph, type RunResult, type Snapshot } from "../run.ts";
import { CLAIM_KEY, type Claim } from "../run-state.ts";
import { type RunNotes, runError, type StoredRun } from "./run-record.ts";
import type { Move } from "./run-ledger.ts";

/** Tries of a run whose store, or whose effect in doubt, will do better later. */
const FAILURES_MAX = 10;
const FIRST_DELAY_MS = 1000;
const DELAY_MAX_MS = 60_000;

/**
 * The thread went on without this execution. Where somebody else has the run by now, what is said here is not stored; where an
 * edit of the thread came in between, the run is executed again on what is there.
 */
const OVERTAKEN: readonly ErrorCode[] = [
  "RUN_LOST",
  "HEAD_MOVED",
  "WRITE_CONFLICT",
  "LIST_CONFLICT",
  "THREAD_DELETED",
  "RUN_REFUSED",
];

/** Why an execution was told to stop. */
export type Stop = "cancel" | "abort";

export class Execution {
  readonly stored: StoredRun;
  readonly #graph: RunnableGraph;
  readonly #checkpointer: Checkpointer;
  readonly #config: RunnableConfig;
  readonly #control = new RunControl();
  readonly #abort = new AbortController();
  #stop: Stop | undefined;

  /** @param stored as it was claimed */
  constructor(stored: StoredRun, graph: RunnableGraph, checkpointer: Checkpointer, config: RunnableConfig) {
    this.stored = stored;
    this.#graph = graph;
    this.#checkpointer = checkpointer;
    this.#config = config;
  }

  /** Ends it after the superstep that is under way. */
  drain(): void {
    this.#control.requestDrain("the worker drains");
  }

  /** Ends it now: nodes see their signal aborted, no further effect begins, and what they return is not stored. */
  stop(why: Stop): void {
    if (this.#stop !== "cancel") this.#stop = why;
    this.#abort.abort(new Error(why === "cancel" ? "the run is cancelled" : "the worker stops"));
  }

  /** Executes it, and says what its row becomes if it is still this claim's. `now`: the backend's clock. */
  async outcome(now: () => Promise<number> | number): Promise<Move> {
    try {
      return this.#moveAfter(await this.#run());
    } catch (error) {
      return this.#moveAfterError(error, await now());
    }
  }

  async #run(): Promise<RunResult<unknown>> {
    const { thread } = this.stored.row;
    const begun = await this.#hasBegun();
    if (begun) {
      const before = (await this.#graph.getState({ configurable: { thread_id: thread } })) as Snapshot;
      const finished = await lookAgain(this.#checkpointer, thread, before);
      if (finished !== undefined) return finished;
    }
    const input = begun || this.stored.record.input === undefined ? null : this.stored.record.input;
    return carryOn(this.#graph, this.#checkpointer, input, this.#configOf());
  }

  /** Whether an earlier claim has stored something of it. */
  async #hasBegun(): Promise<boolean> {
    const { thread, id, epoch } = this.stored.row;
    if (epoch === 1) return false;
    const tuple = await this.#checkpointer.getTuple({ configurable: { thread_id: thread } });
    const { run_id } = (tuple?.metadata ?? {}) as { readonly run_id?: unknown };
    return run_id === id;
  }

  #configOf(): RunnableConfig & Readonly<Record<string, unknown>> {
    const { row, notes } = this.stored;
    const claim: Claim = { run: row.id, thread: row.thread, epoch: row.epoch };
    const configurable = {
      ...this.#config.configurable,
      thread_id: row.thread,
      graph_id: row.graph,
      ...(row.owner === undefined ? {} : { owner: row.owner }),
      ...(notes.onPaused === undefined ? {} : { on_paused: notes.onPaused }),
      [CLAIM_KEY]: claim,
    };
    return {
      ...(this.#config as object),
      ...(notes.recursionLimit === undefined ? {} : { recursionLimit: notes.recursionLimit }),
      configurable,
      signal: this.#abort.signal,
      control: this.#control,
    };
  }

  #moveAfter({ status }: RunResult<unknown>): Move {
    const notes: RunNotes = { ...this.stored.notes, failures: undefined, deaths: undefined, error: undefined };
    if (this.#stop === "cancel") return this.#cancelled();
    const free = { worker: undefined, due: undefined, notes };
    if (status === "waiting" || status === "parked") return { ...free, status };
    return { ...free, status: "succeeded" };
  }

  #cancelled(): Move {
    return { status: "cancelled", worker: undefined, due: undefined };
  }

  #moveAfterError(error: unknown, now: number): Move {
    const { notes } = this.stored;
    if (this.#stop === "cancel") return this.#cancelled();
    // Handed back: whoever claims it next goes on from the last checkpoint.
    if (this.#stop === "abort" || isGraphDrained(error)) return { status: "queued", worker: undefined, due: now };
    const failures = (notes.failures ?? 0) + 1;
    const reasons = reasonsOf(error);
    const lasting = reasons.find((reason) => !isPassing(reason));
    const told = { ...notes, failures, error: runError(lasting ?? reasons[0]) };
    if (lasting === undefined && failures < FAILURES_MAX) {
      const due = now + Math.min(FIRST_DELAY_MS * 2 ** (failures - 1), DELAY_MAX_MS);
      return { status: "retrying", worker: undefined, due, notes: told };
    }
    return { status: "failed", worker: undefined, due: undefined, notes: told };
  }
}

/** Of tasks that failed in the same superstep LangGraph throws all errors as one. */
function reasonsOf(error: unknown): readonly unknown[] {
  return error instanceof AggregateError && error.errors.length > 0 ? error.errors : [error];
}

/** Whether it may be better later. */
function isPassing(error: unknown): boolean {
  return isHoldfastError(error) && (error.retryable || OVERTAKEN.includes(error.code));
}
