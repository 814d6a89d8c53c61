/** Decides about one commit: all of its changes, or the reason for none. Changes nothing itself. */

import {
  type Commit,
  type DecisionRow,
  endedWait,
  isEnded,
  judgeDecision,
  judgeEffect,
  judgeEra,
  judgeFence,
  judgeHead,
  judgeItems,
  judgeRun,
  judgeWait,
  type Op,
  planWrites,
  type RunFacts,
  type Verdict,
  type WaitRow,
  type WriteRow,
} from "holdfast";
import { compareIds } from "../ids.ts";
import { afterDeletion, type Change, threadDigest, type View } from "./change.ts";

type OpOf<K extends Op["kind"]> = Extract<Op, { kind: K }>;

export interface Judged {
  readonly verdict: Verdict;
  /** What to apply, in order; empty where the commit is refused. */
  readonly changes: readonly Change[];
}

/** Judges every operation on the state that the earlier operations of the same commit would leave. */
export function judge(view: View, commit: Commit): Judged {
  const draft = new Draft(view);
  for (const op of commit) {
    const verdict = judgeOp(draft, op);
    if (verdict !== undefined) return { verdict, changes: [] };
  }
  return { verdict: undefined, changes: draft.changes };
}

function judgeOp(draft: Draft, op: Op): Verdict {
  if (op.kind === "deleteThread") {
    const { thread } = op;
    draft.apply({ kind: "delete", thread, digest: threadDigest(thread), era: draft.era(thread) + 1 });
    return undefined;
  }
  const verdict = judgeEra(op, draft.era(op.thread));
  if (verdict !== undefined) return verdict;
  switch (op.kind) {
    case "checkpoint": {
      const { thread, ns, id, parent, source, body } = op;
      const verdict = judgeHead(op, draft.head(thread, ns));
      if (verdict !== undefined) return verdict;
      draft.apply({ kind: "checkpoint", row: Object.freeze({ thread, ns, id, parent, source, body }) });
      return undefined;
    }
    case "writes": {
      const { thread, ns } = op;
      const { row, verdict } = planWrites(op, draft.taskWrites(thread, ns, op.checkpoint, op.task));
      if (verdict !== undefined) return verdict;
      if (row !== undefined) draft.apply({ kind: "writes", thread, ns, row: Object.freeze(row) });
      return undefined;
    }
    case "items": {
      const { thread, list, start, count, body } = op;
      const verdict = judgeItems(op, draft.hasItems(thread, list, start));
      if (verdict !== undefined) return verdict;
      const base = op.base === undefined ? undefined : Object.freeze({ ...op.base });
      draft.apply({ kind: "items", thread, row: Object.freeze({ list, start, count, body }), base });
      return undefined;
    }
    case "blob": {
      const { thread, hash, data } = op;
      if (draft.hasBlob(thread, hash)) return undefined;
      // Bytes are the only mutable data of an operation: keep a copy that nobody else holds.
      draft.apply({ kind: "blob", thread, hash, data: typeof data === "string" ? data : new Uint8Array(data) });
      return undefined;
    }
    case "effect": {
      const verdict = judgeEffect(op, draft.effect(op.row.key));
      if (verdict !== undefined) return verdict;
      draft.apply({ kind: "effect", row: Object.freeze({ ...op.row }) });
      return undefined;
    }
    case "wait":
      return openOrChangeWait(draft, op);
    case "endWait": {
      const stored = draft.wait(op.id);
      const ended = stored?.thread === op.thread ? endedWait(stored) : undefined;
      if (ended !== undefined) draft.apply({ kind: "wait", row: Object.freeze(ended) });
      return undefined;
    }
    case "decision": {
      const verdict = judgeDecision(op, draft.lastDecision(op.thread)?.seq);
      if (verdict !== undefined) return verdict;
      draft.apply({ kind: "decision", row: Object.freeze({ ...op.row }) });
      return undefined;
    }
    case "run":
      return startOrChangeRun(draft, op);
    case "fence":
      return judgeFence(op, draft.run(op.run));
    default: {
      const never: never = op;
      return never;
    }
  }
}

function openOrChangeWait(draft: Draft, op: OpOf<"wait">): Verdict {
  const stored = draft.wait(op.row.id);
  const verdict = judgeWait(op, stored);
  if (verdict !== undefined) return verdict;
  if (op.expect === null && stored !== undefined) return undefined;
  draft.apply({ kind: "wait", row: Object.freeze({ ...op.row }) });
  return undefined;
}

function startOrChangeRun(draft: Draft, op: OpOf<"run">): Verdict {
  const verdict = judgeRun(op, {
    byId: (id) => draft.run(id),
    byKey: (key) => draft.runWithKey(key),
    ahead: (row) => runAhead(row, draft.unendedRuns(row.thread)),
  });
  if (verdict !== undefined) return verdict;
  draft.apply({ kind: "run", row: Object.freeze({ ...op.row }) });
  return undefined;
}

/** The one of the thread's unended runs that keeps this one from running. */
function runAhead(row: RunFacts, unended: Iterable<RunFacts>): RunFacts | undefined {
  let first: RunFacts | undefined;
  for (const other of unended) {
    if (other.id === row.id) continue;
    if (other.status === "running") return other;
    if (goesBefore(other, first ?? row)) first = other;
  }
  return first;
}

function goesBefore(a: RunFacts, b: RunFacts): boolean {
  return (a.createdAt - b.createdAt || compareIds(a.id, b.id)) < 0;
}

/** What a draft adds to one thread. Keys of several parts carry the lengths, so no character separates. */
interface ThreadDraft {
  era: number;
  /** Deleted in this draft: nothing below shows through. */
  fresh: boolean;
  heads: Map<string, string>;
  tasks: Map<string, Map<number, WriteRow>>;
  items: Set<string>;
  blobs: Set<string>;
  lastDecision: DecisionRow | undefined;
}

const taskKey = (ns: string, checkpoint: string, task: string) =>
  `${ns.length} ${checkpoint.length} ${ns}${checkpoint}${task}`;
const itemsKey = (list: string, start: number) => `${start} ${list}`;

/** Changes that are decided and not yet applied, as a view: what lies below is seen through them and not touched. */
export class Draft implements View {
  readonly changes: Change[] = [];
  readonly #below: View;
  readonly #threads = new Map<string, ThreadDraft>();
  readonly #effects = new Map<string, EffectSlot>();
  readonly #waits = new Map<string, WaitRow | undefined>();
  readonly #runs = new Map<string, RunFacts | undefined>();
  /** Ids of the runs above by key: the last one that took it. */
  readonly #runKeys = new Map<string, string>();

  constructor(below: View) {
    this.#below = below;
  }

  era(thread: string): number {
    return this.#threads.get(thread)?.era ?? this.#below.era(thread);
  }

  head(thread: string, ns: string): string | undefined {
    const draft = this.#threads.get(thread);
    return draft?.heads.get(ns) ?? (draft?.fresh ? undefined : this.#below.head(thread, ns));
  }

  taskWrites(thread: string, ns: string, checkpoint: string, task: string): readonly WriteRow[] {
    const draft = this.#threads.get(thread);
    const rows = draft?.fresh ? [] : this.#below.taskWrites(thread, ns, checkpoint, task);
    const own = draft?.tasks.get(taskKey(ns, checkpoint, task));
    return own === undefined ? rows : [...rows.filter((row) => !own.has(row.slot)), ...own.values()];
  }

  hasItems(thread: string, list: string, start: number): boolean {
    const draft = this.#threads.get(thread);
    return draft?.items.has(itemsKey(list, start)) || (!draft?.fresh && this.#below.hasItems(thread, list, start));
  }

  hasBlob(thread: string, hash: string): boolean {
    const draft = this.#threads.get(thread);
    return draft?.blobs.has(hash) || (!draft?.fresh && this.#below.hasBlob(thread, hash));
  }

  effect(key: string): EffectSlot {
    if (this.#effects.has(key)) return this.#effects.get(key);
    const row = this.#below.effect(key);
    return row !== undefined && this.#threads.get(row.thread)?.fresh ? afterDeletion(row) : row;
  }

  wait(id: string): WaitRow | undefined {
    if (this.#waits.has(id)) return this.#waits.get(id);
    const row = this.#below.wait(id);
    return row !== undefined && this.#threads.get(row.thread)?.fresh ? undefined : row;
  }

  lastDecision(thread: string): DecisionRow | undefined {
    const draft = this.#threads.get(thread);
    return draft?.lastDecision ?? (draft?.fresh ? undefined : this.#below.lastDecision(thread));
  }

  run(id: string): RunFacts | undefined {
    if (this.#runs.has(id)) return this.#runs.get(id);
    const row = this.#below.run(id);
    return row !== undefined && this.#threads.get(row.thread)?.fresh ? undefined : row;
  }

  /** The key of a run never changes: whoever has it below has it here, unless it was deleted. */
  runWithKey(key: string): RunFacts | undefined {
    const id = this.#runKeys.get(key) ?? this.#below.runWithKey(key)?.id;
    const row = id === undefined ? undefined : this.run(id);
    return row?.key === key ? row : undefined;
  }

  *unendedRuns(thread: string): Generator<RunFacts> {
    for (const row of this.#runs.values()) if (row?.thread === thread && !isEnded(row.status)) yield row;
    if (this.#threads.get(thread)?.fresh) return;
    for (const row of this.#below.unendedRuns(thread)) if (!this.#runs.has(row.id)) yield row;
  }

  apply(change: Change): void {
    this.changes.push(change);
    switch (change.kind) {
      case "checkpoint":
        this.#thread(change.row.thread).heads.set(change.row.ns, change.row.id);
        return;
      case "writes": {
        const { row } = change;
        const { tasks } = this.#thread(change.thread);
        const key = taskKey(change.ns, row.checkpoint, row.task);
        const slots = tasks.get(key);
        if (slots === undefined) tasks.set(key, new Map([[row.slot, row]]));
        else slots.set(row.slot, row);
        return;
      }
      case "items":
        this.#thread(change.thread).items.add(itemsKey(change.row.list, change.row.start));
        return;
      case "blob":
        this.#thread(change.thread).blobs.add(change.hash);
        return;
      case "effect":
        this.#effects.set(change.row.key, change.row);
        return;
      case "wait":
        this.#waits.set(change.row.id, change.row);
        return;
      case "decision":
        this.#thread(change.row.thread).lastDecision = change.row;
        return;
      case "run":
        this.#runs.set(change.row.id, change.row);
        if (change.row.key !== undefined) this.#runKeys.set(change.row.key, change.row.id);
        return;
      case "delete":
        this.#delete(change.thread, change.era);
        return;
      case "era":
        throw new TypeError("An era is recorded by deleting its thread.");
      default: {
        const never: never = change;
        return never;
      }
    }
  }

  #thread(thread: string): ThreadDraft {
    let draft = this.#threads.get(thread);
    if (draft === undefined) {
      draft = emptyThread(this.#below.era(thread), false);
      this.#threads.set(thread, draft);
    }
    return draft;
  }

  #delete(thread: string, era: number): void {
    for (const [key, row] of this.#effects) {
      if (row?.thread === thread) this.#effects.set(key, afterDeletion(row));
    }
    for (const [id, row] of this.#waits) if (row?.thread === thread) this.#waits.set(id, undefined);
    for (const [id, row] of this.#runs) if (row?.thread === thread) this.#runs.set(id, undefined);
    this.#threads.set(thread, emptyThread(era, true));
  }
}

type EffectSlot = ReturnType<View["effect"]>;

function emptyThread(era: number, fresh: boolean): ThreadDraft {
  const rows = { heads: new Map(), tasks: new Map(), items: new Set<string>(), blobs: new Set<string>() };
  return { era, fresh, ...rows, lastDecision: undefined };
}
