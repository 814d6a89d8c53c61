import { Document } from "@langchain/core/documents";
import { AIMessage, HumanMessage, SystemMessage, ToolMessage, isBaseMessage } from "@langchain/core/messages";
import { Command, Overwrite, Send } from "@langchain/langgraph";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { payload } from "../src/serde.ts";
import { long, Shelf, toolCall } from "./serde-shelf.ts";

/** Changes one place of a value; `place` says which, for the failure's message. */
interface Edit {
  readonly place: string;
  readonly apply: () => void;
}

type Fields = Record<PropertyKey, unknown>;

/** Another value than this one, of a kind that serde keeps. */
const other = (value: unknown): unknown => (value === "edited" ? "edited again" : "edited");

function* arrayEdits(value: unknown[], place: string): Generator<Edit> {
  for (let i = 0; i < value.length; i++) {
    yield { place: `${place}[${i}] =`, apply: () => void value.fill(other(value[i]), i, i + 1) };
    // A hole reads as undefined and is not: the value has no such key.
    if (i in value) yield { place: `delete ${place}[${i}]`, apply: () => void delete value[i] };
    yield* edits(value[i], `${place}[${i}]`);
  }
  yield { place: `${place}.push`, apply: () => void value.push(undefined) };
  if (value.length > 0) yield { place: `${place}.pop`, apply: () => void value.pop() };
}

function* fieldEdits(value: object, place: string, skip: readonly string[] = []): Generator<Edit> {
  const fields = value as Fields;
  const set = (key: string, item: unknown) =>
    Object.defineProperty(fields, key, { value: item, enumerable: true, writable: true, configurable: true });
  for (const key of Object.keys(value)) {
    if (skip.includes(key)) continue;
    yield { place: `${place}.${key} =`, apply: () => void set(key, other(fields[key])) };
    yield { place: `delete ${place}.${key}`, apply: () => void delete fields[key] };
    yield* edits(fields[key], `${place}.${key}`);
  }
  yield { place: `${place}.added`, apply: () => void set("added field", undefined) };
}

function* mapEdits(value: Map<unknown, unknown>, place: string): Generator<Edit> {
  for (const [key, item] of value) {
    yield { place: `${place}.set`, apply: () => void value.set(key, other(item)) };
    yield { place: `${place}.delete`, apply: () => void value.delete(key) };
    yield* edits(item, `${place}.get()`);
    yield* edits(key, `${place}.key`);
  }
  yield { place: `${place}.set new`, apply: () => void value.set(Symbol.for("x").toString() + value.size, 1) };
}

/** Every place of a value at which it can be edited without being replaced. */
function* edits(value: unknown, place = ""): Generator<Edit> {
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) yield* arrayEdits(value, place);
  else if (value instanceof Map) yield* mapEdits(value, place);
  else if (value instanceof Set) {
    yield { place: `${place}.add`, apply: () => void value.add(`new ${value.size}`) };
    for (const item of value) yield* edits(item, `${place}.item`);
  } else if (value instanceof Date) {
    yield {
      place: `${place}.setTime`,
      apply: () => void value.setTime(Number.isNaN(value.getTime()) ? 0 : value.getTime() / 2 + 1),
    };
  } else if (value instanceof URL) {
    yield { place: `${place}.hash`, apply: () => void Object.assign(value, { hash: "edited" }) };
  } else if (value instanceof RegExp) {
    yield { place: `${place}.lastIndex`, apply: () => void value.lastIndex++ };
  } else if (ArrayBuffer.isView(value)) {
    const bytes = new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    const last = bytes.at(-1);
    if (last !== undefined) yield { place: `${place} byte`, apply: () => void bytes.fill(last ^ 1, -1) };
  } else if (value instanceof Error) {
    yield { place: `${place}.message`, apply: () => void Object.assign(value, { message: `${value.message}!` }) };
    yield { place: `${place}.cause`, apply: () => void Object.assign(value, { cause: other(value.cause) }) };
    yield* edits(value.cause, `${place}.cause`);
    yield* fieldEdits(value, place);
  } else if (isBaseMessage(value)) {
    // These repeat what stands in the message itself and in its class.
    yield* fieldEdits(value, place, ["lc_kwargs", "lc_namespace"]);
  } else yield* fieldEdits(value, place);
}

const rich = () => ({
  text: "short",
  long,
  number: 1,
  zero: 0,
  nothing: [null, undefined, Number.NaN, 10n, true],
  dates: new Map<unknown, unknown>([
    ["a", new Date(5)],
    [{ key: 1 }, new Set([{ in: "set" }])],
  ]),
  bytes: [Buffer.from("small"), new Uint8Array(300), new Float64Array([1.5])],
  $: { $: ["date", 1] },
  bare: Object.assign(Object.create(null) as object, { a: { b: 1 } }),
  // biome-ignore lint/suspicious/noSparseArray: holes are the point.
  holes: [1, , { a: 1 }],
  errors: [Object.assign(new TypeError("x", { cause: { deep: [1] } }), { code: "E", info: { a: 1 } })],
  pattern: /a/g,
  link: new URL("https://example.org/"),
  messages: [
    new HumanMessage("plain"),
    new HumanMessage({ content: long, id: "1", name: "bob" }),
    new HumanMessage({ content: [{ type: "text", text: "block" }], additional_kwargs: { a: [{ b: 1 }] } }),
    new AIMessage({
      content: "",
      tool_calls: [structuredClone(toolCall)],
      usage_metadata: { input_tokens: 1, output_tokens: 2, total_tokens: 3, input_token_details: { cache_read: 1 } },
      response_metadata: { model: "m" },
    } as never),
    new AIMessage({ content: "v1", response_metadata: { output_version: "v1" } }),
    new ToolMessage({ content: "42", tool_call_id: "1", artifact: new Map([["a", { b: 1 }]]), status: "success" }),
    new SystemMessage("be brief"),
  ],
  document: new Document({ pageContent: "page", metadata: { a: [1] } }),
  send: new Send("node", { a: { b: 1 } }),
  command: new Command({ update: { a: [1] }, goto: "n" }),
  overwrite: new Overwrite([{ a: 1 }]),
});

describe("edits in place", () => {
  const make = rich;
  const count = [...edits(make())].length;

  test("every edit of every place of a value is noticed", () => {
    expect(count).toBeGreaterThan(400);
    for (let i = 0; i < count; i++) {
      const shelf = new Shelf();
      const value = make();
      const tree = shelf.tree(value);
      const stored = shelf.serde.resolve(shelf.serde.parse(payload(shelf.text(value))), shelf.blobs);
      const edit = [...edits(value)][i] as Edit;
      expect(shelf.serde.matches(tree, value), edit.place).toBe(true);
      edit.apply();
      expect(shelf.serde.matches(tree, value), edit.place).toBe(false);
      expect(shelf.serde.matches(stored, value), edit.place).toBe(false);
    }
  });

  test("no edit of a value reaches the tree made from it, nor another value read from it", () => {
    const shelf = new Shelf();
    const value = make();
    const tree = shelf.tree(value);
    const text = shelf.serde.stringify(tree);
    const where = () => "x";
    const first = shelf.serde.fromTree(tree, shelf.blobs, where);
    const fresh = make();
    for (const target of [value, first]) {
      // An edit may remove the place of a later one from the value; it is applied all the same.
      for (const edit of [...edits(target)]) {
        try {
          edit.apply();
        } catch (error) {
          expect(error).toBeInstanceOf(TypeError);
        }
      }
    }
    expect(shelf.serde.stringify(tree)).toBe(text);
    const again = shelf.serde.fromTree(tree, shelf.blobs, where) as ReturnType<typeof rich>;
    // Equality of errors looks at class, name, message, cause and fields; the stack is another line of this file.
    expect(again).toStrictEqual(fresh);
  });
});

// Without "constructor": the test runner's equality takes such a key for the class of the object.
const key = fc
  .oneof(fc.constantFrom("$", "__proto__", "toJSON", "toString", "a", "0"), fc.string({ unit: "binary" }))
  .filter((name) => name !== "constructor");
const anything = fc.anything({
  key,
  maxDepth: 4,
  withBigInt: true,
  withDate: true,
  withMap: true,
  withSet: true,
  withTypedArray: true,
  withSparseArray: true,
  withNullPrototype: true,
  stringUnit: "binary",
});

describe("any value", () => {
  test("comes back equal, and matches its tree and that of its text", () => {
    fc.assert(
      fc.property(anything, (value) => {
        const shelf = new Shelf();
        const tree = shelf.tree(value);
        const text = shelf.text(value);
        const back = shelf.read(text);
        expect(back).toStrictEqual(value);
        const stored = shelf.serde.resolve(shelf.serde.parse(payload(text)), shelf.blobs);
        for (const shadow of [tree, stored]) {
          expect(shelf.serde.matches(shadow, value)).toBe(true);
          expect(shelf.serde.matches(shadow, back)).toBe(true);
        }
        expect(new Shelf().text(back)).toBe(new Shelf().text(value));
      }),
      { numRuns: 2000 },
    );
  });

  test("matches says what the texts say", () => {
    fc.assert(
      fc.property(anything, anything, (a, b) => {
        const same = new Shelf().text(a) === new Shelf().text(b);
        expect(new Shelf().serde.matches(new Shelf().tree(a), b)).toBe(same);
      }),
      { numRuns: 3000 },
    );
  });

  test("an edit anywhere in it that changes its text is noticed", () => {
    fc.assert(
      fc.property(anything, fc.nat(), (value, n) => {
        const shelf = new Shelf();
        const all = [...edits(value)];
        const edit = all[n % Math.max(all.length, 1)];
        if (edit === undefined) return;
        const tree = shelf.tree(value);
        const before = new Shelf().text(value);
        edit.apply();
        const changed = new Shelf().text(value) !== before;
        expect(shelf.serde.matches(tree, value), edit.place).toBe(!changed);
      }),
      { numRuns: 3000 },
    );
  });
});

const content = fc.oneof(
  fc.string(),
  fc.constant(long),
  fc.array(fc.record({ type: fc.constant("text" as const), text: fc.string() }), { maxLength: 3 }),
);
const kwargs = fc.option(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 }), { nil: undefined });
const common = {
  content,
  id: fc.option(fc.string(), { nil: undefined }),
  name: fc.option(fc.string(), { nil: undefined }),
  additional_kwargs: kwargs,
};
const calls = fc.array(
  fc.record({ name: fc.string(), id: fc.string(), args: fc.dictionary(fc.string(), fc.jsonValue()) }),
  { maxLength: 2 },
);
const options = { requiredKeys: ["content"] as ["content"] };
const message = fc.oneof(
  fc.record(common, options).map((fields) => new HumanMessage(fields as never)),
  fc.record({ ...common, tool_calls: calls }, options).map((fields) => new AIMessage(fields as never)),
  fc
    .record({ ...common, status: fc.constantFrom("success", "error"), artifact: anything }, options)
    .map((fields) => new ToolMessage({ ...fields, tool_call_id: "call" } as never)),
);

describe("any message", () => {
  test("comes back equal, and every edit of it is noticed", () => {
    fc.assert(
      fc.property(message, fc.nat(), (value, n) => {
        const shelf = new Shelf();
        const tree = shelf.tree(value);
        const back = shelf.read(shelf.text(value)) as typeof value;
        expect(back).toStrictEqual(value);
        expect(Object.keys(back.lc_kwargs)).toEqual(Object.keys(value.lc_kwargs));
        expect(shelf.serde.matches(tree, back)).toBe(true);
        // A message that has been looked at is looked at again in fewer steps, and those must notice as much.
        const seen = shelf.tree(value);
        for (let i = 0; i < 2; i++) expect(shelf.serde.samePrefix([seen], [back], 1)).toBe(1);
        const all = [...edits(back)];
        const edit = all[n % all.length] as Edit;
        const before = new Shelf().text(back);
        edit.apply();
        const same = new Shelf().text(back) === before;
        expect(shelf.serde.matches(tree, back), edit.place).toBe(same);
        expect(shelf.serde.samePrefix([seen], [back], 1), edit.place).toBe(same ? 1 : 0);
      }),
      { numRuns: 3000 },
    );
  });
});
