/** State values as plain JSON, for comparing and showing them. Equal values give equal JSON, and different ones different JSON. */

import { hash } from "node:crypto";
import { type BaseMessage, isBaseMessage } from "@langchain/core/messages";

export type Plain = null | boolean | number | string | readonly Plain[] | { readonly [key: string]: Plain };

/** Bytes longer than this are shown by their hash. */
const BYTES_SHOWN = 64;

/** What JSON has no form for is an object with the name of its class under `$`. */
export function plainOf(value: unknown): Plain {
  return plain(value, []);
}

const tagged = (name: string, value: Plain): Plain => ({ $: name, value });

function plain(value: unknown, around: readonly object[]): Plain {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0)
        ? value
        : tagged("number", Object.is(value, -0) ? "-0" : String(value));
    case "object":
      return value === null ? null : objectOf(value, around);
    case "undefined":
    case "bigint":
    case "symbol":
    case "function":
      return tagged(typeof value, value === undefined ? null : String(value));
    default: {
      const never: never = value as never;
      return never;
    }
  }
}

function objectOf(value: object, around: readonly object[]): Plain {
  if (around.includes(value)) return tagged("cycle", around.length - around.indexOf(value));
  const inside = [...around, value];
  const each = (item: unknown) => plain(item, inside);
  if (Array.isArray(value)) return Array.from(value as readonly unknown[], each);
  if (isBaseMessage(value)) return fields(messageFields(value), inside);
  if (value instanceof Date) return tagged("Date", Number.isNaN(value.getTime()) ? "invalid" : value.toISOString());
  if (value instanceof Map)
    return tagged(
      "Map",
      [...value].map(([key, item]) => [each(key), each(item)]),
    );
  if (value instanceof Set) return tagged("Set", [...value].map(each));
  if (value instanceof Error)
    return tagged(
      value.name,
      fields({ ...value, message: value.message, ...("cause" in value ? { cause: value.cause } : {}) }, inside),
    );
  if (value instanceof RegExp || value instanceof URL) return tagged(value.constructor.name, String(value));
  if (value instanceof ArrayBuffer) return bytesOf("ArrayBuffer", new Uint8Array(value));
  if (ArrayBuffer.isView(value))
    return bytesOf(value.constructor.name, new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
  const name = Object.getPrototypeOf(value)?.constructor?.name as string | undefined;
  const own = fields(value as Readonly<Record<string, unknown>>, inside);
  return name === undefined || name === "Object" ? own : tagged(name, own);
}

function fields(value: Readonly<Record<string, unknown>>, inside: readonly object[]): Plain {
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item, inside)]));
}

/** What a person sees of a message: its type, id and content first, and nothing that is empty. */
function messageFields(message: BaseMessage): Readonly<Record<string, unknown>> {
  const {
    lc_kwargs: _,
    lc_namespace: __,
    lc_serializable: ___,
    id,
    content,
    ...rest
  } = message as BaseMessage & Record<string, unknown>;
  const empty = (value: unknown) =>
    value === undefined || (typeof value === "object" && value !== null && Object.keys(value).length === 0);
  const shown = Object.entries(rest).filter(([key, value]) => key !== "type" && !empty(value));
  return { type: message.getType(), ...(id === undefined ? {} : { id }), content, ...Object.fromEntries(shown) };
}

function bytesOf(name: string, bytes: Uint8Array): Plain {
  const text =
    bytes.length <= BYTES_SHOWN
      ? Buffer.from(bytes).toString("base64")
      : `${bytes.length} bytes, SHA-256 ${hash("sha256", bytes, "hex")}`;
  return tagged(name, text);
}
