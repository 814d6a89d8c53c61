/** Values → trees. One encoder per value. */

import { HoldfastError } from "../errors.ts";
import { escapedObject, isOddArray, oddArray } from "./builtin-codecs.ts";
import { bytesForm, bytesView } from "./bytes.ts";
import type { ClassCodec } from "./class-codec.ts";
import { encodeGraph } from "./graph.ts";
import { knownMarks } from "./langchain-codec.ts";
import { messageTree } from "./message.ts";
import { messageKind } from "./message-kind.ts";
import { isForeignPlain, numberTree } from "./primitive.ts";
import type { Registry, ValueType } from "./registry.ts";
import { BLOB_MIN, type BlobSink, BlobTree, DEPTH_MAX, setOwn, type Tree, tagged, UNDEFINED } from "./tree.ts";

/** A step of a path: a key, an index, or text that is used as it is. */
export type Step = string | number | { readonly text: string };

/** Thrown, and caught below, where a value is deeper than {@link DEPTH_MAX} or cyclic. */
const TOO_DEEP = new Error("The value is deeper than DEPTH_MAX.");

export interface EncoderOptions {
  readonly registry: Registry;
  readonly sink: BlobSink;
  readonly where: () => string;
  readonly maxValueChars: number;
}

export class Encoder {
  readonly registry: Registry;
  readonly #options: EncoderOptions;
  /** Steps to the value at hand; only the first `depth` are valid. */
  readonly #path: Step[] = [];
  #chars = 0;
  /** Instances of registered types whose data is being made. */
  readonly #open = new Set<object>();

  constructor(options: EncoderOptions) {
    this.#options = options;
    this.registry = options.registry;
  }

  encode(value: unknown): Tree {
    return this.#whole(value, 0);
  }

  /** A tree, flat where the value is too deep or cyclic. */
  #whole(value: unknown, depth: number): Tree {
    try {
      return this.#tree(value, depth, depth + DEPTH_MAX);
    } catch (error) {
      if (error !== TOO_DEEP) throw error;
      return encodeGraph(this, value, this.#path.slice(0, depth));
    }
  }

  /** The tree of a value that is no object. */
  primitive(value: unknown, path: () => readonly Step[]): Tree {
    switch (typeof value) {
      case "string":
        return this.#text(value, path);
      case "number":
        return numberTree(value);
      case "boolean":
        return value;
      case "undefined":
        return UNDEFINED;
      case "bigint":
        return tagged("bigint", String(value));
      case "function":
        throw this.refusal(value.name === "" ? "a function" : `a function (${value.name})`, path());
      case "symbol":
        throw this.refusal(`a symbol (${String(value.description)})`, path());
      default:
        return null;
    }
  }

  #text(value: string, path: () => readonly Step[]): Tree {
    this.#count(value.length, path);
    return value.length >= BLOB_MIN && isWellFormed(value)
      ? new BlobTree(this.#options.sink.put(value), value, undefined)
      : value;
  }

  /** Large byte arrays as a blob, small ones as text. */
  bytes(value: object, form: string, path: () => readonly Step[]): Tree {
    const view = bytesView(value);
    this.#count(view.byteLength, path);
    if (view.byteLength < BLOB_MIN) {
      return tagged("bytes", form, Buffer.from(view.buffer, view.byteOffset, view.byteLength).toString("base64"));
    }
    const copy = new Uint8Array(view);
    return new BlobTree(this.#options.sink.put(copy), copy, form);
  }

  /** The tag of a value of a registered type. Its data is a tree of its own: no links to the outside. */
  registered(type: ValueType, value: object, path: readonly Step[]): Tree {
    if (this.#open.has(value)) throw this.refusal(`a cycle through the registered type "${type.id}"`, path);
    this.#open.add(value);
    const nested = new Encoder({
      ...this.#options,
      maxValueChars: this.#options.maxValueChars - this.#chars,
    });
    for (const open of this.#open) nested.#open.add(open);
    nested.#path.push(...path);
    const data = nested.#whole(type.toData(value), path.length);
    this.#chars += nested.#chars;
    this.#open.delete(value);
    return tagged("type", type.id, type.version ?? 1, data);
  }

  #count(chars: number, path: () => readonly Step[]): void {
    this.#chars += chars;
    if (this.#chars > this.#options.maxValueChars) {
      const place = pathText(path());
      const message =
        `${this.#options.where()}: the value is larger than ${this.#options.maxValueChars} characters (passed at ` +
        `${place === "" ? "its root" : place}). Keep large data outside the state and a reference in it, or raise maxValueChars.`;
      throw new HoldfastError("VALUE_TOO_LARGE", message, {
        details: { path: place, max: this.#options.maxValueChars },
      });
    }
  }

  refusal(found: string, steps: readonly Step[]): HoldfastError {
    const path = pathText(steps);
    const message =
      `${this.#options.where()}: ${path === "" ? "the value" : path} is ${found}, which cannot be stored. ` +
      "Convert it to plain data before returning it, register its class as a value type, or keep live objects out of the state.";
    return new HoldfastError("UNSERIALIZABLE_VALUE", message, {
      details: { path, found },
    });
  }

  #tree(value: unknown, depth: number, limit: number): Tree {
    if (typeof value === "string") {
      if (value.length < BLOB_MIN) {
        this.#chars += value.length;
        return value;
      }
    } else if (typeof value === "object" && value !== null) {
      return this.#object(value, depth, limit);
    } else if (typeof value === "number" && value - value === 0 && (value !== 0 || 1 / value > 0)) {
      return value;
    }
    return this.primitive(value, () => this.#path.slice(0, depth));
  }

  #object(value: object, depth: number, limit: number): Tree {
    if (depth >= limit) throw TOO_DEEP;
    if (this.#chars > this.#options.maxValueChars) this.#count(0, () => this.#path.slice(0, depth));
    if (Array.isArray(value)) return this.#array(value, depth, limit);
    const proto = Object.getPrototypeOf(value) as object | null;
    if (proto === Object.prototype) return this.#plain(value, depth, limit);
    const kind = proto === null ? undefined : messageKind(proto, value);
    if (kind !== undefined) {
      const node = messageTree(kind, value, (item, field) => {
        this.#path[depth] = field;
        return this.#tree(item, depth + 1, limit);
      });
      if (node !== undefined) return node;
    }
    const path = () => this.#path.slice(0, depth);
    const chosen = this.choose(value, proto, path);
    if (chosen === "plain") return this.#plain(value, depth, limit);
    if (chosen === "bytes") return this.bytes(value, bytesForm(proto as object) as string, path);
    if ("id" in chosen) return this.registered(chosen, value, path());
    return this.#parts(chosen, value, depth, limit);
  }

  /** How an object that is neither array nor plain is kept. Throws where it cannot be. */
  choose(value: object, proto: object | null, path: () => readonly Step[]): "plain" | "bytes" | ValueType | ClassCodec {
    if (proto !== null && isForeignPlain(proto)) return "plain";
    if (proto !== null && bytesForm(proto) !== undefined) return "bytes";
    const type = this.registry.typeOf(value);
    if (type !== undefined) return type;
    const codec = this.registry.codecOf(value, proto);
    if (codec === undefined) throw this.refusal(instanceName(proto), path());
    if (codec.tag !== "error") this.checkSymbols(value, path);
    return codec;
  }

  checkSymbols(value: object, path: () => readonly Step[]): void {
    for (const symbol of Object.getOwnPropertySymbols(value)) {
      if (knownMarks.has(symbol) && Object.getPrototypeOf(value) !== Object.prototype) continue;
      throw this.refusal(`an object with a property keyed by a symbol (${String(symbol.description)})`, path());
    }
  }

  #parts(codec: ClassCodec, value: object, depth: number, limit: number): Tree {
    const parts = codec.parts(value);
    const trees: Tree[] = [codec.tag];
    for (let i = 0; i < parts.length; i++) {
      const part = parts[i];
      this.#path[depth] = { text: codec.place?.(parts, i) ?? `[${i}]` };
      trees.push(this.#tree(part, depth + 1, limit));
    }
    return { $: trees };
  }

  #array(value: readonly unknown[], depth: number, limit: number): Tree {
    if (isOddArray(value)) {
      this.checkArray(value, () => this.#path.slice(0, depth));
      return this.#parts(oddArray as ClassCodec, value as object, depth, limit);
    }
    const { length } = value;
    const trees = new Array<Tree>(length);
    this.#chars += length * 2;
    for (let i = 0; i < length; i++) {
      this.#path[depth] = i;
      trees[i] = this.#tree(value[i], depth + 1, limit);
    }
    return trees;
  }

  checkArray(value: object, path: () => readonly Step[]): void {
    const proto = Object.getPrototypeOf(value) as object | null;
    if (proto !== Array.prototype && !(proto !== null && Array.isArray(proto))) {
      throw this.refusal(instanceName(proto), path());
    }
    this.checkSymbols(value, path);
  }

  #plain(value: object, depth: number, limit: number): Tree {
    const trees: Record<string, Tree> = {};
    for (const key in value) {
      if (key === "$") return this.#escaped(value, depth, limit);
      this.#path[depth] = key;
      this.#chars += key.length + 4;
      const tree = this.#tree((value as Record<string, unknown>)[key], depth + 1, limit);
      if (key === "__proto__") setOwn(trees, key, tree);
      else trees[key] = tree;
    }
    if (Object.getOwnPropertySymbols(value).length > 0) this.checkSymbols(value, () => this.#path.slice(0, depth));
    return trees;
  }

  #escaped(value: object, depth: number, limit: number): Tree {
    this.checkSymbols(value, () => this.#path.slice(0, depth));
    return this.#parts(escapedObject, value, depth, limit);
  }
}

function isWellFormed(text: string): boolean {
  return (text as unknown as { isWellFormed(): boolean }).isWellFormed();
}

function instanceName(proto: object | null): string {
  const name: unknown = proto === null ? undefined : proto.constructor?.name;
  if (typeof name !== "string" || name === "") return "an instance of a class without a name";
  if (name === "Promise") return "a Promise (is an await missing?)";
  return `an instance of ${name}`;
}

function pathText(steps: readonly Step[]): string {
  let text = "";
  for (const step of steps) {
    if (typeof step === "number") text += `[${step}]`;
    else if (typeof step === "object") text += step.text;
    else text += /^[A-Za-z_$][\w$]*$/.test(step) ? `.${step}` : `[${JSON.stringify(step)}]`;
  }
  return text;
}
