/** A stored checkpoint's tasks, as LangGraph's own `getState` tells them, without the values that they do not hang on. */

import type { RunnableConfig } from "@langchain/core/runnables";
import { BaseCheckpointSaver, type CheckpointTuple, type DeltaChannelHistory } from "@langchain/langgraph-checkpoint";
import type { StoredCheckpoint } from "./backend.ts";
import { CheckpointReader, type ReadCheckpoint } from "./checkpoint-reader.ts";
import type { Checkpointer } from "./checkpointer.ts";
import type { ForkableGraph } from "./fork-draft.ts";
import { lentSaver, SPECIAL_WRITES, TASKS } from "./langgraph.ts";
import { ValueReader } from "./values.ts";

/** A task that ran, or is to run, from a checkpoint. */
export interface HistoryTask {
  readonly id: string;
  /** The node. */
  readonly name: string;
  /** `done` its result is stored · `failed` it threw · `waiting` it asked something · `pending` nothing of it is stored. */
  readonly status: "done" | "failed" | "waiting" | "pending";
  /** What it wrote, by channel; of `task()` calls what it returned. Undefined where it is not done, or wrote nothing. */
  readonly result: unknown;
  /** What it threw last; also of a task that was done later. `code` is that of one of our errors. */
  readonly error: { readonly name: string; readonly message: string; readonly code: string | undefined } | undefined;
  readonly interrupts: readonly { readonly id: string | undefined; readonly value: unknown }[];
}

export interface CheckpointTasks {
  readonly tasks: readonly HistoryTask[];
  readonly values: unknown;
}

interface SnapshotTask {
  readonly id: string;
  readonly name: string;
  readonly error?: { readonly name?: unknown; readonly message?: unknown };
  readonly interrupts: readonly { readonly id?: string; readonly value?: unknown }[];
  readonly result?: unknown;
}

/** Reads the checkpoints of one listing. */
export class TaskReader {
  readonly #reader: CheckpointReader;
  readonly #values: ValueReader;
  readonly #saver: Checkpointer;
  readonly #withValues: boolean;
  readonly #triggers = new Map<ForkableGraph, ReadonlySet<string>>();

  constructor(saver: Checkpointer, thread: string, withValues: boolean) {
    const { serde } = saver.effectLedger;
    this.#saver = saver;
    this.#withValues = withValues;
    this.#reader = new CheckpointReader(saver.backend, serde);
    this.#values = new ValueReader(saver.backend, serde, thread);
  }

  /** Without a graph, the channels are not read and no task is known. */
  async read(stored: StoredCheckpoint, graph: ForkableGraph | undefined): Promise<ReadCheckpoint> {
    const only = graph !== undefined && this.#withValues ? undefined : this.#triggersOf(graph);
    return this.#reader.read(stored, this.#values, only);
  }

  async tasksOf({ tuple }: ReadCheckpoint, graph: ForkableGraph): Promise<CheckpointTasks> {
    const lent = lentSaver(new OneTuple(tuple, this.#withValues ? this.#saver : undefined));
    const snapshot = (await graph.getState({ configurable: { ...tuple.config.configurable, ...lent } })) as {
      readonly values: unknown;
      readonly tasks: readonly SnapshotTask[];
    };
    const done = new Set<string>();
    for (const [task, channel] of tuple.pendingWrites ?? []) {
      if (!SPECIAL_WRITES.has(channel) && channel !== "__error_source_node__") done.add(task);
    }
    return {
      tasks: snapshot.tasks.map((task) => historyTask(task, done.has(task.id))),
      values: this.#withValues ? snapshot.values : undefined,
    };
  }

  /** The channels that decide which tasks come next. */
  #triggersOf(graph: ForkableGraph | undefined): ReadonlySet<string> {
    if (graph === undefined) return new Set();
    let triggers = this.#triggers.get(graph);
    if (triggers === undefined) {
      const nodes = Object.values(graph.nodes) as readonly { readonly triggers?: readonly string[] }[];
      triggers = new Set([TASKS, ...nodes.flatMap((node) => node.triggers ?? [])]);
      this.#triggers.set(graph, triggers);
    }
    return triggers;
  }
}

function historyTask({ id, name, error, interrupts, result }: SnapshotTask, done: boolean): HistoryTask {
  const status = done ? "done" : error !== undefined ? "failed" : interrupts.length > 0 ? "waiting" : "pending";
  const message = String(error?.message ?? error);
  return {
    id,
    name,
    status,
    result,
    error:
      error === undefined
        ? undefined
        : { name: String(error.name ?? "Error"), message, code: /\[([A-Z_]+)\]$/.exec(message)?.[1] },
    interrupts: interrupts.map((interrupt) => ({ id: interrupt.id, value: interrupt.value })),
  };
}

/** Answers with one checkpoint that was read before. */
class OneTuple extends BaseCheckpointSaver {
  readonly #tuple: CheckpointTuple;
  readonly #history: Checkpointer | undefined;

  constructor(tuple: CheckpointTuple, history: Checkpointer | undefined) {
    super();
    this.#tuple = tuple;
    this.#history = history;
  }

  async getTuple(): Promise<CheckpointTuple> {
    return this.#tuple;
  }

  override async getDeltaChannelHistory(options: {
    config: RunnableConfig;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    if (this.#history !== undefined) return this.#history.getDeltaChannelHistory(options);
    return Object.fromEntries(options.channels.map((channel) => [channel, { writes: [] }]));
  }

  async *list(): AsyncGenerator<CheckpointTuple> {}

  put(): Promise<never> {
    return Promise.reject(new Error("a look back stores nothing"));
  }

  putWrites(): Promise<never> {
    return Promise.reject(new Error("a look back stores nothing"));
  }

  deleteThread(): Promise<never> {
    return Promise.reject(new Error("a look back deletes nothing"));
  }
}
