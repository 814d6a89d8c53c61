/**
 * Between values and rows: what a channel value, a task's write or an effect's outcome looks like in a row, and which
 * further rows (blobs, list items) it refers to.
 *
 * A value in a row is JSON of one of three forms:
 * - the serde's own JSON, where it is short;
 * - `{"$":["j",hash]}`: that JSON, stored as a blob: large values are stored once and referred to;
 * - `{"$":["l",list,length]}`: the first `length` items of a list.
 * The serde never makes the tags `j` and `l`, and escapes data that looks like them.
 */

import { hash } from "node:crypto";
import type { Backend, Op } from "./backend.ts";
import { HoldfastError } from "./errors.ts";
import type { Encoded } from "./model.ts";
import { type BlobSink, payload, type Serde, type Tree } from "./serde.ts";

/** JSON longer than this is stored as a blob of its own. */
export const INLINE_MAX = 1024;

type Blobs = ReadonlyMap<string, string | Uint8Array>;

/** 144 bits of SHA-256: 24 characters. Equal content has one row per thread. */
export function contentHash(data: string | Uint8Array): string {
  return hash("sha256", data, "base64url").slice(0, 24);
}

/** Collects the blobs that one commit must bring along, and remembers hashes of recent strings. */
export class BlobCollector implements BlobSink {
  readonly #memo: Map<string, string>;
  readonly blobs = new Map<string, string | Uint8Array>();

  /** `memo`: string → hash, shared by the collectors of a checkpointer; bounded here. */
  constructor(memo: Map<string, string>) {
    this.#memo = memo;
  }

  put(data: string | Uint8Array): string {
    let key: string | undefined;
    if (typeof data === "string") {
      key = this.#memo.get(data);
      if (key === undefined) {
        key = contentHash(data);
        // Large strings are hashed again rather than kept alive.
        if (data.length <= 65_536) {
          if (this.#memo.size >= 512) this.#memo.clear();
          this.#memo.set(data, key);
        }
      }
    } else {
      key = contentHash(data);
    }
    this.blobs.set(key, data);
    return key;
  }

  ops(thread: string, era: number): Op[] {
    const ops: Op[] = [];
    for (const [key, data] of this.blobs) ops.push({ kind: "blob", thread, era, hash: key, data });
    return ops;
  }
}

/** The JSON of a value as it stands in a row: itself, or a reference to the blob that holds it. */
export function inlineOrBlob(json: string, sink: BlobSink): string {
  return json.length <= INLINE_MAX ? json : `{"$":["j","${sink.put(json)}"]}`;
}

export function listReference(list: string, length: number): string {
  return `{"$":["l",${JSON.stringify(list)},${length}]}`;
}

/** A reference found in a row's parsed JSON. */
type Reference =
  | { readonly kind: "json"; readonly hash: string }
  | { readonly kind: "list"; readonly list: string; readonly length: number };

/** The reference a parsed value is, or undefined where it is the value itself. */
export function referenceOf(tree: unknown): Reference | undefined {
  if (typeof tree !== "object" || tree === null || Array.isArray(tree)) return undefined;
  const tag = (tree as { $?: unknown }).$;
  if (!Array.isArray(tag)) return undefined;
  if (tag[0] === "j") return { kind: "json", hash: String(tag[1]) };
  if (tag[0] === "l") return { kind: "list", list: String(tag[1]), length: Number(tag[2]) };
  return undefined;
}

/** Items of a list as stored, parsed and not yet revived; and what they refer to. */
export interface StoredList {
  readonly trees: readonly Tree[];
  readonly extended: boolean;
  /** How many lists the items come from. */
  readonly depth: number;
  /** Characters of the items' rows. */
  readonly size: number;
}

/**
 * Reads values of one thread. Keeps what it has fetched, so that reading a whole history fetches and parses every
 * item once; make a new one for every call that must see fresh rows (blobs and items never change).
 */
export class ValueReader {
  readonly #backend: Backend;
  readonly #serde: Serde;
  readonly #thread: string;
  readonly #blobs = new Map<string, string | Uint8Array>();
  readonly #lists = new Map<string, StoredList>();
  readonly #json = new Map<string, Tree>();
  readonly #resolved = new Map<string, Tree[]>();

  constructor(backend: Backend, serde: Serde, thread: string) {
    this.#backend = backend;
    this.#serde = serde;
    this.#thread = thread;
  }

  get blobs(): Blobs {
    return this.#blobs;
  }

  list(list: string): StoredList | undefined {
    return this.#lists.get(list);
  }

  /** The items of a fetched list with what they refer to, made once however many lengths of it are read. */
  resolved(list: string): readonly Tree[] {
    const trees = this.#lists.get(list)?.trees ?? [];
    let resolved = this.#resolved.get(list);
    if (resolved === undefined || resolved.length < trees.length) {
      resolved = trees.map((tree) => this.#serde.resolve(tree, this.#blobs));
      this.#resolved.set(list, resolved);
    }
    return resolved;
  }

  /** Fetches everything that the values in these rows refer to. */
  async fetch(rows: readonly Encoded[], values: readonly unknown[]): Promise<void> {
    const texts: string[] = [...rows];
    const nested: string[] = [];
    for (const value of values) {
      const reference = referenceOf(value);
      if (reference === undefined) continue;
      if (reference.kind === "json") nested.push(reference.hash);
      else await this.#fetchList(reference.list, reference.length, texts);
    }
    await this.#fetchBlobs([...nested, ...this.#serde.blobHashes(texts)]);
    if (nested.length === 0) return;
    const inner: string[] = [];
    for (const key of nested) {
      const json = this.#blobs.get(key);
      if (this.#json.has(key) || typeof json !== "string") continue;
      this.#json.set(key, this.#serde.parse(json));
      inner.push(json);
    }
    await this.#fetchBlobs(this.#serde.blobHashes(inner));
  }

  /** A fresh value. Everything it refers to must have been fetched. */
  revive(tree: unknown, where: () => string): unknown {
    const reference = referenceOf(tree);
    if (reference === undefined) return this.#serde.fromTree(tree as Tree, this.#blobs, where);
    if (reference.kind === "json") {
      const inner = this.#json.get(reference.hash);
      if (inner === undefined) throw this.#missing(`blob ${reference.hash}`, where);
      return this.#serde.fromTree(inner, this.#blobs, where);
    }
    const stored = this.#lists.get(reference.list);
    if (stored === undefined || stored.trees.length < reference.length)
      throw this.#missing(`list ${reference.list}`, where);
    const trees = this.resolved(reference.list);
    const items: unknown[] = new Array(reference.length);
    for (let i = 0; i < reference.length; i += 1) {
      items[i] = this.#serde.fromTree(trees[i] as Tree, this.#blobs, where);
    }
    return items;
  }

  async #fetchList(list: string, length: number, texts: string[]): Promise<void> {
    const known = this.#lists.get(list);
    if (known !== undefined && known.trees.length >= length) return;
    const { rows, extended } = await this.#backend.items(this.#thread, list, length);
    const trees: Tree[] = [];
    const lists = new Set<string>();
    let size = 0;
    for (const row of rows) {
      size += row.body.length;
      lists.add(row.list);
      texts.push(row.body);
      // A list may continue another one from the middle of a row.
      if (row.start > trees.length) break;
      trees.length = row.start;
      for (const tree of this.#serde.parse(payload(row.body)) as readonly Tree[]) {
        if (trees.length < length) trees.push(tree);
      }
    }
    if (trees.length < length) throw this.#missing(`item ${trees.length} of list ${list}`, () => "");
    this.#lists.set(list, { trees, extended, depth: lists.size, size });
  }

  async #fetchBlobs(hashes: readonly string[]): Promise<void> {
    const missing = [...new Set(hashes)].filter((key) => !this.#blobs.has(key));
    if (missing.length === 0) return;
    for (const [key, data] of await this.#backend.blobs(this.#thread, missing)) this.#blobs.set(key, data);
  }

  #missing(what: string, where: () => string): HoldfastError {
    return new HoldfastError(
      "CORRUPT_DATA",
      `${this.#backend.name}: ${what} of thread ${JSON.stringify(this.#thread)} is missing or damaged${where() === "" ? "" : ` (needed for ${where()})`}. ` +
        "The value is not replaced by an empty one; restore the store from a backup or start from another checkpoint.",
      { details: { thread: this.#thread, what } },
    );
  }
}
