/**
 * Any value of a thread as plain JSON, to be shown. What JSON does not have is shown as text, and nothing is refused: the
 * stored value is what a decision is about, this is its picture.
 *
 * Dates: ISO 8601 · bigint, NaN, Infinity: their text · Map: an object where all keys are texts, else pairs · Set: an
 * array · bytes: base64 · messages of LangChain: LangGraph's wire form, `{ type, content, … }` · errors: name and message,
 * never the stack · what refers to itself, or is deeper than 200: a remark in its place.
 */

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

const DEEPEST = 200;

export function plainJson(value: unknown): Json {
  return picture(value, []);
}

function picture(value: unknown, around: readonly object[]): Json {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) ? value : String(value);
    case "bigint":
      return String(value);
    case "object":
      return value === null ? null : ofObject(value, around);
    default:
      return null;
  }
}

function ofObject(value: object, around: readonly object[]): Json {
  if (around.includes(value)) return "(refers to itself)";
  if (around.length >= DEEPEST) return "(too deep to be shown)";
  const inside = [...around, value];
  const each = (items: Iterable<unknown>): Json[] => [...items].map((item) => picture(item, inside));
  if (Array.isArray(value)) return each(value);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "(invalid date)" : value.toISOString();
  if (value instanceof Set) return each(value);
  if (value instanceof Map) {
    const named = [...value.keys()].every((key) => typeof key === "string");
    return named ? ofEntries(value.entries(), inside) : each(value.entries());
  }
  if (ArrayBuffer.isView(value)) return base64(value.buffer, value.byteOffset, value.byteLength);
  if (value instanceof ArrayBuffer) return base64(value, 0, value.byteLength);
  if (value instanceof Error) return { name: value.name, message: value.message };
  if (value instanceof RegExp || value instanceof URL) return String(value);
  return ofEntries(Object.entries(messageForm(value) ?? value), inside);
}

function ofEntries(entries: Iterable<readonly [string, unknown]>, inside: readonly object[]): Json {
  const shown: [string, Json][] = [];
  for (const [key, value] of entries) if (value !== undefined) shown.push([key, picture(value, inside)]);
  return Object.fromEntries(shown);
}

/** What LangGraph's servers send for a message: its data and its type, side by side. */
function messageForm(value: object): object | undefined {
  const { toDict } = value as { toDict?: unknown };
  if (typeof toDict !== "function") return undefined;
  const form = toDict.call(value) as { type?: unknown; data?: unknown } | undefined;
  return typeof form?.data === "object" ? { ...form.data, type: form.type } : undefined;
}

const base64 = (buffer: ArrayBufferLike, start: number, length: number): string =>
  Buffer.from(buffer as ArrayBuffer, start, length).toString("base64");
