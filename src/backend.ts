/**
 * The contract of a backend: where rows are kept.
 *
 * A backend knows nothing of LangGraph and of what an encoded value holds. It has no logging, no metrics and no
 * retries of its own; the commit queue around it has them once for all.
 *
 * Consistency promised by every backend:
 * - B1 A commit is all or nothing: after a crash at any instruction either all of its operations are there or none. Its
 *   operations are judged in order, each on the state that the earlier ones leave; one refused refuses the commit.
 * - B2 Commits are strictly serialisable per thread: the preconditions of a commit are judged on the state that all
 *   earlier accepted commits left, also those of other processes, and nothing comes between judging and applying.
 * - B3 The commits of one group are applied in order, each with its own verdict: a refused commit leaves nothing and
 *   hinders none of the others. When `commit` resolves, every accepted commit survives what `durability` says. When it
 *   rejects, none of the group is acknowledged and, the answer being lost, any prefix of it may have happened.
 * - B4 A read sees every commit that was acknowledged before it was called, by any process. `load` and `ancestors` see
 *   one state, never half of a commit.
 * - B5 Ids are data: no character of an id is a pattern or a separator.
 *
 * The functions of `judges.ts` decide what an operation may do, so that all backends refuse the same things with the same
 * words.
 */

import { HoldfastError } from "./errors.ts";
import type {
  CheckpointRow,
  DecisionRow,
  EffectRow,
  ItemsRow,
  ListBase,
  RunRow,
  RunStatus,
  WaitKind,
  WaitRow,
  WaitStatus,
  WriteRow,
} from "./model.ts";

/** What survives once `commit` has resolved: loss of power, death of the process, or neither. */
export type BackendDurability = "fsync" | "os" | "none";

export interface Capabilities {
  /** Whether several processes may have it open at once. */
  readonly processes: "one" | "many";
  readonly durability: BackendDurability;
  /**
   * The store is meant to end with its process, so nobody can come back to it and run an effect again that it has
   * forgotten: effects run on it though its durability is "none". For tests.
   */
  readonly ephemeral?: true;
  /** Whether {@link Backend.transaction} is there. */
  readonly transactions: boolean;
}

/** A thread's era as the writer knows it: refused when the thread was deleted since (or exists in a later era). */
export interface OfThread {
  readonly thread: string;
  readonly era: number;
}

export type Op =
  /**
   * Stores a checkpoint and makes it the head of its namespace. The same id again replaces the row (exit durability
   * does that). With `heads`, refused unless the namespace's head is one of them (`null` = there is none) or is the
   * checkpoint itself.
   */
  | (OfThread &
      Omit<CheckpointRow, "thread"> & {
        readonly kind: "checkpoint";
        readonly heads: readonly (string | null)[] | undefined;
      })
  /** Stores writes as {@link planWrites} decides. `slot` < 0 replaces that special write; undefined is a regular call. */
  | (OfThread &
      Omit<WriteRow, "slot"> & { readonly kind: "writes"; readonly ns: string; readonly slot: number | undefined })
  /** Appends to a list; `base` stands in the first one of a list that continues another. Refused if (list, start) exists. */
  | (OfThread & ItemsRow & { readonly kind: "items"; readonly base: ListBase | undefined })
  /** A large string or byte array, stored once per thread and hash; there already → nothing to do. */
  | (OfThread & { readonly kind: "blob"; readonly hash: string; readonly data: string | Uint8Array })
  /** Stores an effect. Refused unless its stored revision is `expect` (`null` = it must not exist). */
  | (OfThread & { readonly kind: "effect"; readonly row: EffectRow; readonly expect: number | null })
  /**
   * With `expect: null`, opens a wait: stored unless its id is there already (then nothing happens; refused where that
   * is another thread's). With a number, replaces the thread's row whose revision that is.
   */
  | (OfThread & { readonly kind: "wait"; readonly row: WaitRow; readonly expect: number | null })
  /**
   * The task has gone on: an answered wait becomes consumed, an open one superseded, any other stays as it is. Its
   * revision grows by one with the change. Another thread's wait is none. Never refused.
   */
  | (OfThread & { readonly kind: "endWait"; readonly id: string })
  /** Appends to the thread's chain of decisions. Refused unless `row.seq` follows the last one. */
  | (OfThread & { readonly kind: "decision"; readonly row: DecisionRow })
  /**
   * With `expect: null`, starts a run: refused where its id or its key is that of a stored one, of whatever thread. With a
   * number, replaces the thread's run whose revision that is, if `RUN_MOVES` allows the move; key and createdAt stay. One
   * that becomes running is refused while another run of the thread is running, or one before it, by (createdAt, id), has
   * not ended. Refused with RUN_CONFLICT.
   */
  | (OfThread & { readonly kind: "run"; readonly row: RunRow; readonly expect: number | null })
  /** Stores nothing. Refused with RUN_LOST unless the thread's run of that id is running in exactly that epoch. */
  | (OfThread & { readonly kind: "fence"; readonly run: string; readonly epoch: number })
  /**
   * Removes every row of the thread except effects with a given key, whose `thread` becomes "". What remains is
   * a tombstone that holds a digest of the thread id and the next era, never the id.
   */
  | { readonly kind: "deleteThread"; readonly thread: string };

/** Operations that are true together or not at all. */
export type Commit = readonly Op[];

/** `undefined` = accepted; otherwise why the commit was refused. */
export type Verdict = HoldfastError | undefined;

/** What a run needs of one namespace, read at one moment. */
export interface Loaded {
  /** Deletions of this thread id so far, see {@link ThreadRow}. */
  readonly era: number;
  /** Head of the namespace; undefined where it has no checkpoint. */
  readonly head: string | undefined;
  /** The checkpoint asked for, or the head. */
  readonly checkpoint: CheckpointRow | undefined;
  /** Its writes, in no particular order. */
  readonly writes: readonly WriteRow[];
  /** Of a load of the root namespace: the thread's waits that are open or answered, in no particular order. */
  readonly waits: readonly WaitRow[];
}

export interface CheckpointQuery {
  readonly thread?: string | undefined;
  readonly ns?: string | undefined;
  readonly id?: string | undefined;
  /** Only ids that sort before this one (LangGraph's `before`). */
  readonly before?: string | undefined;
  /** At most so many; default all. Rows are fetched as they are consumed. */
  readonly limit?: number | undefined;
}

export type StoredCheckpoint = CheckpointRow & { readonly writes: readonly WriteRow[] };

/** Every field given must match. */
export type EffectQuery =
  | { readonly key: string }
  | { readonly thread: string; readonly task?: string }
  | { readonly thread: string; readonly name: string; readonly digest: string };

/** Every field given must match. The order is (openedAt, id), ids by code points. */
export interface WaitQuery {
  readonly id?: string | undefined;
  readonly thread?: string | undefined;
  readonly task?: string | undefined;
  /** Any of these; default all. */
  readonly status?: readonly WaitStatus[] | undefined;
  /** Any of these; default all. */
  readonly kind?: readonly WaitKind[] | undefined;
  readonly name?: string | undefined;
  readonly graph?: string | undefined;
  readonly assignee?: string | undefined;
  readonly owner?: string | undefined;
  /** Only waits with `due` at or before this moment. */
  readonly dueBy?: number | undefined;
  /** Only waits that come after this place in the order: where a page continues. */
  readonly after?: { readonly openedAt: number; readonly id: string } | undefined;
  /** At most so many; default all. */
  readonly limit?: number | undefined;
}

/** Every field given must match. The order is (createdAt, id), ids by code points. */
export interface RunQuery {
  readonly id?: string | undefined;
  readonly key?: string | undefined;
  readonly thread?: string | undefined;
  /** Any of these; default all. */
  readonly status?: readonly RunStatus[] | undefined;
  readonly graph?: string | undefined;
  readonly owner?: string | undefined;
  readonly worker?: string | undefined;
  /** Only runs that come after this place in the order: where a page continues. */
  readonly after?: { readonly createdAt: number; readonly id: string } | undefined;
  /** At most so many; default all. */
  readonly limit?: number | undefined;
}

export interface DueRunsQuery {
  /** Only runs with `due` at or before this moment. */
  readonly dueBy: number;
  /** Any of these; default all. */
  readonly graphs?: readonly string[] | undefined;
  /** At most so many. */
  readonly limit: number;
}

/** What the body of a transaction has decided to store, and its value. */
export interface TransactionAnswer<T> {
  readonly ops: Commit;
  readonly value: T;
}

export interface Backend {
  /** For messages, for example `sqlite:holdfast.db`. */
  readonly name: string;
  readonly capabilities: Capabilities;
  /**
   * Who has this backend open: a random id, bound to a lock that the operating system releases when the process dies
   * (backends of one process: to this object until it is closed).
   */
  readonly owner: string;

  /**
   * Applies a group of commits, see B1–B3. One verdict per commit, in order. Rejects when the storage fails.
   * A backend that is done when it returns may answer without a promise: promises are the larger part of a commit's CPU.
   */
  commit(group: readonly Commit[]): Promise<readonly Verdict[]> | readonly Verdict[];

  /** The checkpoint `id` of a namespace, or its head. */
  load(thread: string, ns: string, id: string | undefined): Promise<Loaded>;
  /** Checkpoints by descending id (code points), each with its writes; streams. */
  checkpoints(query: CheckpointQuery): AsyncIterable<StoredCheckpoint>;
  /** The checkpoint and its ancestors, newest first, each with its writes; streams. */
  ancestors(thread: string, ns: string, id: string): AsyncIterable<StoredCheckpoint>;
  /** The first `length` items of a list, its bases included, in order; and whether the list goes on after them. */
  items(
    thread: string,
    list: string,
    length: number,
  ): Promise<{ readonly rows: readonly ItemsRow[]; readonly extended: boolean }>;
  blobs(thread: string, hashes: readonly string[]): Promise<ReadonlyMap<string, string | Uint8Array>>;
  /** In no particular order. */
  effects(query: EffectQuery): Promise<readonly EffectRow[]>;

  /** Reads no more rows than `limit` asks for where thread, or status alone, is given: also in a store with many more. */
  waits(query: WaitQuery): Promise<readonly WaitRow[]>;
  /** A thread's chain of decisions, or those of all threads, by (thread, seq); streams. */
  decisions(query: { readonly thread?: string | undefined }): AsyncIterable<DecisionRow>;
  /** The link `seq` of a thread's chain, or (undefined) the newest. */
  decision(thread: string, seq: number | undefined): Promise<DecisionRow | undefined>;

  /** Reads no more rows than `limit` asks for where thread, or status alone, is given: also in a store with many more. */
  runs(query: RunQuery): Promise<readonly RunRow[]>;
  /**
   * The runs that are due and would be accepted as running: queued or retrying, first by (createdAt, id) among those of their
   * thread that have not ended, and of a thread of which no run is running. The order is (priority descending, due, id), ids
   * by code points. Runs that wait, have ended or are due later cost nothing, however many they are.
   */
  dueRuns(query: DueRunsQuery): Promise<readonly RunRow[]>;
  /** The earliest `due` of queued and retrying runs, whether they are first in their thread or not. */
  nextDue(query: { readonly graphs?: readonly string[] | undefined }): Promise<number | undefined>;
  /** The backend's clock, in milliseconds since 1970: that of the database where there is one. Only for `due` and createdAt. */
  now(): Promise<number> | number;

  /**
   * Calls `wake` soon after a commit of any process that answered a wait, or left a run that is due. May call too often, and
   * may miss one: whoever listens looks by itself as well. Absent where nobody tells.
   */
  watch?(wake: () => void): Promise<{ close(): Promise<void> }>;

  /**
   * From now on, until it is stopped or the backend is closed, this owner gives signs of life from a thread of its own: it counts
   * as alive while its event loop is busy, and no longer once it has been stopped for the length of its lease. Called by who
   * executes runs. Absent where nobody shares the store, or the backend gives them by itself.
   */
  heartbeat?(): Promise<{ stop(): Promise<void> }>;
  /** Whether the owner may still be running: false only where that is provably not so, or where its lease has ended. */
  ownerAlive(owner: string): Promise<boolean>;

  /**
   * Runs `body` inside one database transaction and commits its operations with it; when it throws, everything is rolled
   * back and the error is rethrown. A database in this process refuses a body that answers with a promise. Absent where
   * `capabilities.transactions` is false.
   */
  transaction?<T>(body: (tx: unknown) => TransactionAnswer<T> | Promise<TransactionAnswer<T>>): Promise<T>;

  /** Releases files and the owner's lock. Idempotent. Every later call fails with CLOSED. */
  close(): Promise<void>;
}

/** How often a thread id has been deleted before, as it is now. */
export async function eraOf(backend: Backend, thread: string): Promise<number> {
  return (await backend.load(thread, "", undefined)).era;
}

/** What a list answers whose thread was deleted while it was read. */
export function deletedWhileRead(thread: string): HoldfastError {
  return new HoldfastError(
    "THREAD_DELETED",
    `Thread ${JSON.stringify(thread)} was deleted while its history was read.`,
    { details: { thread } },
  );
}

/** What a closed backend answers. */
export function closedError(name: string): HoldfastError {
  return new HoldfastError("CLOSED", `The checkpointer ${name} is closed. Open it again before using it.`, {
    details: { name },
  });
}
