/**
 * Lists stored once. A channel that holds an array is kept as (list id, length); the items stand in rows that are only
 * ever appended, so a list that grew by k items stores k items, whatever the reducer. Works on plain channels: what
 * grew is found by comparing the new array with what is stored, item by item and by content, never by reference, so an
 * item edited in place is noticed.
 *
 * - L1 Rows of a list are never changed. An edit or a branch begins a new list that continues the old one's first p
 *   items; both go on to be read.
 * - L2 A list may be extended only where its end is known: by the process that wrote its last rows, or after a load
 *   that saw nothing behind it. The backend refuses a place that is taken, so a wrong belief cannot mix two branches.
 * - L3 At most MAX_DEPTH lists stand behind one another; then the array is stored whole again.
 */

import { randomBytes } from "node:crypto";
import type { Op } from "./backend.ts";
import { type BlobSink, encoded, type Serde, type Tree } from "./serde.ts";
import { inlineOrBlob, listReference } from "./values.ts";

/** Arrays whose JSON is shorter stand in the checkpoint row itself. */
export const LIST_MIN_CHARS = 512;
const MAX_DEPTH = 32;

/** A stored list as a channel refers to it, with its items for comparison. */
export interface KnownList {
  readonly list: string;
  readonly length: number;
  /** Lists that stand behind this one, itself included. */
  readonly depth: number;
  /** At least `length` resolved items. Shared between the lengths of a list; only ever appended to. */
  readonly trees: () => Tree[];
  /** Characters of the items, for the size warning. */
  readonly size: number;
}

/** The array to be stored: live, or captured as trees where the comparison has to wait. */
export interface Items {
  readonly length: number;
  /** How many of the first `most` items are what the stored trees say. */
  samePrefix(stored: readonly Tree[], most: number): number;
  tree(index: number): Tree;
}

export interface ListPlan {
  readonly json: string;
  readonly ops: readonly Op[];
  readonly known: KnownList;
}

/** Whether an array can be kept item by item: no holes, no subclass. */
export function isPlainArray(value: unknown): value is readonly unknown[] {
  if (!Array.isArray(value) || Object.getPrototypeOf(value) !== Array.prototype) return false;
  return !value.includes(undefined) || Object.keys(value).length === value.length;
}

/** An array in the caller's hands, read now. */
export function liveItems(serde: Serde, value: readonly unknown[], sink: BlobSink, where: () => string): Items {
  return {
    length: value.length,
    samePrefix: (stored, most) => serde.samePrefix(stored, value, most),
    tree: (index) => serde.toTree(value[index], sink, () => `${where()}, item ${index}`),
  };
}

/** An array captured earlier, compared by its text. */
export function capturedItems(serde: Serde, trees: readonly Tree[]): Items {
  return {
    length: trees.length,
    samePrefix: (stored, most) => {
      let i = 0;
      while (i < most && serde.stringify(stored[i] as Tree) === serde.stringify(trees[i] as Tree)) i += 1;
      return i;
    },
    tree: (index) => trees[index] as Tree,
  };
}

export class ListWriter {
  readonly #serde: Serde;
  /** Ends of the lists this process may extend. */
  readonly #ends = new Map<string, number>();

  constructor(serde: Serde) {
    this.#serde = serde;
  }

  /** A load saw that the list ends here. */
  endsAt(list: string, length: number): void {
    this.#remember(list, length);
  }

  /** The list's end is not known any more: what was queued for it may not have been stored. */
  forget(list: string): void {
    this.#ends.delete(list);
  }

  /** How many of the first items are stored already. */
  samePrefix(known: KnownList, items: Items): number {
    return items.samePrefix(known.trees(), Math.min(known.length, items.length));
  }

  /** Decides which rows the array needs, given the list its channel held before. */
  plan(thread: string, era: number, before: KnownList | undefined, items: Items): ListPlan {
    const same = before === undefined ? 0 : this.samePrefix(before, items);
    if (before !== undefined && same === items.length && same > 0) {
      const known = same === before.length ? before : { ...before, length: same };
      return { json: listReference(before.list, same), ops: [], known };
    }
    if (before !== undefined && same === before.length && this.#ends.get(before.list) === same) {
      return this.#append(thread, era, before, before.list, undefined, same, items);
    }
    const list = randomBytes(9).toString("base64url");
    // Continuing pays only where more is shared than written again.
    const worth = before !== undefined && before.depth < MAX_DEPTH && same > items.length - same;
    if (worth) return this.#append(thread, era, before, list, { list: before.list, length: same }, same, items);
    return this.#append(thread, era, undefined, list, undefined, 0, items);
  }

  #append(
    thread: string,
    era: number,
    before: KnownList | undefined,
    list: string,
    base: { list: string; length: number } | undefined,
    start: number,
    items: Items,
  ): ListPlan {
    const fresh: Tree[] = [];
    for (let i = start; i < items.length; i += 1) fresh.push(items.tree(i));
    const body = encoded(this.#serde.stringify(fresh));
    const op: Op = { kind: "items", thread, era, list, start, count: fresh.length, body, base };
    let trees: Tree[];
    if (before === undefined) trees = fresh;
    else {
      const old = before.trees();
      // A shorter view of an array that has grown since gets its own copy; otherwise the array is shared.
      trees = old.length === start ? old : old.slice(0, start);
      for (const tree of fresh) trees.push(tree);
    }
    this.#remember(list, items.length);
    const depth = base === undefined ? (before?.depth ?? 1) : (before?.depth ?? 0) + 1;
    const size = (before?.size ?? 0) + body.length;
    return {
      json: listReference(list, items.length),
      ops: [op],
      known: { list, length: items.length, depth, trees: () => trees, size },
    };
  }

  #remember(list: string, length: number): void {
    this.#ends.delete(list);
    this.#ends.set(list, length);
    if (this.#ends.size > 4096) this.#ends.delete(this.#ends.keys().next().value as string);
  }
}

/** Stores a value that is not (yet) a list: whole, or as a new list where it is a long array. */
export function planValue(
  serde: Serde,
  lists: ListWriter,
  thread: string,
  era: number,
  tree: Tree,
  sink: BlobSink,
): { readonly json: string; readonly ops: readonly Op[]; readonly known: KnownList | undefined } {
  const json = serde.stringify(tree);
  // Arrays with holes or of a subclass are tagged objects in the tree.
  if (json.length > LIST_MIN_CHARS && Array.isArray(tree)) {
    return lists.plan(thread, era, undefined, capturedItems(serde, tree as readonly Tree[]));
  }
  return { json: inlineOrBlob(json, sink), ops: [], known: undefined };
}
