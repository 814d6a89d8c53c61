/**
 * What an operation may do: the decisions of every backend, so that all refuse the same things with the same words. Pure
 * functions of the operation and of what is stored; see `backend.ts` for the operations.
 */

import type { OfThread, Op, Verdict } from "./backend.ts";
import { HoldfastError } from "./errors.ts";
import { type EffectRow, type Encoded, isEnded, RUN_MOVES, type RunRow, type WaitRow, type WriteRow } from "./model.ts";

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

/** What of a stored run decides: never its body, which may be large. */
export type RunFacts = Pick<RunRow, "id" | "thread" | "key" | "createdAt" | "status" | "rev" | "epoch">;

/** What is stored that a run is judged by. Each is asked only where it decides. */
export interface RunNeighbours {
  /** The run of that id, of whatever thread. */
  byId(id: string): RunFacts | undefined;
  /** The run of that key, of whatever thread. */
  byKey(key: string): RunFacts | undefined;
  /**
   * A run of the row's thread that keeps this one from running: another one that is running, otherwise one before it, by
   * (createdAt, id), that has not ended.
   */
  ahead(row: RunRow): RunFacts | undefined;
}

/** Refuses to start a run a second time, to change one that was changed meanwhile, or to move it where it may not go. */
export function judgeRun(op: Extract<Op, { kind: "run" }>, stored: RunNeighbours): Verdict {
  const { row, expect } = op;
  const old = stored.byId(row.id);
  const refusal = expect === null ? startedTwice(row, old, stored) : changedWrongly(row, expect, old);
  if (refusal !== undefined) return refusal;
  // What is running already was let through when it began; a run that came in before it since then changes nothing.
  if (row.status !== "running" || old?.status === "running") return undefined;
  const ahead = stored.ahead(row);
  if (ahead === undefined) return undefined;
  const reason = ahead.status === "running" ? "is running" : `comes before it and has not ended (${ahead.status})`;
  return runConflict(
    `${nameOf(row)} cannot begin: run ${JSON.stringify(ahead.id)} of the thread ${reason}. Nothing of this commit is stored. ` +
      "Claim it when that one has ended.",
    { id: row.id, thread: row.thread, ahead: ahead.id, status: ahead.status },
  );
}

function startedTwice(row: RunRow, same: RunFacts | undefined, stored: RunNeighbours): Verdict {
  const other = same ?? (row.key === undefined ? undefined : stored.byKey(row.key));
  if (other === undefined) return undefined;
  const what =
    same === undefined
      ? `has the key ${JSON.stringify(row.key)} of run ${JSON.stringify(other.id)}, which was started with it`
      : "has the id of a run that is there already";
  return runConflict(
    `${nameOf(row)} ${what} and is ${other.status}. Nothing of this commit is stored. Take the stored run for this one, or ` +
      "start another one under a new id and key.",
    { id: row.id, key: row.key, stored: other.id },
  );
}

function changedWrongly(row: RunRow, expect: number, old: RunFacts | undefined): Verdict {
  const details = { id: row.id, thread: row.thread };
  if (old === undefined || old.thread !== row.thread || old.rev !== expect) {
    const found =
      old === undefined
        ? "it is gone"
        : old.thread === row.thread
          ? `it is ${old.status} (revision ${old.rev}, expected ${expect})`
          : "its id is that of a run of another thread";
    return runConflict(
      `${nameOf(row)} was changed meanwhile: ${found}. Nothing of this commit is stored. Read it again, and decide anew.`,
      { ...details, expected: expect, found: old?.rev ?? null, status: old?.status },
    );
  }
  if (!RUN_MOVES[old.status].includes(row.status)) {
    const next = isEnded(old.status) ? "nothing: it has ended" : RUN_MOVES[old.status].join(", ");
    return runConflict(
      `${nameOf(row)} is ${old.status} and cannot become ${row.status}; what may follow is ${next}. Nothing of this commit is stored.`,
      { ...details, from: old.status, to: row.status },
    );
  }
  if (old.key === row.key && old.createdAt === row.createdAt) return undefined;
  return runConflict(
    `${nameOf(row)} was started with key ${JSON.stringify(old.key)} at ${old.createdAt}; neither can be changed, and key ` +
      `${JSON.stringify(row.key)} at ${row.createdAt} was given. Nothing of this commit is stored.`,
    { ...details, key: old.key, createdAt: old.createdAt },
  );
}

const nameOf = ({ id, thread }: RunRow) => `Run ${JSON.stringify(id)} of thread ${JSON.stringify(thread)}`;

const runConflict = (message: string, details: Readonly<Record<string, unknown>>) =>
  new HoldfastError("RUN_CONFLICT", message, { details });

/** Refuses what a worker does for a run that is no longer its own; `stored` is the run of that id, of whatever thread. */
export function judgeFence(op: Extract<Op, { kind: "fence" }>, stored: RunFacts | undefined): Verdict {
  const { thread, run, epoch } = op;
  const ours = stored?.thread === thread ? stored : undefined;
  if (ours?.status === "running" && ours.epoch === epoch) return undefined;
  const found = ours === undefined ? "it is gone" : `it is ${ours.status} (epoch ${ours.epoch})`;
  return new HoldfastError(
    "RUN_LOST",
    `Run ${JSON.stringify(run)} of thread ${JSON.stringify(thread)} is not running in epoch ${epoch} any more: ${found}. Another ` +
      "worker has taken this run over, or it was handed back, cancelled or deleted; nothing of this commit is stored. Stop " +
      "working on it.",
    { details: { thread, run, epoch, found: ours?.epoch ?? null, status: ours?.status } },
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
