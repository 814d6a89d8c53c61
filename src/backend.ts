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
 * The functions below the interface decide what an operation may do, so that all backends refuse the same things with
 * the same words.
 */

import { HoldfastError } from "./errors.ts";
import type {
  CheckpointRow,
  DecisionRow,
  EffectRow,
  Encoded,
  ItemsRow,
  ListBase,
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
interface OfThread {
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

  /** Whether the owner may still be running: false only where that is provably not so. */
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

/** Refuses operations of a run or update that loaded the thread in another era. */
export function judgeEra(op: OfThread, era: number): Verdict {
  if (op.era === era) return undefined;
  return new HoldfastError(
    "THREAD_DELETED",
    `Thread ${JSON.stringify(op.thread)} was deleted while this run had it loaded; nothing of the run is stored. ` +
      "Start a new run to begin the thread anew.",
    { details: { thread: op.thread, loadedEra: op.era, era } },
  );
}

/** Refuses a checkpoint whose writer did not know the namespace's head. */
export function judgeHead(op: Extract<Op, { kind: "checkpoint" }>, head: string | undefined): Verdict {
  if (op.heads === undefined || op.heads.includes(head ?? null) || head === op.id) return undefined;
  return new HoldfastError(
    "HEAD_MOVED",
    `Another run or update has moved thread ${JSON.stringify(op.thread)} on: its head is ${head ?? "gone"}, ` +
      `but checkpoint ${op.id} continues ${op.parent ?? "a thread without checkpoints"}. Nothing of it is stored and this run ` +
      "starts no further effect. Read the thread's state and start a new run from there.",
    { details: { thread: op.thread, ns: op.ns, checkpoint: op.id, parent: op.parent, head } },
  );
}

/** Refuses to store items in a place that is taken. */
export function judgeItems(op: Extract<Op, { kind: "items" }>, taken: boolean): Verdict {
  if (!taken) return undefined;
  return new HoldfastError(
    "LIST_CONFLICT",
    `Another writer has extended list ${op.list} of thread ${JSON.stringify(op.thread)} at item ${op.start}; nothing of this commit is stored.`,
    { details: { thread: op.thread, list: op.list, start: op.start } },
  );
}

/** Refuses to change an effect that somebody else has changed. */
export function judgeEffect(op: Extract<Op, { kind: "effect" }>, stored: EffectRow | undefined): Verdict {
  if ((stored?.rev ?? null) === op.expect) return undefined;
  return new HoldfastError(
    "EFFECT_CONFLICT",
    `Effect ${op.row.name} (${op.row.key}) was changed by another process meanwhile: ` +
      `expected revision ${op.expect ?? "none"}, found ${stored?.rev ?? "none"} (${stored?.status ?? "absent"}).`,
    { details: { key: op.row.key, name: op.row.name, expected: op.expect, found: stored?.rev ?? null } },
  );
}

/** Refuses to change a wait that somebody else has changed, or to open one under the id of another thread's. */
export function judgeWait(op: Extract<Op, { kind: "wait" }>, stored: WaitRow | undefined): Verdict {
  const { row, expect } = op;
  const ours = stored?.thread === row.thread;
  if (expect === null ? ours || stored === undefined : ours && stored.rev === expect) return undefined;
  const found = stored === undefined ? "it is gone" : `it is ${stored.status} (revision ${stored.rev})`;
  return new HoldfastError(
    "WAIT_CONFLICT",
    stored !== undefined && stored.thread !== row.thread
      ? `Wait ${row.id} of thread ${JSON.stringify(row.thread)} has the id of a wait of another thread; nothing of this commit is stored.`
      : `Wait ${row.id} (${row.name}) of thread ${JSON.stringify(row.thread)} was changed meanwhile: ${found}. Nothing of this ` +
          "commit is stored. Read the thread's state and its waits, and decide anew.",
    {
      details: { id: row.id, thread: row.thread, expected: expect, found: stored?.rev ?? null, status: stored?.status },
    },
  );
}

/** The row that `endWait` leaves, or undefined where it changes nothing. */
export function endedWait(stored: WaitRow | undefined): WaitRow | undefined {
  if (stored?.status === "answered") return { ...stored, status: "consumed", holder: undefined, rev: stored.rev + 1 };
  if (stored?.status === "open") return { ...stored, status: "superseded", holder: undefined, rev: stored.rev + 1 };
  return undefined;
}

/** Refuses a decision that does not follow the thread's last one. */
export function judgeDecision(op: Extract<Op, { kind: "decision" }>, last: number | undefined): Verdict {
  if (op.row.seq === (last ?? 0) + 1) return undefined;
  return new HoldfastError(
    "DECISION_CONFLICT",
    `Decision ${op.row.seq} of thread ${JSON.stringify(op.thread)} does not follow the last one, ${last ?? "none"}: another ` +
      "decision was recorded meanwhile. Nothing of this commit is stored; decide again.",
    { details: { thread: op.thread, seq: op.row.seq, last: last ?? null } },
  );
}

type Entry = readonly [idx: number, channel: string, value: unknown];

/** Bodies of write rows are `<codec> [[idx,channel,value],…]`: JSON after the first space. */
export function entriesOf(body: Encoded): Entry[] {
  return JSON.parse(body.slice(body.indexOf(" ") + 1)) as Entry[];
}

/**
 * Decides what a `writes` operation stores, given the rows of the same task on the same checkpoint: the row to store
 * (replacing the one in its slot), or nothing, or a refusal.
 *
 * A special write (slot < 0) replaces. Any other call is first-writer-wins by index: what is there stays. Where
 * another run left a *different* value under an index and the task did not fail, the later run is refused: ignoring
 * it would store a checkpoint beside writes that it was not built from.
 */
export function planWrites(
  op: Extract<Op, { kind: "writes" }>,
  stored: readonly WriteRow[],
): { readonly row: WriteRow | undefined; readonly verdict: Verdict } {
  const row = (slot: number, body: Encoded): WriteRow => ({
    checkpoint: op.checkpoint,
    task: op.task,
    path: op.path,
    slot,
    run: op.run,
    body,
  });
  if (op.slot !== undefined) return { row: row(op.slot, op.body), verdict: undefined };
  if (stored.length === 0) return { row: row(0, op.body), verdict: undefined };

  const taken = new Map<number, { value: string; run: string | undefined }>();
  let failed = false;
  let slot = 0;
  for (const old of stored) {
    if (old.slot >= 0) slot = Math.max(slot, old.slot + 1);
    for (const [idx, channel, value] of entriesOf(old.body)) {
      if (channel === "__error__") failed = true;
      if (!taken.has(idx)) taken.set(idx, { value: JSON.stringify([channel, value]), run: old.run });
    }
  }
  const fresh: Entry[] = [];
  for (const entry of entriesOf(op.body)) {
    const [idx, channel, value] = entry;
    const old = taken.get(idx);
    if (old === undefined) {
      fresh.push(entry);
    } else if (
      idx >= 0 &&
      !failed &&
      op.run !== undefined &&
      old.run !== op.run &&
      old.value !== JSON.stringify([channel, value])
    ) {
      return {
        row: undefined,
        verdict: new HoldfastError(
          "WRITE_CONFLICT",
          `Another run has already stored a different result of task ${op.task} on checkpoint ${op.checkpoint} of thread ` +
            `${JSON.stringify(op.thread)} (channel ${JSON.stringify(channel)}). This run is refused; nothing of this result is stored. ` +
            "Start a new run: it goes on from the stored result.",
          { details: { thread: op.thread, ns: op.ns, checkpoint: op.checkpoint, task: op.task, channel } },
        ),
      };
    }
  }
  if (fresh.length === 0) return { row: undefined, verdict: undefined };
  const codec = op.body.slice(0, op.body.indexOf(" ") + 1);
  return { row: row(slot, codec + JSON.stringify(fresh)), verdict: undefined };
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
