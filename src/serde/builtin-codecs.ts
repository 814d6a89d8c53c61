/** Codecs of JavaScript's own classes, and of objects and arrays that JSON cannot show as they are. */

import type { ClassCodec } from "./class-codec.ts";
import { damaged, setOwn } from "./tree.ts";

const quoted = (key: unknown): string => (typeof key === "object" && key !== null ? "…" : JSON.stringify(String(key)));

const date: ClassCodec<Date> = {
  tag: "date",
  parts: (value) => [value.getTime()],
  create: ([time]) => {
    if (typeof time !== "number") throw damaged("a date without a time");
    return new Date(time);
  },
};

const map: ClassCodec<Map<unknown, unknown>> = {
  tag: "map",
  parts: (value) => {
    const parts: unknown[] = [];
    for (const [key, item] of value) parts.push(key, item);
    return parts;
  },
  create: () => new Map(),
  fill: (value, parts) => {
    if (parts.length % 2 !== 0) throw damaged("a map with a key and no value");
    for (let i = 0; i < parts.length; i += 2) value.set(parts[i], parts[i + 1]);
  },
  place: (parts, i) => (i % 2 === 0 ? `.keys()[${i / 2}]` : `.get(${quoted(parts[i - 1])})`),
};

const set: ClassCodec<Set<unknown>> = {
  tag: "set",
  parts: (value) => [...value],
  create: () => new Set(),
  fill: (value, parts) => {
    for (const part of parts) value.add(part);
  },
  place: (_parts, i) => `.values()[${i}]`,
};

const regexp: ClassCodec<RegExp> = {
  tag: "regexp",
  parts: (value) => [value.source, value.flags, value.lastIndex],
  create: ([source, flags, lastIndex]) => {
    const value = new RegExp(String(source), String(flags));
    value.lastIndex = Number(lastIndex);
    return value;
  },
};

const url: ClassCodec<URL> = {
  tag: "url",
  parts: (value) => [value.href],
  create: ([href]) => new URL(String(href)),
};

/** Reads own enumerable properties as key, value, key, value, … */
function entries(value: object): unknown[] {
  const parts: unknown[] = [];
  for (const key of Object.keys(value)) parts.push(key, (value as Record<string, unknown>)[key]);
  return parts;
}

function fillEntries(value: object, parts: readonly unknown[], from = 0): void {
  for (let i = from; i < parts.length; i += 2) {
    const key = parts[i];
    if (typeof key !== "string") throw damaged("an object whose key is no string");
    setOwn(value, key, parts[i + 1]);
  }
}

/** A plain object with a key "$", which would be taken for a tag. */
export const escapedObject: ClassCodec = {
  tag: "o",
  parts: entries,
  create: () => ({}),
  fill: fillEntries,
  place: (parts, i) => `[${quoted(parts[i - 1])}]`,
};

/** An object without a prototype. */
export const bareObject: ClassCodec = {
  tag: "null",
  parts: entries,
  create: () => Object.create(null) as object,
  fill: fillEntries,
  place: escapedObject.place as NonNullable<ClassCodec["place"]>,
};

/** An array with holes, or with named properties (the result of `RegExp.exec`). */
export const oddArray: ClassCodec<unknown[]> = {
  tag: "array",
  parts: (value) => [value.length, ...entries(value)],
  create: ([length]) => {
    if (typeof length !== "number") throw damaged("an array without a length");
    return new Array<unknown>(length);
  },
  fill: (value, parts) => fillEntries(value, parts, 1),
  place: (parts, i) => `[${quoted(parts[i - 1])}]`,
};

/** Whether an array has holes, named properties, or another class. */
export function isOddArray(value: readonly unknown[]): boolean {
  if (Object.getPrototypeOf(value) !== Array.prototype) return true;
  const keys = Object.keys(value);
  const { length } = value;
  return keys.length !== length || (length > 0 && keys[length - 1] !== String(length - 1));
}

/** Codecs found by an exact prototype. */
export const builtinCodecs = new Map<object, ClassCodec>([
  [Date.prototype, date],
  [Map.prototype, map as ClassCodec],
  [Set.prototype, set as ClassCodec],
  [RegExp.prototype, regexp as ClassCodec],
  [URL.prototype, url],
]);

/** Codecs by tag that are chosen by shape and not by prototype. */
export const shapeCodecs: readonly ClassCodec[] = [escapedObject, bareObject, oddArray as ClassCodec];
