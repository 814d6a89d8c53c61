/** Numbers that JSON cannot show, and objects of another realm. */

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

/** Whether `proto` is the `Object.prototype` of another realm (vm context, jest). */
export function isForeignPlain(proto: object): boolean {
  return (
    proto !== Object.prototype &&
    Object.getPrototypeOf(proto) === null &&
    Object.hasOwn(proto, "__lookupGetter__") &&
    Object.hasOwn(proto, "isPrototypeOf")
  );
}
