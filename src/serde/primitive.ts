/** Numbers that JSON cannot show, and what counts as plain data. */

import { damaged, type Tree, tagged } from "./tree.ts";

const odd: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Infinity,
  "-Infinity": -Infinity,
  "-0": -0,
};

export function numberTree(value: number): Tree {
  if (value - value === 0 && !Object.is(value, -0)) return value;
  return tagged("n", Object.is(value, -0) ? "-0" : String(value));
}

export function oddNumber(name: unknown): number {
  const value = typeof name === "string" && Object.hasOwn(odd, name) ? odd[name] : undefined;
  if (value === undefined) throw damaged(`a number named ${JSON.stringify(name)}`);
  return value;
}

/**
 * Whether `value` is an object literal's kind of object. For comparing only: it reads `constructor`, which costs a
 * third of `getPrototypeOf` and is fooled by objects that inherit from a plain object.
 */
export function isPlain(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  return value.constructor === Object || Object.getPrototypeOf(value) === Object.prototype;
}

/** The same for arrays: whether it is no instance of a subclass. */
export function isPlainArray(value: readonly unknown[]): boolean {
  return value.constructor === Array || Object.getPrototypeOf(value) === Array.prototype;
}

/** Whether `proto` is the `Object.prototype` of another realm (vm context, jest). */
export function isForeignPlain(proto: object): boolean {
  return (
    proto !== Object.prototype &&
    Object.getPrototypeOf(proto) === null &&
    Object.hasOwn(proto, "__lookupGetter__") &&
    Object.hasOwn(proto, "isPrototypeOf")
  );
}
