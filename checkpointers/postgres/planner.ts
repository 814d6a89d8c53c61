/**
 * Puts together what `holdfast_commit_1` is given. Ids are packed, bodies and blobs stand beside the plan and are named by
 * their place, from 1. Empty parts are left out.
 */

import type { EffectRow, Op, RunRow, WaitRow } from "holdfast";
import { threadDigest } from "../memory/change.ts";
import { runFields, statusesBefore } from "./run-columns.ts";
import { packId, packText } from "./text.ts";
import { waitFields } from "./wait-columns.ts";

type Cell = string | number | null | readonly (string | null)[];
type Row = readonly Cell[];

type Part =
  | "threads"
  | "namespaces"
  | "checkpoints"
  | "writes"
  | "lists"
  | "items"
  | "blobs"
  | "effects"
  | "waits"
  | "ends"
  | "decisions"
  | "runs"
  | "fences";

export interface Plan {
  readonly parts: Partial<Record<Part, readonly Row[]>>;
  readonly texts: readonly string[];
  readonly bytes: readonly Uint8Array[];
}

/** Thrown by the planner for what only a look at the rows can decide. */
export const UNPLANNABLE = Symbol("unplannable");

/** Expected revisions in the function's words: none, or any. */
export const NONE = -1;
export const ANY = null;
/** Postgres' `integer`. */
const INTEGER_MAX = 2 ** 31 - 1;

type OpOf<K extends Op["kind"]> = Extract<Op, { kind: K }>;

interface NamespaceDraft {
  readonly at: number;
  readonly thread: number;
  readonly ns: string;
  head: string | null;
  /** What the head may be before the group; null = anything. */
  heads: readonly (string | null)[] | null;
}

export class Planner {
  readonly #threads = new Map<string, { readonly at: number; readonly era: number }>();
  readonly #namespaces = new Map<string, NamespaceDraft>();
  readonly #checkpoints = new Map<string, Row>();
  readonly #writes = new Map<string, Row>();
  /** Tasks with a special write in this group, and those where it does not stand under its own index. */
  readonly #special = new Set<string>();
  readonly #odd = new Set<string>();
  readonly #lists: Row[] = [];
  readonly #items = new Map<string, Row>();
  readonly #blobs = new Map<string, Row>();
  readonly #effects = new Map<string, Row>();
  readonly #waits = new Map<string, Row>();
  readonly #ends = new Map<string, Row>();
  readonly #decisions: Row[] = [];
  readonly #lastDecision = new Map<number, number>();
  readonly #runs: Row[] = [];
  readonly #runIds = new Set<string>();
  readonly #fences = new Map<string, Row>();
  readonly #texts: string[] = [];
  readonly #bytes: Uint8Array[] = [];

  plan(): Plan {
    const parts: Partial<Record<Part, readonly Row[]>> = {
      threads: [...this.#threads].map(([id, { era }]) => [packId(id), era, threadDigest(id)]),
    };
    const add = (name: Part, rows: readonly Row[]) => {
      if (rows.length > 0) parts[name] = rows;
    };
    add(
      "namespaces",
      [...this.#namespaces.values()].map(({ thread, ns, head, heads }) => [thread, packId(ns), head, heads]),
    );
    add("checkpoints", [...this.#checkpoints.values()]);
    add("writes", [...this.#writes.values()]);
    add("lists", this.#lists);
    add("items", [...this.#items.values()]);
    add("blobs", [...this.#blobs.values()]);
    add("effects", [...this.#effects.values()]);
    add("waits", [...this.#waits.values()]);
    add("ends", [...this.#ends.values()]);
    add("decisions", this.#decisions);
    add("runs", this.#runs);
    add("fences", [...this.#fences.values()]);
    return { parts, texts: this.#texts, bytes: this.#bytes };
  }

  /** Places are those of Postgres' arrays: from 1. */
  thread(id: string, era: number): number {
    const known = this.#threads.get(id);
    if (known === undefined) {
      const at = this.#threads.size + 1;
      this.#threads.set(id, { at, era });
      return at;
    }
    if (known.era !== era) throw UNPLANNABLE;
    return known.at;
  }

  #namespace(thread: number, ns: string): NamespaceDraft {
    const key = keyOf(thread, ns);
    let found = this.#namespaces.get(key);
    if (found === undefined) {
      found = { at: this.#namespaces.size + 1, thread, ns, head: null, heads: null };
      this.#namespaces.set(key, found);
    }
    return found;
  }

  checkpoint(
    thread: number,
    row: {
      readonly ns: string;
      readonly id: string;
      readonly parent: string | undefined;
      readonly source: string;
      readonly body: string;
    },
    heads: readonly (string | null)[] | undefined,
  ): void {
    const namespace = this.#namespace(thread, row.ns);
    const id = packId(row.id);
    if (heads !== undefined) {
      // Of several checkpoints of the group the first meets what is stored, and each later one the one before it.
      const accepted = [...heads.map((head) => (head === null ? null : packId(head))), id];
      if (namespace.head === null) namespace.heads = accepted;
      else if (!accepted.includes(namespace.head)) throw UNPLANNABLE;
    }
    namespace.head = id;
    const parent = row.parent === undefined ? null : packId(row.parent);
    this.#checkpoints.set(keyOf(namespace.at, id), [
      namespace.at,
      id,
      parent,
      packId(row.source),
      this.#text(row.body),
    ]);
  }

  /** A task's regular call; a second one of the same group, or one after a special write, needs a look at the first. */
  newWrites(thread: number, op: OpOf<"writes">): void {
    const row = { ...op, slot: 0 };
    const task = this.#writesKey(thread, op.ns, row);
    if (this.#writes.has(task) || this.#odd.has(task)) throw UNPLANNABLE;
    if (this.#special.has(task) && op.body.includes("[-")) throw UNPLANNABLE;
    this.writes(thread, op.ns, row, 1);
  }

  specialWrite(thread: number, ns: string, row: Parameters<Planner["writes"]>[2]): void {
    const task = this.#writesKey(thread, ns, { ...row, slot: 0 });
    this.#special.add(task);
    // Not under its own index.
    if (!row.body.startsWith(`[[${row.slot},`, row.body.indexOf(" ") + 1)) this.#odd.add(task);
    this.writes(thread, ns, row);
  }

  writes(
    thread: number,
    ns: string,
    row: {
      readonly checkpoint: string;
      readonly task: string;
      readonly slot: number;
      readonly path: string;
      readonly run: string | undefined;
      readonly body: string;
    },
    notJudged: 1 | null = null,
  ): void {
    this.#writes.set(this.#writesKey(thread, ns, row), [
      this.#namespace(thread, ns).at,
      packId(row.checkpoint),
      packId(row.task),
      row.slot,
      packId(row.path),
      row.run === undefined ? null : packId(row.run),
      this.#text(row.body),
      notJudged,
    ]);
  }

  #writesKey(thread: number, ns: string, row: { checkpoint: string; task: string; slot: number }): string {
    return keyOf(this.#namespace(thread, ns).at, row.slot, row.checkpoint, row.task);
  }

  items(
    thread: number,
    row: { readonly list: string; readonly start: number; readonly count: number; readonly body: string },
    base: { readonly list: string; readonly length: number } | undefined,
  ): void {
    const list = packId(row.list);
    const key = keyOf(thread, row.start, list);
    if (this.#items.has(key)) throw UNPLANNABLE;
    if (base !== undefined) this.#lists.push([thread, list, packId(base.list), base.length]);
    this.#items.set(key, [thread, list, row.start, row.count, this.#text(row.body)]);
  }

  blob(thread: number, hash: string, data: string | Uint8Array): void {
    const key = keyOf(thread, hash);
    if (this.#blobs.has(key)) return;
    if (typeof data === "string") this.#blobs.set(key, [thread, packId(hash), this.#text(data), null]);
    else this.#blobs.set(key, [thread, packId(hash), null, this.#bytes.push(data)]);
  }

  /** `judged`: a later change of the same effect takes the place of an earlier one, and what that assumes. */
  effect(row: EffectRow, expect: number | null, thread: number | null, judged = false): void {
    const known = this.#effects.get(row.key);
    if (known !== undefined && !judged) throw UNPLANNABLE;
    this.#effects.set(row.key, [
      known === undefined ? expect : (known[0] as number | null),
      packId(row.key),
      thread,
      packId(row.ns),
      packId(row.checkpoint),
      packId(row.task),
      packId(row.name),
      packId(row.digest),
      row.ordinal,
      row.status,
      row.rev,
      row.attempt,
      packId(row.owner),
      this.#text(row.body),
    ]);
  }

  wait(thread: number, row: WaitRow, expect: number | null): void {
    const touched = this.#waits.has(row.id) || this.#ends.has(row.id);
    if (touched && expect !== ANY) throw UNPLANNABLE;
    this.#waits.set(row.id, [expect, packId(row.id), thread, ...waitFields(row), this.#text(row.body)]);
  }

  endWait(thread: number, id: string): void {
    if (this.#waits.has(id) || this.#ends.has(id)) throw UNPLANNABLE;
    this.#ends.set(id, [thread, packId(id)]);
  }

  decision(
    thread: number,
    row: { readonly seq: number; readonly wait: string; readonly hash: string; readonly body: string },
  ): void {
    // The function looks at the first of a thread only.
    const last = this.#lastDecision.get(thread);
    if (last !== undefined && row.seq !== last + 1) throw UNPLANNABLE;
    this.#lastDecision.set(thread, row.seq);
    this.#decisions.push([thread, row.seq, packId(row.wait), packId(row.hash), this.#text(row.body)]);
  }

  run(thread: number, row: RunRow, expect: number | null): void {
    const cells = this.#runCells(thread, row);
    if (expect !== null && !(Number.isInteger(expect) && expect >= 0 && expect <= INTEGER_MAX)) throw UNPLANNABLE;
    this.#runIds.add(row.id);
    this.#runs.push([expect ?? NONE, expect === null ? [] : statusesBefore(row.status), ...cells]);
  }

  judgedRun(thread: number, row: RunRow, expect: typeof NONE | typeof ANY): void {
    this.#runs.push([this.#runIds.has(row.id) ? ANY : expect, ANY, ...this.#runCells(thread, row)]);
    this.#runIds.add(row.id);
  }

  #runCells(thread: number, row: RunRow): Row {
    return [packId(row.id), thread, ...runFields(row), this.#text(row.body)];
  }

  /** The function looks at what was stored before the group. */
  fence(thread: number, run: string, epoch: number): void {
    const id = packId(run);
    if (this.#runIds.has(run) || !Number.isFinite(epoch)) throw UNPLANNABLE;
    this.#fences.set(keyOf(thread, epoch, id), [thread, id, epoch]);
  }

  #text(text: string): number {
    return this.#texts.push(packText(text));
  }
}

/** Of several parts: the lengths keep them apart. */
function keyOf(...parts: readonly (string | number)[]): string {
  return `${parts.map((part) => String(part).length).join(" ")}:${parts.join("")}`;
}
