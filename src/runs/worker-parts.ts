/** What a worker is given, and what it tells of itself. */

import type { RunnableConfig } from "@langchain/core/runnables";
import type { Checkpointer } from "../checkpointer.ts";
import type { RunnableGraph } from "../run.ts";
import type { Delivery } from "./delivery.ts";
import type { RunLedger } from "./run-ledger.ts";
import type { RunRecord } from "./run-record.ts";

export interface WorkerOptions {
  /** Runs at once. Default 16. */
  readonly concurrency?: number;
  /** The same of single graphs, by name. */
  readonly graphConcurrency?: Readonly<Record<string, number>>;
  /**
   * Longest time between two looks for due runs and waits, where nothing wakes the worker. What falls due in between is
   * served at its moment, if it was stored before the last look or in this process. Default 5000.
   */
  readonly pollMs?: number;
  /** Time between two looks for runs whose worker is gone. Default 5000. */
  readonly takeoverMs?: number;
}

export interface WorkerParts {
  readonly checkpointer: Checkpointer;
  readonly ledger: RunLedger;
  readonly graphs: Readonly<Record<string, RunnableGraph>>;
  readonly config: ((run: { readonly thread: string; readonly graph: string }) => RunnableConfig) | undefined;
  readonly report: (error: unknown, run: { readonly id?: string; readonly thread?: string }) => void;
  /** Told of every run that this worker is done with, after its row says so. */
  readonly told: (run: RunRecord) => void;
  readonly delivery: Delivery | undefined;
}

/** What a worker has done since it was made. */
export interface WorkerCounts {
  /** Runs claimed, those that were taken over included. */
  readonly claimed: number;
  readonly takenOver: number;
  /** Runs that somebody else had by the time this worker wanted to store something. */
  readonly lost: number;
}
