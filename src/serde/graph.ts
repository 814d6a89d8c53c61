/**
 * Cyclic and very deep values, without recursion: `{"$":["graph",node,node,…]}`. Node 0 is the value; a node is a tree
 * whose objects are links, `{"$":["r",index]}`. Unlike plain trees, a graph keeps which objects are the same one.
 */

import { escapedObject, isOddArray, oddArray } from "./builtin-codecs.ts";
import { bytesForm } from "./bytes.ts";
import type { ClassCodec } from "./class-codec.ts";
import type { Encoder, Step } from "./encoder.ts";
import { damaged, partsOf, setOwn, type Tree, type TreeObject, tagged } from "./tree.ts";

class GraphWalk {
  readonly #encoder: Encoder;
  readonly #root: readonly Step[];
  readonly #values: object[] = [];
  readonly #parents: number[] = [];
  readonly #steps: Step[] = [];
  readonly #index = new Map<object, number>();

  constructor(encoder: Encoder, root: readonly Step[]) {
    this.#encoder = encoder;
    this.#root = root;
  }

  encode(value: object): Tree {
    this.#link(value, -1, { text: "" });
    const nodes: Tree[] = ["graph"];
    for (let i = 0; i < this.#values.length; i++) nodes.push(this.#node(this.#values[i] as object, i));
    return { $: nodes };
  }

  #path(index: number, last?: Step): Step[] {
    const steps: Step[] = last === undefined ? [] : [last];
    for (let i = index; i >= 0; i = this.#parents[i] as number) steps.push(this.#steps[i] as Step);
    return [...this.#root, ...steps.reverse()];
  }

  #link(value: object, parent: number, step: Step): TreeObject {
    let index = this.#index.get(value);
    if (index === undefined) {
      index = this.#values.push(value) - 1;
      this.#index.set(value, index);
      this.#parents.push(parent);
      this.#steps.push(step);
    }
    return tagged("r", index);
  }

  #child(value: unknown, parent: number, step: Step): Tree {
    if (typeof value === "object" && value !== null) return this.#link(value, parent, step);
    return this.#encoder.primitive(value, () => this.#path(parent, step));
  }

  #node(value: object, index: number): Tree {
    const path = () => this.#path(index);
    if (Array.isArray(value)) {
      if (!isOddArray(value)) return value.map((item: unknown, i) => this.#child(item, index, i));
      this.#encoder.checkArray(value, path);
      return this.#parts(oddArray as ClassCodec, value, index);
    }
    const proto = Object.getPrototypeOf(value) as object | null;
    const chosen = proto === Object.prototype ? "plain" : this.#encoder.choose(value, proto, path);
    if (chosen === "bytes") return this.#encoder.bytes(value, bytesForm(proto as object) as string, path);
    if (chosen !== "plain") {
      return "id" in chosen ? this.#encoder.registered(chosen, value, path()) : this.#parts(chosen, value, index);
    }
    this.#encoder.checkSymbols(value, path);
    if (Object.hasOwn(value, "$")) return this.#parts(escapedObject, value, index);
    const node: Record<string, Tree> = {};
    for (const key of Object.keys(value)) {
      setOwn(node, key, this.#child((value as Record<string, unknown>)[key], index, key));
    }
    return node;
  }

  #parts(codec: ClassCodec, value: object, index: number): Tree {
    const parts = codec.parts(value);
    const trees = parts.map((part, i) => this.#child(part, index, { text: codec.place?.(parts, i) ?? `[${i}]` }));
    return { $: [codec.tag, ...trees] };
  }
}

export function encodeGraph(encoder: Encoder, value: unknown, root: readonly Step[]): Tree {
  return new GraphWalk(encoder, root).encode(value as object);
}

/** What a graph needs to read its nodes. */
export interface NodeReader {
  codecByTag(tag: string): ClassCodec | undefined;
  /** Revives a tree without links. */
  value(tree: Tree): unknown;
}

const linkOf = (tree: Tree): number | undefined => {
  if (typeof tree !== "object" || tree === null || Array.isArray(tree)) return undefined;
  const parts = partsOf(tree);
  return parts?.[0] === "r" ? (parts[1] as number) : undefined;
};

/** Two passes: every object is made empty, then filled, so that links may point anywhere. */
export function decodeGraph(nodes: readonly Tree[], reader: NodeReader): unknown {
  if (nodes.length === 0) throw damaged("a graph without nodes");
  const codecs: (ClassCodec | undefined)[] = [];
  const values = nodes.map((node, i) => {
    if (Array.isArray(node)) return [];
    if (typeof node !== "object" || node === null) throw damaged("a graph with a node that is no object");
    const parts = partsOf(node);
    if (parts === undefined) return {};
    const codec = reader.codecByTag(parts[0] as string);
    if (codec === undefined) return reader.value(node) as object;
    const heads = parts.slice(1);
    const end = heads.findIndex((part) => linkOf(part) !== undefined);
    codecs[i] = codec;
    return codec.create(heads.slice(0, end < 0 ? undefined : end).map((part) => reader.value(part)));
  });
  const read = (tree: Tree): unknown => {
    const link = linkOf(tree);
    if (link === undefined) return reader.value(tree);
    if (!Number.isInteger(link) || link < 0 || link >= values.length)
      throw damaged(`a link to node ${link}, which does not exist`);
    return values[link];
  };
  // Downwards: an error's or instance's properties are a node after it, and must be filled before they are copied.
  for (let i = nodes.length - 1; i >= 0; i--) {
    const node = nodes[i] as object;
    const value = values[i] as object;
    const codec = codecs[i];
    if (Array.isArray(node)) {
      for (const item of node) (value as unknown[]).push(read(item));
    } else if (codec !== undefined) {
      codec.fill?.(value, (partsOf(node) as readonly Tree[]).slice(1).map(read));
    } else if (partsOf(node) === undefined) {
      for (const [key, item] of Object.entries(node)) setOwn(value, key, read(item));
    }
  }
  return values[0];
}
