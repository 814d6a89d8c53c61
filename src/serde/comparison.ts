/**
 * Whether a value still is what a tree says. Runs over all of the state at every superstep: no allocation for plain
 * data and messages. The order of an object's keys is not compared.
 */

import { bytesForm, bytesView } from "./bytes.ts";
import { escapedObject, isOddArray, oddArray } from "./builtin-codecs.ts";
import type { ClassCodec } from "./class-codec.ts";
import { Encoder } from "./encoder.ts";
import { isUsualMessage, MessageTree, sameMessage, samePlainMessage } from "./message.ts";
import { type MessageKind, messageKind } from "./message-kind.ts";
import { isForeignPlain, isPlain, isPlainArray } from "./primitive.ts";
import type { Registry } from "./registry.ts";
import { BlobTree, partsOf, type Tree, type TreeObject } from "./tree.ts";

export class Comparison {
  readonly #registry: Registry;
  readonly #same: (tree: Tree, value: unknown) => boolean;

  constructor(registry: Registry) {
    this.#registry = registry;
    this.#same = (tree, value) => this.same(tree, value);
  }

  /** How many of the first `most` values still are what their trees say. */
  samePrefix(trees: readonly Tree[], values: readonly unknown[], most: number): number {
    for (let i = 0; i < most; i++) {
      const tree = trees[i] as Tree;
      const value = values[i];
      if (tree instanceof MessageTree && tree.text !== undefined && tree.kind.family !== "tool") {
        if (typeof value !== "object" || value === null || !this.#plainMessage(tree, value)) return i;
      } else if (!this.same(tree, value)) return i;
    }
    return most;
  }

  #plainMessage(tree: MessageTree, value: object): boolean {
    if (tree.seen !== value && !isOfKind(tree.kind, value)) return false;
    return samePlainMessage(tree, value, this.#same);
  }

  same(tree: Tree, value: unknown): boolean {
    if (typeof value === "string") {
      return tree === value || (typeof tree === "object" && tree instanceof BlobTree && tree.data === value);
    }
    if (typeof value !== "object" || value === null) {
      if (tree === value) return (value !== 0 || 1 / value > 0) && typeof value !== "function";
      return typeof tree === "object" && tree !== null && samePrimitive(tree, value);
    }
    if (typeof tree !== "object" || tree === null) return false;
    if (Array.isArray(value)) return this.#array(tree, value);
    if (Array.isArray(tree)) return false;
    if (tree instanceof MessageTree) {
      return isOfKind(tree.kind, value) && sameMessage(tree, value, this.#same);
    }
    if (isPlain(value)) return this.#plain(tree, value);
    return this.#instance(tree, value, Object.getPrototypeOf(value) as object | null);
  }

  #array(tree: object, value: readonly unknown[]): boolean {
    if (!Array.isArray(tree)) {
      const parts = partsOf(tree);
      if (parts?.[0] === "graph") return this.#graph(tree as Tree, value);
      return parts?.[0] === "array" && isOddArray(value) && this.#parts(parts, oddArray as ClassCodec, value);
    }
    const { length } = value;
    if (tree.length !== length || !isPlainArray(value)) return false;
    for (let i = 0; i < length; i++) {
      const item = value[i];
      if (!this.same(tree[i] as Tree, item) || (item === undefined && !(i in value))) return false;
    }
    return true;
  }

  #plain(tree: object, value: object): boolean {
    let count = 0;
    for (const key in value) {
      if (key === "$" || key === "__proto__") return this.#unusual(tree, value);
      const item = (tree as TreeObject)[key];
      if (item === undefined || !this.same(item, (value as TreeObject)[key])) {
        // The tree may have no such key of its own (`toString`, a function, is inherited) because it is a tag.
        return (item === undefined || typeof item === "function") && this.#unusual(tree, value);
      }
      count++;
    }
    for (const _key in tree) count--;
    return count === 0 && !(tree instanceof BlobTree);
  }

  /** Plain objects with a key that means something to a tree or to JavaScript, and those that are other trees. */
  #unusual(tree: object, value: object): boolean {
    const parts = Object.hasOwn(tree, "$") ? partsOf(tree) : undefined;
    if (parts?.[0] === "graph") return this.#graph(tree as Tree, value);
    if (Object.hasOwn(value, "$")) return parts?.[0] === "o" && this.#parts(parts, escapedObject, value);
    if (parts !== undefined) return false;
    const keys = Object.keys(value);
    if (keys.length !== Object.keys(tree).length) return false;
    return keys.every(
      (key) => Object.hasOwn(tree, key) && this.same((tree as TreeObject)[key] as Tree, (value as TreeObject)[key]),
    );
  }

  #instance(tree: object, value: object, proto: object | null): boolean {
    if (proto !== null && isForeignPlain(proto)) return this.#plain(tree, value);
    if (tree instanceof BlobTree) {
      return proto !== null && tree.form === bytesForm(proto) && sameBytes(tree.data, value);
    }
    const parts = partsOf(tree);
    if (parts === undefined) return false;
    if (parts[0] === "graph") return this.#graph(tree as Tree, value);
    const form = proto === null ? undefined : bytesForm(proto);
    if (form !== undefined) {
      return parts[0] === "bytes" && parts[1] === form && sameBytes(Buffer.from(parts[2] as string, "base64"), value);
    }
    const kind = proto === null ? undefined : messageKind(proto, value);
    if (kind !== undefined && isUsualMessage(kind, value)) return false;
    const type = this.#registry.typeOf(value);
    if (type !== undefined) {
      const isSame = parts[0] === "type" && parts[2] === (type.version ?? 1);
      if (!isSame || this.#registry.typeById(parts[1] as string) !== type) return false;
      return this.same(parts[3] as Tree, type.toData(value));
    }
    const codec = this.#registry.codecOf(value, proto);
    return codec !== undefined && codec.tag === parts[0] && this.#parts(parts, codec, value);
  }

  #parts(stored: readonly Tree[], codec: ClassCodec, value: object): boolean {
    const parts = codec.parts(value);
    if (parts.length !== stored.length - 1) return false;
    for (let i = 0; i < parts.length; i++) if (!this.same(stored[i + 1] as Tree, parts[i])) return false;
    return true;
  }

  /** Rare and expensive: makes the value's tree anew. */
  #graph(tree: Tree, value: object): boolean {
    const sink = { put: () => "" };
    const options = {
      registry: this.#registry,
      sink,
      where: () => "",
      maxValueChars: Infinity,
    };
    try {
      return sameTree(tree, new Encoder(options).encode(value));
    } catch {
      return false; // It cannot be stored any more: not what it was, and storing it will say why.
    }
  }
}

function isOfKind(kind: MessageKind, value: object): boolean {
  if (value.constructor === kind.create) return true;
  const proto = Object.getPrototypeOf(value) as object | null;
  return proto !== null && messageKind(proto, value) === kind;
}

function samePrimitive(tree: object, value: unknown): boolean {
  if (tree instanceof BlobTree || tree instanceof MessageTree || Array.isArray(tree)) return false;
  const parts = partsOf(tree);
  switch (typeof value) {
    case "undefined":
      return parts?.[0] === "u";
    case "number":
      return parts?.[0] === "n" && parts[1] === (Object.is(value, -0) ? "-0" : String(value));
    case "bigint":
      return parts?.[0] === "bigint" && parts[1] === String(value);
    default:
      return false;
  }
}

function sameBytes(data: string | Uint8Array, value: object): boolean {
  return typeof data !== "string" && Buffer.compare(data, bytesView(value)) === 0;
}

function sameTree(a: Tree, b: Tree): boolean {
  if (typeof a !== "object" || a === null || typeof b !== "object" || b === null) return a === b;
  if (a instanceof BlobTree || b instanceof BlobTree) {
    if (!(a instanceof BlobTree && b instanceof BlobTree) || a.form !== b.form) return false;
    return typeof a.data === "string" ? a.data === b.data : typeof b.data !== "string" && sameBytes(a.data, b.data);
  }
  if (a instanceof MessageTree || b instanceof MessageTree) {
    return a instanceof MessageTree && b instanceof MessageTree && sameTree(a.toJSON(), b.toJSON());
  }
  const keys = Object.keys(a);
  if (Array.isArray(a) !== Array.isArray(b) || keys.length !== Object.keys(b).length) return false;
  return keys.every(
    (key) => Object.hasOwn(b, key) && sameTree((a as TreeObject)[key] as Tree, (b as TreeObject)[key] as Tree),
  );
}
