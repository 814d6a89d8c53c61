/** Which codec keeps a value, and which one reads a tag. One per serde: it includes the user's own classes. */

import { HoldfastError } from "../errors.ts";
import { builtinCodecs, bareObject, shapeCodecs } from "./builtin-codecs.ts";
import type { ClassCodec } from "./class-codec.ts";
import { domExceptionCodec, errorCodec, isError } from "./error-codec.ts";
import { instanceCodec, isKnownInstance } from "./langchain-codec.ts";

/** A class of the application that state may hold. */
export interface ValueType<T = unknown> {
  /** Stored with each value; never reuse one for another class. */
  readonly id: string;
  /** Earlier ids under which values may be stored. */
  readonly aliases?: readonly string[];
  /** Of the data; 1 by default. Raise it when `toData` changes, and give `migrate`. */
  readonly version?: number;
  is(value: unknown): value is T;
  /** Data that itself can be stored. A pure function of the value: it is called to store and to compare. */
  toData(value: T): unknown;
  fromData(data: unknown): T;
  /** Data of an earlier version → data of this version. */
  migrate?(data: unknown, fromVersion: number): unknown;
}

export class Registry {
  readonly #types: readonly ValueType[];
  readonly #byId = new Map<string, ValueType>();
  readonly #byTag = new Map<string, ClassCodec>();

  constructor(types: readonly ValueType[]) {
    this.#types = types;
    for (const type of types) {
      for (const id of [type.id, ...(type.aliases ?? [])]) {
        if (typeof id !== "string" || id === "" || this.#byId.has(id)) {
          const message = `Value type id ${JSON.stringify(id)} is empty or used twice: every id and alias belongs to one type.`;
          throw new HoldfastError("INVALID_ARGUMENT", message, {
            details: { id },
          });
        }
        this.#byId.set(id, type);
      }
    }
    const codecs = [...builtinCodecs.values(), ...shapeCodecs, errorCodec, domExceptionCodec, instanceCodec];
    for (const codec of codecs) this.#byTag.set(codec.tag, codec as ClassCodec);
  }

  /** The user's type of a value that is neither plain data nor of a class below. */
  typeOf(value: object): ValueType | undefined {
    for (const type of this.#types) if (type.is(value)) return type;
    return undefined;
  }

  typeById(id: string): ValueType | undefined {
    return this.#byId.get(id);
  }

  get typeIds(): string[] {
    return [...this.#byId.keys()];
  }

  /** The codec of an object that is no array, plain object, byte array or registered type; undefined: cannot be kept. */
  codecOf(value: object, proto: object | null): ClassCodec | undefined {
    if (proto === null) return bareObject;
    const builtin = builtinCodecs.get(proto);
    if (builtin !== undefined) return builtin;
    if (isError(value)) return errorCodec as ClassCodec;
    if (proto === DOMException.prototype) return domExceptionCodec as ClassCodec;
    return isKnownInstance(value, proto) ? instanceCodec : undefined;
  }

  codecByTag(tag: string): ClassCodec | undefined {
    return this.#byTag.get(tag);
  }
}
