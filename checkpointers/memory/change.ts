/**
 * What an accepted commit changes, in plain data, and what the judge must know to decide about it.
 *
 * Operations say what a writer wants and under which conditions; changes say what is stored: the slot of a write is
 * decided, blobs that are there already are left out. Applying a change cannot fail.
 */

import { createHash } from "node:crypto";
import type {
  CheckpointRow,
  DecisionRow,
  EffectRow,
  ItemsRow,
  ListBase,
  RunFacts,
  RunRow,
  WaitRow,
  WriteRow,
} from "holdfast";

export type Change =
  /** Stores the checkpoint, or replaces it, and makes it the head of its namespace. */
  | { readonly kind: "checkpoint"; readonly row: CheckpointRow }
  /** Stores the row in its slot, or replaces the one there. */
  | { readonly kind: "writes"; readonly thread: string; readonly ns: string; readonly row: WriteRow }
  | { readonly kind: "items"; readonly thread: string; readonly row: ItemsRow; readonly base: ListBase | undefined }
  | { readonly kind: "blob"; readonly thread: string; readonly hash: string; readonly data: string | Uint8Array }
  | { readonly kind: "effect"; readonly row: EffectRow }
  /** Stores the wait, or replaces the one with its id. */
  | { readonly kind: "wait"; readonly row: WaitRow }
  /** Appends to the chain of the row's thread. */
  | { readonly kind: "decision"; readonly row: DecisionRow }
  /** Stores the run, or replaces the one with its id. */
  | { readonly kind: "run"; readonly row: RunRow }
  /** Removes the thread's rows and leaves its digest and next era. */
  | { readonly kind: "delete"; readonly thread: string; readonly digest: string; readonly era: number }
  /** What is left of a deletion: the digest of the thread id, see {@link threadDigest}, and the next era. */
  | { readonly kind: "era"; readonly digest: string; readonly era: number };

/** The questions a commit's preconditions ask. Answered by the state and by a draft of changes over it. */
export interface View {
  era(thread: string): number;
  head(thread: string, ns: string): string | undefined;
  /** The rows of one task on one checkpoint. */
  taskWrites(thread: string, ns: string, checkpoint: string, task: string): readonly WriteRow[];
  hasItems(thread: string, list: string, start: number): boolean;
  hasBlob(thread: string, hash: string): boolean;
  effect(key: string): EffectRow | undefined;
  wait(id: string): WaitRow | undefined;
  lastDecision(thread: string): DecisionRow | undefined;
  run(id: string): RunFacts | undefined;
  runWithKey(key: string): RunFacts | undefined;
  /** The runs of a thread that have not ended, in no particular order. */
  unendedRuns(thread: string): Iterable<RunFacts>;
}

/**
 * What stands for the id of a deleted thread. Hashes the id's JSON text, not its UTF-8: ids that differ in a lone
 * surrogate have the same UTF-8.
 */
export function threadDigest(thread: string): string {
  return createHash("sha256").update(JSON.stringify(thread)).digest("hex");
}

/** What a deletion of its thread leaves of an effect: a given key speaks of the world outside and stays. */
export function afterDeletion(row: EffectRow): EffectRow | undefined {
  return row.ordinal === -1 ? Object.freeze({ ...row, thread: "" }) : undefined;
}

/** Roughly the characters a change takes; the same measure for what is alive and for what is in a log. */
export function weightOf(change: Change): number {
  const fields = 100;
  switch (change.kind) {
    case "checkpoint":
      return fields + change.row.thread.length + change.row.ns.length + change.row.body.length;
    case "writes":
      return fields + change.thread.length + change.ns.length + change.row.task.length + change.row.body.length;
    case "items":
      return fields + change.thread.length + change.row.list.length + change.row.body.length;
    case "blob":
      return fields + change.thread.length + change.data.length;
    case "effect":
      return fields + change.row.thread.length + change.row.ns.length + change.row.task.length + change.row.body.length;
    case "wait":
      // Twice as many fields as other rows have.
      return (
        2 * fields + change.row.thread.length + change.row.ns.length + change.row.task.length + change.row.body.length
      );
    case "decision":
      return fields + change.row.thread.length + change.row.body.length;
    case "run":
      return 2 * fields + change.row.thread.length + (change.row.key?.length ?? 0) + change.row.body.length;
    case "delete":
    case "era":
      return fields;
    default: {
      const never: never = change;
      return never;
    }
  }
}
