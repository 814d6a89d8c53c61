/**
 * Trees: values as JSON-able data, between a live value and its text.
 *
 * Plain JSON data is itself. Everything else is a tag, an object with the single key "$" and an array that begins with
 * the tag's name: `{"$":["date",1700000000000]}`. A user's own object with a key "$" is never stored as itself, so a
 * tag cannot be forged by data.
 */

import { HoldfastError } from "../errors.ts";

/** A value as JSON-able data. Immutable, and shares nothing mutable with the value it came from. */
export type Tree = null | boolean | number | string | readonly Tree[] | TreeObject | BlobTree | TreeNode;

export interface TreeObject {
  readonly [key: string]: Tree;
}

/** A node that is kept as an object in memory and becomes a tag in JSON text. */
export interface TreeNode {
  toJSON(): Tree;
}

/** Takes large strings and byte arrays while a value is made into a tree. */
export interface BlobSink {
  /** Returns the hash under which `data` will be stored. `data` is not changed later. */
  put(data: string | Uint8Array): string;
}

/** Large strings and byte arrays by hash. */
export type Blobs = ReadonlyMap<string, string | Uint8Array>;

/** Strings of at least so many UTF-16 units, and byte arrays of at least so many bytes, are stored as blobs. */
export const BLOB_MIN = 256;

/** Values nested deeper than this, and cyclic ones, are stored as a flat graph. */
export const DEPTH_MAX = 100;

/** A large string, or a large byte array with its class. Compared by `data`, never by hash. */
export class BlobTree implements TreeNode {
  readonly hash: string;
  readonly data: string | Uint8Array;
  /** The class of a byte array, see `bytes.ts`; undefined for a string. */
  readonly form: string | undefined;

  constructor(hash: string, data: string | Uint8Array, form: string | undefined) {
    this.hash = hash;
    this.data = data;
    this.form = form;
  }

  toJSON(): Tree {
    return {
      $: this.form === undefined ? ["b", this.hash] : ["b", this.hash, this.form],
    };
  }
}

/** How every reference to a blob begins in JSON text, in a value's place. */
export const BLOB_TEXT = '{"$":["b",';

export const tagged = (...parts: Tree[]): TreeObject => ({ $: parts });

export const UNDEFINED: TreeObject = tagged("u");

/** The parts of a tag, or undefined where `tree` is plain data. */
export function partsOf(tree: object): readonly Tree[] | undefined {
  const parts = (tree as { readonly $?: unknown }).$;
  if (parts === undefined) return undefined;
  if (!Array.isArray(parts) || typeof parts[0] !== "string") throw damaged("a tag without a name");
  return parts as readonly Tree[];
}

/** Sets an own property also where the key is `__proto__`. */
export function setOwn(target: object, key: PropertyKey, value: unknown, enumerable = true): void {
  if (key !== "__proto__" && enumerable) {
    (target as Record<PropertyKey, unknown>)[key] = value;
  } else {
    Object.defineProperty(target, key, {
      value,
      enumerable,
      writable: true,
      configurable: true,
    });
  }
}

/** Stored data that cannot have been written by this codec. The caller adds where it was found. */
export function damaged(what: string, cause?: unknown): HoldfastError {
  return new HoldfastError("CORRUPT_DATA", `Stored value is damaged: ${what}.`, { cause, details: { found: what } });
}

/** Stored data of a kind this version, or this program's registry, does not know. */
export function unsupported(what: string, details: Record<string, unknown> = {}): HoldfastError {
  return new HoldfastError("UNSUPPORTED_FORMAT", `Stored value cannot be read: ${what}.`, { details });
}
