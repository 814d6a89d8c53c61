/** Trees → values, and stored trees → trees that can be compared. */

import { HoldfastError, isHoldfastError } from "../errors.ts";
import { bytesFrom } from "./bytes.ts";
import { decodeGraph } from "./graph.ts";
import { MessageTree, revivedMessage, storedMessage } from "./message.ts";
import { oddNumber } from "./primitive.ts";
import type { Registry } from "./registry.ts";
import { type Blobs, BlobTree, damaged, partsOf, setOwn, type Tree, type TreeObject, unsupported } from "./tree.ts";

function blobData(parts: readonly Tree[], blobs: Blobs): string | Uint8Array {
  const hash = parts[1];
  const data = typeof hash === "string" ? blobs.get(hash) : undefined;
  if (data === undefined) throw damaged(`the blob ${JSON.stringify(hash)} is missing`);
  if ((typeof data === "string") !== (parts[2] === undefined)) throw damaged(`the blob "${hash}" is of another type`);
  return data;
}

/** The tree with blobs and messages as nodes. Parts without either are shared with `tree`. */
export function resolveTree(tree: Tree, blobs: Blobs): Tree {
  if (typeof tree !== "object" || tree === null) return tree;
  if (tree instanceof BlobTree || tree instanceof MessageTree) return tree;
  if (Array.isArray(tree)) {
    let copy: Tree[] | undefined;
    for (let i = 0; i < tree.length; i++) {
      const item = resolveTree(tree[i], blobs);
      if (item === tree[i]) continue;
      copy ??= tree.slice();
      copy[i] = item;
    }
    return copy ?? tree;
  }
  const parts = partsOf(tree);
  if (parts !== undefined && parts[0] === "b") {
    return new BlobTree(parts[1] as string, blobData(parts, blobs), parts[2] as string | undefined);
  }
  if (parts !== undefined && parts[0] === "m") return storedMessage(parts, (item) => resolveTree(item, blobs));
  let copy: Record<string, Tree> | undefined;
  for (const key in tree) {
    const item = (tree as TreeObject)[key] as Tree;
    const resolved = resolveTree(item, blobs);
    if (resolved === item) continue;
    copy ??= { ...(tree as TreeObject) };
    setOwn(copy, key, resolved);
  }
  return copy ?? tree;
}

export class Decoder {
  readonly #registry: Registry;
  readonly #blobs: Blobs;
  readonly #value: (tree: Tree) => unknown;

  constructor(registry: Registry, blobs: Blobs) {
    this.#registry = registry;
    this.#blobs = blobs;
    this.#value = (tree) => this.value(tree);
  }

  /** Revives a whole value; any failure is an error that names where it was stored. */
  decode(tree: Tree, where: () => string): unknown {
    try {
      return this.value(tree);
    } catch (error) {
      const known = isHoldfastError(error);
      const code = known ? error.code : "CORRUPT_DATA";
      const text = known ? error.message.replace(/ \[[A-Z_]+\]$/, "") : `Stored value is damaged: ${String(error)}`;
      throw new HoldfastError(code, `${where()}: ${text}`, {
        cause: error,
        details: known ? error.details : {},
      });
    }
  }

  value(tree: Tree): unknown {
    if (typeof tree !== "object" || tree === null) return tree;
    if (Array.isArray(tree)) {
      const { length } = tree;
      const items = new Array<unknown>(length);
      for (let i = 0; i < length; i++) items[i] = this.value(tree[i]);
      return items;
    }
    if (tree instanceof BlobTree) return this.#blob(tree.data, tree.form);
    if (tree instanceof MessageTree) return revivedMessage(tree, this.#value);
    const value: Record<string, unknown> = {};
    for (const key in tree) {
      if (key === "$") return this.#tag(partsOf(tree) as readonly Tree[]);
      const item = this.value((tree as TreeObject)[key] as Tree);
      if (key === "__proto__") setOwn(value, key, item);
      else value[key] = item;
    }
    return value;
  }

  #blob(data: string | Uint8Array, form: string | undefined): unknown {
    return typeof data === "string" ? data : bytesFrom(form, data);
  }

  #tag(parts: readonly Tree[]): unknown {
    const tag = parts[0] as string;
    switch (tag) {
      case "m":
        return revivedMessage(
          storedMessage(parts, (item) => item),
          this.#value,
        );
      case "b":
        return this.#blob(blobData(parts, this.#blobs), parts[2] as string | undefined);
      case "u":
        return undefined;
      case "n":
        return oddNumber(parts[1]);
      case "bigint":
        return BigInt(parts[1] as string);
      case "bytes":
        return bytesFrom(parts[1], Buffer.from(parts[2] as string, "base64"));
      case "graph":
        return decodeGraph(parts.slice(1), {
          codecByTag: (name) => this.#registry.codecByTag(name),
          value: this.#value,
        });
      case "type":
        return this.#registered(parts);
      default:
        return this.#instance(tag, parts);
    }
  }

  #instance(tag: string, parts: readonly Tree[]): unknown {
    const codec = this.#registry.codecByTag(tag);
    if (codec === undefined) {
      throw unsupported(`it holds a kind of value "${tag}" that this version of holdfast does not know`, { tag });
    }
    const values: unknown[] = [];
    for (let i = 1; i < parts.length; i++) values.push(this.value(parts[i] as Tree));
    const value = codec.create(values);
    codec.fill?.(value, values);
    return value;
  }

  #registered(parts: readonly Tree[]): unknown {
    const [, id, stored, tree] = parts;
    if (typeof id !== "string" || typeof stored !== "number" || tree === undefined)
      throw damaged("a type without data");
    const type = this.#registry.typeById(id);
    if (type === undefined) {
      const known = this.#registry.typeIds.map((name) => `"${name}"`).join(", ") || "none";
      throw unsupported(`value type "${id}" is not registered (registered: ${known})`, { id });
    }
    const version = type.version ?? 1;
    if (stored > version) {
      throw unsupported(`value type "${id}" is stored in version ${stored}, this program knows ${version}`, { id });
    }
    let data = this.value(tree);
    if (stored < version) {
      if (type.migrate === undefined) {
        throw unsupported(`value type "${id}" is stored in version ${stored} and has no migrate to ${version}`, { id });
      }
      data = type.migrate(data, stored);
    }
    return type.fromData(data);
  }
}
