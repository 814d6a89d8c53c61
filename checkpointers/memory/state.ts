/**
 * All rows of a backend in memory: the whole of the memory backend, and what the JSONL backend rebuilds from its log.
 *
 * Rows are frozen and strings are immutable, so readers share them; bytes are copied on the way out. Nothing here
 * waits: what one call reads or changes is one state.
 */

import type {
  CheckpointQuery,
  CheckpointRow,
  DecisionRow,
  DueRunsQuery,
  EffectQuery,
  EffectRow,
  ItemsRow,
  ListBase,
  Loaded,
  RunQuery,
  RunRow,
  StoredCheckpoint,
  WaitQuery,
  WaitRow,
  WriteRow,
} from "holdfast";
import { afterDeletion, type Change, threadDigest, type View, weightOf } from "./change.ts";
import { compareIds } from "../ids.ts";
import { RunTable } from "./runs.ts";
import { WaitTable } from "./waits.ts";

interface Namespace {
  head: string | undefined;
  readonly checkpoints: Map<string, CheckpointRow>;
  /** By checkpoint, task and slot. A checkpoint's writes may be there before it. */
  readonly writes: Map<string, Map<string, Map<number, WriteRow>>>;
}

interface List {
  readonly base: ListBase | undefined;
  readonly rows: Map<number, ItemsRow>;
}

/** Exists while it has rows. */
interface Thread {
  readonly era: number;
  readonly namespaces: Map<string, Namespace>;
  readonly lists: Map<string, List>;
  readonly blobs: Map<string, string | Uint8Array>;
  readonly decisions: DecisionRow[];
}

const NONE: ReadonlyMap<never, never> = new Map<never, never>();

export class MemoryState implements View {
  /** Who has this state open. */
  readonly owners = new Set<string>();
  /** Who is told of commits, see `Backend.watch`. */
  readonly wakes = new Set<() => void>();
  readonly #threads = new Map<string, Thread>();
  readonly #effects = new Map<string, EffectRow>();
  readonly #effectsOf = new Map<string, Set<string>>();
  readonly #waits = new WaitTable();
  readonly #runs = new RunTable();
  /** Next era by digest of a deleted thread's id. */
  readonly #eras = new Map<string, number>();
  #weight = 0;

  /** What all rows weigh, see {@link weightOf}. */
  get weight(): number {
    return this.#weight;
  }

  era(thread: string): number {
    const known = this.#threads.get(thread);
    if (known !== undefined) return known.era;
    return this.#eras.size === 0 ? 0 : (this.#eras.get(threadDigest(thread)) ?? 0);
  }

  head(thread: string, ns: string): string | undefined {
    return this.#namespace(thread, ns)?.head;
  }

  taskWrites(thread: string, ns: string, checkpoint: string, task: string): readonly WriteRow[] {
    return [...(this.#namespace(thread, ns)?.writes.get(checkpoint)?.get(task) ?? NONE).values()];
  }

  hasItems(thread: string, list: string, start: number): boolean {
    return this.#threads.get(thread)?.lists.get(list)?.rows.has(start) ?? false;
  }

  hasBlob(thread: string, hash: string): boolean {
    return this.#threads.get(thread)?.blobs.has(hash) ?? false;
  }

  effect(key: string): EffectRow | undefined {
    return this.#effects.get(key);
  }

  wait(id: string): WaitRow | undefined {
    return this.#waits.get(id);
  }

  lastDecision(thread: string): DecisionRow | undefined {
    return this.#threads.get(thread)?.decisions.at(-1);
  }

  decision(thread: string, seq: number): DecisionRow | undefined {
    // The chain has no gap.
    return this.#threads.get(thread)?.decisions[seq - 1];
  }

  run(id: string): RunRow | undefined {
    return this.#runs.get(id);
  }

  runWithKey(key: string): RunRow | undefined {
    return this.#runs.withKey(key);
  }

  unendedRuns(thread: string): Iterable<RunRow> {
    return this.#runs.unended(thread);
  }

  load(thread: string, ns: string, id: string | undefined): Loaded {
    const head = this.head(thread, ns);
    const wanted = id ?? head;
    const checkpoint = wanted === undefined ? undefined : this.#namespace(thread, ns)?.checkpoints.get(wanted);
    const writes = checkpoint === undefined ? [] : this.#writes(thread, ns, checkpoint.id);
    const waits = ns === "" ? this.#waits.active(thread) : [];
    return { era: this.era(thread), head, checkpoint, writes, waits };
  }

  *checkpoints(query: CheckpointQuery): Generator<StoredCheckpoint> {
    let left = query.limit ?? Number.POSITIVE_INFINITY;
    if (left <= 0) return;
    for (const row of this.#matching(query)) {
      yield { ...row, writes: this.#writes(row.thread, row.ns, row.id) };
      left -= 1;
      if (left <= 0) return;
    }
  }

  ancestors(thread: string, ns: string, id: string): StoredCheckpoint[] {
    const found: StoredCheckpoint[] = [];
    const seen = new Set<string>();
    const checkpoints = this.#namespace(thread, ns)?.checkpoints;
    for (let next: string | undefined = id; next !== undefined && !seen.has(next); ) {
      seen.add(next);
      const row: CheckpointRow | undefined = checkpoints?.get(next);
      if (row !== undefined) found.push({ ...row, writes: this.#writes(thread, ns, row.id) });
      next = row?.parent;
    }
    return found;
  }

  /** Rows are whole: the last one before a base's end, or before `length`, may hold more items than are asked for. */
  items(thread: string, list: string, length: number): { rows: ItemsRow[]; extended: boolean } {
    const lists = this.#threads.get(thread)?.lists;
    const asked = lists?.get(list);
    const segments: ItemsRow[][] = [];
    let end = length;
    for (let at: List | undefined = asked; at !== undefined && end > 0; ) {
      const limit = end;
      const rows = [...at.rows.values()].filter((row) => row.start < limit);
      segments.push(rows.sort((a, b) => a.start - b.start));
      if (at.base === undefined) break;
      end = Math.min(end, at.base.length);
      at = lists?.get(at.base.list);
    }
    const goesOn = [...(asked?.rows.values() ?? [])].some((row) => row.start + row.count > length);
    return { rows: segments.reverse().flat(), extended: goesOn || (asked?.base?.length ?? 0) > length };
  }

  blobs(thread: string, hashes: readonly string[]): Map<string, string | Uint8Array> {
    const found = new Map<string, string | Uint8Array>();
    for (const hash of hashes) {
      const data = this.#threads.get(thread)?.blobs.get(hash);
      if (data !== undefined) found.set(hash, typeof data === "string" ? data : new Uint8Array(data));
    }
    return found;
  }

  effects(query: EffectQuery): EffectRow[] {
    if ("key" in query) {
      const row = this.#effects.get(query.key);
      return row === undefined ? [] : [row];
    }
    const rows: EffectRow[] = [];
    for (const key of this.#effectsOf.get(query.thread) ?? []) {
      const row = this.#effects.get(key);
      if (row === undefined) continue;
      if (
        "name" in query ? row.name === query.name && row.digest === query.digest : row.task === (query.task ?? row.task)
      )
        rows.push(row);
    }
    return rows;
  }

  waits(query: WaitQuery): WaitRow[] {
    return this.#waits.query(query);
  }

  runs(query: RunQuery): RunRow[] {
    return this.#runs.query(query);
  }

  dueRuns(query: DueRunsQuery): RunRow[] {
    return this.#runs.due(query);
  }

  nextDue(graphs: readonly string[] | undefined): number | undefined {
    return this.#runs.nextDue(graphs);
  }

  *decisions(thread: string | undefined): Generator<DecisionRow> {
    const threads = thread === undefined ? [...this.#threads.keys()].sort(compareIds) : [thread];
    for (const id of threads) yield* [...(this.#threads.get(id)?.decisions ?? [])];
  }

  apply(change: Change): void {
    switch (change.kind) {
      case "checkpoint": {
        const { row } = change;
        const namespace = this.#openNamespace(row.thread, row.ns);
        const old = namespace.checkpoints.get(row.id);
        namespace.checkpoints.set(row.id, row);
        namespace.head = row.id;
        this.#weigh(change, old && { kind: "checkpoint", row: old });
        return;
      }
      case "writes": {
        const { thread, ns, row } = change;
        const tasks = entry(this.#openNamespace(thread, ns).writes, row.checkpoint, () => new Map());
        const slots: Map<number, WriteRow> = entry(tasks, row.task, () => new Map());
        const old = slots.get(row.slot);
        slots.set(row.slot, row);
        this.#weigh(change, old && { kind: "writes", thread, ns, row: old });
        return;
      }
      case "items": {
        const { row, base } = change;
        const list: List = entry(this.#openThread(change.thread).lists, row.list, () => ({ base, rows: new Map() }));
        list.rows.set(row.start, row);
        this.#weigh(change);
        return;
      }
      case "blob":
        this.#openThread(change.thread).blobs.set(change.hash, change.data);
        this.#weigh(change);
        return;
      case "effect":
        this.#setEffect(change.row.key, change.row);
        return;
      case "wait": {
        const old = this.#waits.set(change.row);
        this.#weigh(change, old && { kind: "wait", row: old });
        return;
      }
      case "decision":
        this.#openThread(change.row.thread).decisions.push(change.row);
        this.#weigh(change);
        return;
      case "run": {
        const old = this.#runs.set(change.row);
        this.#weigh(change, old && { kind: "run", row: old });
        return;
      }
      case "delete":
        this.#delete(change.thread);
        this.apply({ kind: "era", digest: change.digest, era: change.era });
        return;
      case "era":
        this.#weigh(change, this.#eras.has(change.digest) ? change : undefined);
        this.#eras.set(change.digest, change.era);
        return;
      default: {
        const never: never = change;
        return never;
      }
    }
  }

  /** Changes that make an empty state equal to this one. Do not change the state while iterating. */
  *changes(): Generator<Change> {
    for (const [digest, era] of this.#eras) yield { kind: "era", digest, era };
    for (const [id, thread] of this.#threads) yield* changesOf(id, thread);
    for (const row of this.#effects.values()) yield { kind: "effect", row };
    for (const row of this.#waits.values()) yield { kind: "wait", row };
    for (const row of this.#runs.values()) yield { kind: "run", row };
  }

  #namespace(thread: string, ns: string): Namespace | undefined {
    return this.#threads.get(thread)?.namespaces.get(ns);
  }

  #openThread(id: string): Thread {
    return entry(this.#threads, id, () => ({
      era: this.era(id),
      namespaces: new Map(),
      lists: new Map(),
      blobs: new Map(),
      decisions: [],
    }));
  }

  #openNamespace(thread: string, ns: string): Namespace {
    const empty = () => ({ head: undefined, checkpoints: new Map(), writes: new Map() });
    return entry(this.#openThread(thread).namespaces, ns, empty);
  }

  #writes(thread: string, ns: string, checkpoint: string): WriteRow[] {
    const tasks = this.#namespace(thread, ns)?.writes.get(checkpoint);
    return [...(tasks?.values() ?? [])].flatMap((slots) => [...slots.values()]);
  }

  #matching(query: CheckpointQuery): CheckpointRow[] {
    const rows: CheckpointRow[] = [];
    for (const thread of select(this.#threads, query.thread)) {
      for (const namespace of select(thread.namespaces, query.ns)) {
        for (const row of select(namespace.checkpoints, query.id)) {
          if (query.before === undefined || compareIds(row.id, query.before) < 0) rows.push(row);
        }
      }
    }
    return rows.sort((a, b) => compareIds(b.id, a.id));
  }

  #setEffect(key: string, row: EffectRow | undefined): void {
    const old = this.#effects.get(key);
    if (old !== undefined && old.thread !== row?.thread) {
      const keys = this.#effectsOf.get(old.thread);
      keys?.delete(key);
      if (keys?.size === 0) this.#effectsOf.delete(old.thread);
    }
    if (row === undefined) this.#effects.delete(key);
    else {
      this.#effects.set(key, row);
      entry(this.#effectsOf, row.thread, () => new Set()).add(key);
    }
    this.#weigh(row && { kind: "effect", row }, old && { kind: "effect", row: old });
  }

  #delete(id: string): void {
    const thread = this.#threads.get(id);
    if (thread !== undefined) for (const change of changesOf(id, thread)) this.#weigh(undefined, change);
    this.#threads.delete(id);
    for (const row of this.#waits.deleteThread(id)) this.#weigh(undefined, { kind: "wait", row });
    for (const row of this.#runs.deleteThread(id)) this.#weigh(undefined, { kind: "run", row });
    for (const key of [...(this.#effectsOf.get(id) ?? [])]) {
      const row = this.#effects.get(key);
      if (row !== undefined) this.#setEffect(key, afterDeletion(row));
    }
  }

  #weigh(added: Change | undefined, removed?: Change | undefined): void {
    if (added !== undefined) this.#weight += weightOf(added);
    if (removed !== undefined) this.#weight -= weightOf(removed);
  }
}

/** The rows of one thread. A namespace's head comes last among its checkpoints: storing it makes it the head. */
function* changesOf(id: string, thread: Thread): Generator<Change> {
  for (const [hash, data] of thread.blobs) yield { kind: "blob", thread: id, hash, data };
  for (const list of thread.lists.values()) {
    for (const row of list.rows.values()) yield { kind: "items", thread: id, row, base: list.base };
  }
  for (const [ns, namespace] of thread.namespaces) {
    for (const tasks of namespace.writes.values()) {
      for (const slots of tasks.values()) {
        for (const row of slots.values()) yield { kind: "writes", thread: id, ns, row };
      }
    }
    for (const row of namespace.checkpoints.values()) {
      if (row.id !== namespace.head) yield { kind: "checkpoint", row };
    }
    const head = namespace.head === undefined ? undefined : namespace.checkpoints.get(namespace.head);
    if (head !== undefined) yield { kind: "checkpoint", row: head };
  }
  for (const row of thread.decisions) yield { kind: "decision", row };
}

function entry<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}

/** One value of a map, or all of them where no key is asked for. */
function select<V>(map: ReadonlyMap<string, V>, key: string | undefined): Iterable<V> {
  if (key === undefined) return map.values();
  const value = map.get(key);
  return value === undefined ? [] : [value];
}
