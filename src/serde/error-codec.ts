/**
 * Errors. Kept: the standard class, every own property with its enumerability, `name` and stack. A class of the
 * user's comes back as the standard class it extends, with its name; register a type to get the class itself.
 */

import { types } from "node:util";
import type { ClassCodec } from "./class-codec.ts";
import { damaged, setOwn } from "./tree.ts";

type ErrorClass = { new (message?: string): Error; prototype: Error };

const bases: Record<string, ErrorClass> = {
  Error,
  TypeError,
  RangeError,
  SyntaxError,
  ReferenceError,
  EvalError,
  URIError,
  AggregateError: AggregateError as unknown as ErrorClass,
};

export function isError(value: object): value is Error {
  return types.isNativeError(value);
}

/** The standard class the error extends. By name, so that errors of another realm (vm, jest) are recognised too. */
function baseOf(error: Error): string {
  for (let proto: object | null = Object.getPrototypeOf(error); proto !== null; proto = Object.getPrototypeOf(proto)) {
    const name: unknown = Object.hasOwn(proto, "constructor") ? (proto.constructor as ErrorClass).name : undefined;
    if (typeof name === "string" && Object.hasOwn(bases, name)) return name;
  }
  return "Error";
}

/** What the error calls itself; where a class has set no name, the name of the class. */
function nameOf(error: Error, base: string): string {
  const name = String(error.name);
  const made = Object.getPrototypeOf(error)?.constructor?.name;
  return name === base && typeof made === "string" && made !== "" ? made : name;
}

export const errorCodec: ClassCodec<Error> = {
  tag: "error",
  parts: (error) => {
    const base = baseOf(error);
    const hidden: Record<string, unknown> = {};
    const shown: Record<string, unknown> = {};
    for (const key of Object.getOwnPropertyNames(error)) {
      const value = (error as unknown as Record<string, unknown>)[key];
      if (Object.prototype.propertyIsEnumerable.call(error, key)) setOwn(shown, key, value);
      // Node defines functions such as `toString` on its own errors, hidden; they come with the class.
      else if (typeof value !== "function") setOwn(hidden, key, value);
    }
    const name = nameOf(error, base);
    if (name !== base && !Object.hasOwn(error, "name")) hidden.name = name;
    const marks = Object.getOwnPropertySymbols(error).filter((symbol) => Symbol.keyFor(symbol) !== undefined);
    const parts: unknown[] = [base, hidden, shown];
    for (const mark of marks) {
      const enumerable = Object.prototype.propertyIsEnumerable.call(error, mark);
      parts.push(Symbol.keyFor(mark), (error as unknown as Record<symbol, unknown>)[mark], enumerable);
    }
    return parts;
  },
  create: ([base]) => {
    const known = typeof base === "string" && Object.hasOwn(bases, base) ? bases[base] : undefined;
    if (known === undefined) throw damaged(`an error of an unknown class ${JSON.stringify(base)}`);
    if (base === "AggregateError") return new AggregateError([]);
    return new known();
  },
  fill: (error, [, hidden, shown, ...marks]) => {
    // What the constructor sets is set again, in the order of the original.
    for (const key of Object.getOwnPropertyNames(error)) delete (error as unknown as Record<string, unknown>)[key];
    for (const [key, value] of Object.entries(Object(hidden))) setOwn(error, key, value, false);
    for (const [key, value] of Object.entries(Object(shown))) setOwn(error, key, value);
    for (let i = 0; i < marks.length; i += 3) {
      setOwn(error, Symbol.for(String(marks[i])), marks[i + 1], marks[i + 2] === true);
    }
  },
  place: (parts, i) => (i < 3 ? "" : `[Symbol.for(${JSON.stringify(parts[i - 1])})]`),
};

/** `AbortError`, `TimeoutError` and the like: message and name are no own properties, and `code` follows the name. */
export const domExceptionCodec: ClassCodec<DOMException> = {
  tag: "domexception",
  parts: (error) => [error.message, error.name, String(error.stack)],
  create: ([message, name, stack]) => {
    const error = new DOMException(String(message), String(name));
    setOwn(error, "stack", stack, false);
    return error;
  },
};
