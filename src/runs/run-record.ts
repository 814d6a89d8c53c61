/** A run's row as values: what stands in its body, and back. */

import type { Backend, Op } from "../backend.ts";
import type { RunRow, RunStatus } from "../model.ts";
import { encoded, payload, type Serde, type Tree } from "../serde.ts";
import { type BlobCollector, inlineOrBlob, ValueReader } from "../values.ts";

/** Who asked for a run to end, and why. */
export interface Cancellation {
  readonly by: string;
  readonly reason: string | undefined;
  readonly at: Date;
}

/** Why a run failed, is tried again, or needs a person. */
export interface RunError {
  readonly name: string;
  readonly message: string;
  /** Of a `HoldfastError`. */
  readonly code: string | undefined;
}

/** A run, decoded. */
export interface RunRecord {
  readonly id: string;
  readonly thread: string;
  readonly graph: string;
  readonly status: RunStatus;
  /** `undefined`: the run goes on with what the thread has. */
  readonly input: unknown;
  /** How often a worker has claimed it; every write of a run is refused once there is a later claim. */
  readonly epoch: number;
  /** The process that has it, while it is running: its `Backend.owner`. */
  readonly worker: string | undefined;
  /** From when on a worker may claim it, while it is queued or retrying. */
  readonly due: Date | undefined;
  readonly priority: number;
  readonly key: string | undefined;
  readonly owner: string | undefined;
  readonly createdAt: Date;
  /** When it is cancelled if it has not ended. */
  readonly deadline: Date | undefined;
  /** Tries that failed and are made again. */
  readonly failures: number;
  /** Workers that died with it, one after another without an end in between. */
  readonly deaths: number;
  readonly error: RunError | undefined;
  readonly cancellation: Cancellation | undefined;
}

/** What the body holds beside the input. Plain JSON, short; names are stored. */
export interface RunNotes {
  readonly deadline?: number | undefined;
  /** What the run does to waits that it finds: `supersede` where it took the place of another run. */
  readonly onPaused?: "supersede" | undefined;
  readonly recursionLimit?: number | undefined;
  readonly failures?: number | undefined;
  readonly deaths?: number | undefined;
  readonly error?: RunError | undefined;
  readonly cancel?: { readonly by: string; readonly reason?: string | undefined; readonly at: number } | undefined;
}

interface RunBody extends RunNotes {
  /** Digest of graph, thread and input: what the same key must come with again. */
  readonly digest: string;
  readonly input?: Tree | undefined;
}

export interface StoredRun {
  readonly row: RunRow;
  readonly notes: RunNotes;
  readonly digest: string;
  readonly record: RunRecord;
}

/** Row text; `input` as JSON, which may be a reference to a blob. */
function bodyOf(notes: RunNotes, digest: string, input: string | undefined): string {
  const plain = JSON.stringify({ ...notes, digest }).slice(0, -1);
  return encoded(`${plain}${input === undefined ? "" : `,"input":${input}`}}`);
}

export function newRunBody(
  serde: Serde,
  notes: RunNotes,
  digest: string,
  input: Tree | undefined,
  blobs: BlobCollector,
): string {
  return bodyOf(notes, digest, input === undefined ? undefined : inlineOrBlob(serde.stringify(input), blobs));
}

/** The body with other notes; the input stays as it is stored. */
export function changedBody(serde: Serde, row: RunRow, notes: RunNotes): string {
  const { digest, input } = parsed(serde, row);
  return bodyOf(notes, digest, input === undefined ? undefined : serde.stringify(input));
}

export function runOps(row: RunRow, era: number, expect: number | null, blobs?: BlobCollector): Op[] {
  return [...(blobs?.ops(row.thread, era) ?? []), { kind: "run", thread: row.thread, era, row, expect }];
}

const parsed = (serde: Serde, row: RunRow) => serde.parse(payload(row.body)) as unknown as RunBody;

/** What the same key must come with again. */
export function digestIn(serde: Serde, row: RunRow): string {
  return parsed(serde, row).digest;
}

/** Whether it is parked because worker after worker died with it. */
export function isCrashLoop(serde: Serde, row: RunRow): boolean {
  return row.status === "parked" && parsed(serde, row).error !== undefined;
}

export async function readRun(backend: Backend, serde: Serde, row: RunRow): Promise<StoredRun> {
  const { digest, input, ...notes } = parsed(serde, row);
  const reader = new ValueReader(backend, serde, row.thread);
  await reader.fetch([row.body], [input]);
  const value = input === undefined ? undefined : reader.revive(input, () => `the input of run ${row.id}`);
  return { row, notes, digest, record: recordOf(row, notes, value) };
}

function recordOf(row: RunRow, notes: RunNotes, input: unknown): RunRecord {
  const { cancel } = notes;
  return {
    id: row.id,
    thread: row.thread,
    graph: row.graph,
    status: row.status,
    input,
    epoch: row.epoch,
    worker: row.worker,
    due: dateOf(row.due),
    priority: row.priority,
    key: row.key,
    owner: row.owner,
    createdAt: new Date(row.createdAt),
    deadline: dateOf(notes.deadline),
    failures: notes.failures ?? 0,
    deaths: notes.deaths ?? 0,
    error: notes.error,
    cancellation: cancel === undefined ? undefined : { by: cancel.by, reason: cancel.reason, at: new Date(cancel.at) },
  };
}

export function runError(error: unknown): RunError {
  const { name, message, code } = error as { name?: unknown; message?: unknown; code?: unknown };
  return {
    name: error instanceof Error ? String(name) : typeof error,
    message: (error instanceof Error ? String(message) : String(error)).slice(0, 10_000),
    code: typeof code === "string" ? code : undefined,
  };
}

const dateOf = (at: number | undefined): Date | undefined => (at === undefined ? undefined : new Date(at));
