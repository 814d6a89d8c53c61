/** A thread's state in the shape of LangGraph's servers (`ThreadState` of `@langchain/langgraph-sdk`). */

import type { RunnableConfig } from "@langchain/core/runnables";
import { plainJson } from "./plain-json.ts";

/** What LangGraph's `getState` resolves with. */
export interface Snapshot {
  readonly values: unknown;
  readonly next: readonly string[];
  readonly config: RunnableConfig;
  readonly metadata?: unknown;
  readonly createdAt?: string;
  readonly parentConfig?: RunnableConfig;
  readonly tasks: readonly SnapshotTask[];
}

interface SnapshotTask {
  readonly id: string;
  readonly name: string;
  readonly error?: unknown;
  readonly interrupts: readonly unknown[];
  readonly state?: RunnableConfig | Snapshot;
  readonly path?: readonly unknown[];
  readonly result?: unknown;
}

export interface ThreadState {
  readonly values: unknown;
  readonly next: string[];
  readonly checkpoint: CheckpointRef | null;
  readonly metadata: unknown;
  readonly created_at: string | null;
  readonly parent_checkpoint: CheckpointRef | null;
  readonly tasks: ThreadStateTask[];
}

interface CheckpointRef {
  readonly thread_id: string;
  readonly checkpoint_ns: string;
  readonly checkpoint_id: string | null;
  readonly checkpoint_map: unknown;
}

interface ThreadStateTask {
  readonly id: string;
  readonly name: string;
  readonly error: string | null;
  readonly interrupts: unknown;
  readonly checkpoint: CheckpointRef | null;
  readonly state: ThreadState | null;
  readonly path: unknown;
  readonly result: unknown;
}

export function threadState(snapshot: Snapshot): ThreadState {
  return {
    values: plainJson(snapshot.values),
    next: [...snapshot.next],
    checkpoint: checkpointRef(snapshot.config),
    metadata: plainJson(snapshot.metadata),
    created_at: snapshot.createdAt ?? null,
    parent_checkpoint: checkpointRef(snapshot.parentConfig),
    tasks: snapshot.tasks.map(threadTask),
  };
}

function threadTask({ id, name, error, interrupts, state, path, result }: SnapshotTask): ThreadStateTask {
  const inner = state !== undefined && "values" in state ? (state as Snapshot) : undefined;
  return {
    id,
    name,
    error: errorText(error),
    interrupts: plainJson(interrupts),
    checkpoint: inner === undefined ? checkpointRef(state as RunnableConfig | undefined) : null,
    state: inner === undefined ? null : threadState(inner),
    path: plainJson(path),
    result: plainJson(result),
  };
}

function checkpointRef(config: RunnableConfig | undefined): CheckpointRef | null {
  const { thread_id, checkpoint_ns, checkpoint_id, checkpoint_map } = config?.configurable ?? {};
  if (thread_id === undefined) return null;
  return {
    thread_id: String(thread_id),
    checkpoint_ns: String(checkpoint_ns ?? ""),
    checkpoint_id: checkpoint_id === undefined ? null : String(checkpoint_id),
    checkpoint_map: plainJson(checkpoint_map),
  };
}

/** What a node threw, in one line: its name and message, never the stack. */
function errorText(error: unknown): string | null {
  if (error === undefined || error === null) return null;
  if (typeof error !== "object") return String(error);
  const { name = "Error", message = "" } = error as { name?: unknown; message?: unknown };
  return `${name}: ${message}`;
}
