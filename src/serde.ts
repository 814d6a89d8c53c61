/**
 * Values ↔ text, in three stages: value → tree → JSON text, and back. A tree is kept as the shadow of what was stored, so
 * that the next superstep can tell by content what has changed in place.
 *
 * What goes in comes out: see `serde/` for each class. What cannot be kept is refused when it is written, with its
 * path. Nothing stored is executed or resolved to a class outside the closed lists there and the registered types.
 *
 * Not kept: that two places hold the same object (except in cyclic and very deep values), property attributes,
 * accessors (their value is), frozenness.
 */

import { HoldfastError } from "./errors.ts";
import type { Encoded } from "./model.ts";
import { Comparison } from "./serde/comparison.ts";
import { Decoder, resolveTree } from "./serde/decoder.ts";
import { Encoder } from "./serde/encoder.ts";
import { Registry, type ValueType } from "./serde/registry.ts";
import { BLOB_TEXT, type Blobs, type BlobSink, damaged, type Tree } from "./serde/tree.ts";

export { MessageTree } from "./serde/message.ts";
export type { ValueType } from "./serde/registry.ts";
export {
  type Blobs,
  type BlobSink,
  BlobTree,
  type Tree,
} from "./serde/tree.ts";

/** Name and version of the text this version writes. */
export const CODEC = "json/1";

const PREFIX = `${CODEC} `;
const MAX_VALUE_CHARS = 100_000_000;

export interface SerdeOptions {
  /** Classes of the application that state may hold. */
  readonly types?: readonly ValueType[];
  /** Largest value, in characters of its text including blobs. Default 100,000,000. */
  readonly maxValueChars?: number;
}

export class Serde {
  readonly #registry: Registry;
  readonly #comparison: Comparison;
  readonly #maxValueChars: number;

  constructor(options: SerdeOptions = {}) {
    this.#registry = new Registry(options.types ?? []);
    this.#comparison = new Comparison(this.#registry);
    this.#maxValueChars = options.maxValueChars ?? MAX_VALUE_CHARS;
  }

  /**
   * Value → tree. `where` is called only for an error's message; the path inside the value is appended to it.
   * Throws UNSERIALIZABLE_VALUE and VALUE_TOO_LARGE.
   */
  toTree(value: unknown, sink: BlobSink, where: () => string): Tree {
    const maxValueChars = this.#maxValueChars;
    return new Encoder({
      registry: this.#registry,
      sink,
      where,
      maxValueChars,
    }).encode(value);
  }

  /** Tree → JSON text, without the codec's prefix. */
  stringify(tree: Tree): string {
    return JSON.stringify(tree);
  }

  /** JSON text → tree as stored: blob references are unresolved. */
  parse(json: string): Tree {
    try {
      return JSON.parse(json) as Tree;
    } catch (error) {
      throw damaged("its text is no JSON", error);
    }
  }

  /** Hashes of the blobs that JSON text refers to, each once. */
  blobHashes(json: string | readonly string[]): string[] {
    const hashes = new Set<string>();
    for (const text of typeof json === "string" ? [json] : json) {
      // Inside a string of the data, the quotes of a look-alike are escaped: only a reference has this text.
      for (let at = text.indexOf(BLOB_TEXT); at >= 0; at = text.indexOf(BLOB_TEXT, at)) {
        const start = at + BLOB_TEXT.length + 1;
        const end = text.indexOf('"', start);
        if (end < 0) throw damaged("a blob reference without an end");
        hashes.add(text.slice(start, end));
        at = end;
      }
    }
    return [...hashes];
  }

  /** Stored tree → tree that {@link matches} can compare. */
  resolve(tree: Tree, blobs: Blobs): Tree {
    return resolveTree(tree, blobs);
  }

  /**
   * Stored or resolved tree → a new value that shares nothing mutable with it, or with an earlier one.
   * Throws CORRUPT_DATA and UNSUPPORTED_FORMAT.
   */
  fromTree(tree: Tree, blobs: Blobs, where: () => string): unknown {
    return new Decoder(this.#registry, blobs).decode(tree, where);
  }

  /** Whether {@link toTree} would give this tree (resolved, or made by `toTree`) for the value as it is now. */
  matches(tree: Tree, value: unknown): boolean {
    return this.#comparison.same(tree, value);
  }

  /** How many of the first `most` values match their trees, in order. */
  samePrefix(trees: readonly Tree[], values: readonly unknown[], most: number): number {
    return this.#comparison.samePrefix(trees, values, most);
  }
}

/** JSON text with the codec's name and version in front. */
export function encoded(json: string): Encoded {
  return PREFIX + json;
}

/** The JSON text inside. Throws UNSUPPORTED_FORMAT for another codec or version, CORRUPT_DATA for anything else. */
export function payload(text: Encoded): string {
  if (text.startsWith(PREFIX)) return text.slice(PREFIX.length);
  const head = /^([a-z][a-z0-9-]*\/[0-9]+) /.exec(text)?.[1];
  if (head === undefined) throw damaged("it does not begin with the name of a codec");
  throw new HoldfastError(
    "UNSUPPORTED_FORMAT",
    `Stored value is encoded as "${head}"; this version of holdfast reads "${CODEC}". Upgrade holdfast to read it.`,
    { details: { found: head, known: [CODEC] } },
  );
}
