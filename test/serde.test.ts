import { createRequire } from "node:module";
import { runInNewContext } from "node:vm";
import { Document } from "@langchain/core/documents";
import * as messages from "@langchain/core/messages";
import { Command, Overwrite, Send } from "@langchain/langgraph";
import { DeltaSnapshot } from "@langchain/langgraph-checkpoint";
import { describe, expect, test } from "vitest";
import type { HoldfastError } from "../src/errors.ts";
import { encoded, MessageTree, payload, Serde, type Tree } from "../src/serde.ts";
import { long, Shelf, toolCall, where } from "./serde-shelf.ts";

const { AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage } = messages;
const shelf = new Shelf();
const roundTrip = (value: unknown) => shelf.read(shelf.text(value));
class PaymentError extends RangeError {
  readonly amount: number;
  constructor(message: string, amount: number) {
    super(message, { cause: { reason: "limit" } });
    this.name = "PaymentError";
    this.amount = amount;
  }
}

const cycle = () => {
  const value: Record<string, unknown> = { list: [1, "two"], big: long };
  value.self = value;
  value.map = new Map<unknown, unknown>([[value, new Set([value])]]);
  value.error = Object.assign(new Error("inside"), { owner: value });
  value.message = new HumanMessage({ content: "in a cycle", additional_kwargs: { owner: value } });
  return value;
};

const withUpdatedId = () => {
  const message = new HumanMessage("id comes later");
  message.id = "later";
  (message.lc_kwargs as Record<string, unknown>).id = "later";
  return message;
};

const table: Record<string, () => unknown> = {
  null: () => null,
  undefined: () => undefined,
  booleans: () => [true, false],
  numbers: () => [0, 1.5, 1e300, -7, Number.MIN_VALUE, Number.MAX_SAFE_INTEGER],
  "negative zero": () => -0,
  NaN: () => Number.NaN,
  infinities: () => [Infinity, -Infinity],
  "a bigint": () => [0n, -12345678901234567890n],
  "an empty string": () => "",
  "a string with NUL and quotes": () => '\u0000"\\\n\u2028',
  "lone surrogates": () => ["\ud800", "a\udfff"],
  "a long string of lone surrogates": () => "\ud800".repeat(400),
  "a long string": () => long,
  "nested plain data": () => ({ a: [{ b: { c: [null, { d: "e" }] } }], f: long }),
  "empty containers": () => [{}, [], [[]], [{}], new Map(), new Set()],
  "undefined in arrays and objects": () => ({ a: undefined, b: [undefined, 1, undefined] }),
  // biome-ignore lint/suspicious/noSparseArray: holes are the point.
  holes: () => [1, , 3, undefined, ,],
  "the result of a regular expression": () => /(?<first>b)(c)?/.exec("abc"),
  "integer keys": () => ({ 2: "two", 1: "one", b: "b" }),
  "a null prototype": () => Object.assign(Object.create(null), { a: 1, $: 2 }),
  "an own __proto__": () => JSON.parse('{"__proto__":{"polluted":true},"a":{"__proto__":1}}'),
  "keys of Object.prototype": () => ({ constructor: 1, toString: "x", hasOwnProperty: null, valueOf: [] }),
  "a toJSON that is data": () => JSON.parse('{"toJSON":1,"then":"x"}'),
  "a date": () => new Date("2024-02-29T12:00:00.123Z"),
  "an invalid date": () => new Date(Number.NaN),
  "a map": () =>
    new Map<unknown, unknown>([
      ["a", 1],
      [{ key: true }, new Map([[1, -0]])],
      [Number.NaN, undefined],
    ]),
  "a set": () => new Set<unknown>([1, "1", { a: 1 }, undefined, long]),
  "a regular expression": () => /a(b)\/c/giu,
  "an URL": () => new URL("https://user:pw@example.org:8080/p/a?q=1#h"),
  "a buffer": () => Buffer.from("hällo"),
  "a large buffer": () => Buffer.alloc(1000, 7),
  "a Uint8Array": () => new Uint8Array([1, 2, 255]),
  "a large Uint8Array": () => new Uint8Array(300).fill(9),
  "a view of a part": () => new Uint16Array(new Uint16Array([1, 2, 3, 4]).buffer, 2, 2),
  "typed arrays": () => [
    new Int8Array([-1]),
    new Uint8ClampedArray([300]),
    new Int16Array([-300]),
    new Uint32Array([2 ** 32 - 1]),
    new Int32Array([-5]),
    new Float32Array([1.5, Number.NaN]),
    new Float64Array([-0, Infinity]),
    new BigInt64Array([-1n]),
    new BigUint64Array([2n ** 64n - 1n]),
  ],
  "a DataView": () => new DataView(new Uint8Array([1, 2, 3]).buffer, 1),
  "array buffers": () => [new ArrayBuffer(3), new Uint8Array(400).fill(3).buffer],
  "an error": () => new Error("plain"),
  "standard errors": () => [new TypeError("t"), new RangeError("r"), new SyntaxError("s"), new URIError("u")],
  "an aggregate error": () => new AggregateError([new Error("one"), "two"], "both"),
  "an error with a cause and a code": () =>
    Object.assign(new Error("outer", { cause: new TypeError("inner") }), { code: "E_X", status: 500, list: [1] }),
  "a renamed error": () => Object.assign(new Error("x"), { name: "Renamed" }),
  "an error without a stack": () => Object.defineProperty(new Error("x"), "stack", { value: undefined }),
  "a DOMException": () => new DOMException("stopped", "AbortError"),
  "a human message": () => new HumanMessage("hi"),
  "a message with an id": () => new HumanMessage({ content: long, id: "m1", name: "bob" }),
  "a message whose id was added": withUpdatedId,
  "an AI message": () => new AIMessage("hello"),
  "an AI message with everything": () =>
    new AIMessage({
      content: [{ type: "text" as const, text: long }],
      id: "m2",
      tool_calls: [toolCall],
      invalid_tool_calls: [{ name: "x", args: "{", error: "bad", type: "invalid_tool_call" }],
      usage_metadata: { input_tokens: 1, output_tokens: 2, total_tokens: 3 },
      additional_kwargs: { a: [1] },
      response_metadata: { model: "m", at: new Date(1) },
    } as never),
  "an AI message with v1 content": () =>
    new AIMessage({ content: "text", response_metadata: { output_version: "v1" }, tool_calls: [toolCall] }),
  "an AI message made of content blocks": () => new AIMessage({ contentBlocks: [{ type: "text", text: "block" }] }),
  "an AI message with raw tool calls": () =>
    new AIMessage({
      content: "",
      tool_calls: [toolCall],
      additional_kwargs: {
        tool_calls: [{ id: "call-1", type: "function", function: { name: "search", arguments: "{}" } }],
      },
    }),
  "a system message": () => new SystemMessage({ content: "be brief", id: "s" }),
  "tool messages": () => [
    new ToolMessage({ content: "42", tool_call_id: "call-1", name: "search", status: "success" }),
    new ToolMessage({ content: "", tool_call_id: "c", status: "error", artifact: new Map([[1, long]]), metadata: {} }),
    new ToolMessage("text", "call-2", "named"),
  ],
  "function and chat messages": () => [
    new messages.FunctionMessage({ content: "f", name: "fn" }),
    new messages.ChatMessage("c", "critic"),
  ],
  "a removal": () => new messages.RemoveMessage({ id: "m1" }),
  "message chunks": () => [
    new messages.HumanMessageChunk("h"),
    new messages.SystemMessageChunk("s"),
    new messages.ToolMessageChunk({ content: "t", tool_call_id: "c" }),
    new messages.FunctionMessageChunk({ content: "f", name: "n" }),
    new messages.ChatMessageChunk("c", "role"),
    new AIMessageChunk("a"),
  ],
  "an AI chunk with tool call chunks": () =>
    new AIMessageChunk({
      content: "",
      tool_call_chunks: [{ name: "search", args: '{"q":', id: "1", index: 0, type: "tool_call_chunk" }],
    }),
  "a message with an added field": () => Object.assign(new HumanMessage("x"), { note: { a: 1 } }),
  "a message whose content was replaced": () => Object.assign(new AIMessage("old"), { content: "new" }),
  "a message with an unknown constructor field": () => new HumanMessage({ content: "x", custom: [1] } as never),
  "a document": () => new Document({ pageContent: "text", metadata: { page: 1 }, id: "d" }),
  "a send": () => new Send("node", { item: new Date(2) }, { timeout: 500 }),
  "a command": () => new Command({ update: { a: 1 }, goto: ["n", new Send("m", [1])], resume: undefined }),
  "an overwrite": () => new Overwrite([new HumanMessage("only")]),
  "a delta snapshot": () => new DeltaSnapshot([1, 2]),
};

describe("what goes in comes out", () => {
  test.each(Object.entries(table))("%s", (_name, make) => {
    const value = make();
    const tree = shelf.tree(value);
    const text = encoded(shelf.serde.stringify(tree));
    const back = shelf.read(text);
    expect(back).toStrictEqual(value);
    expect(Object.getPrototypeOf(Object(back))).toBe(Object.getPrototypeOf(Object(value)));
    // Also what equality does not see (order of keys, hidden properties) is the same.
    expect(new Shelf().text(back)).toBe(new Shelf().text(value));
    // The shadow, fresh or read, agrees with the value and with what came back.
    const stored = shelf.serde.resolve(shelf.serde.parse(payload(text)), shelf.blobs);
    for (const shadow of [tree, stored]) {
      expect(shelf.serde.matches(shadow, value)).toBe(true);
      expect(shelf.serde.matches(shadow, back)).toBe(true);
    }
    expect(shelf.serde.fromTree(tree, new Map(), where)).toStrictEqual(value);
  });

  test("messages answer toJSON, toDict and JSON.stringify as the original does", () => {
    const all = Object.values(table).flatMap((make) => make());
    const found = all.filter((value) => messages.BaseMessage.isInstance(value)) as messages.BaseMessage[];
    expect(found.length).toBeGreaterThan(20);
    for (const message of found) {
      const back = roundTrip(message) as messages.BaseMessage;
      expect(back).toBeInstanceOf(message.constructor);
      expect(Reflect.ownKeys(back)).toEqual(Reflect.ownKeys(message));
      expect(Object.keys(back.lc_kwargs)).toEqual(Object.keys(message.lc_kwargs));
      expect(JSON.stringify(back)).toBe(JSON.stringify(message));
      expect(back.toDict()).toStrictEqual(message.toDict());
      expect(back.contentBlocks).toStrictEqual(message.contentBlocks);
    }
  });

  test("a revived message shares the values of its fields with lc_kwargs, as a new one does", () => {
    const back = roundTrip(new AIMessage({ content: "", tool_calls: [toolCall] })) as messages.AIMessage;
    expect(back.lc_kwargs.tool_calls).toBe(back.tool_calls);
    expect(back.lc_kwargs.additional_kwargs).toBe(back.additional_kwargs);
  });

  test("a regular expression keeps its lastIndex and a send its class", () => {
    const expression = /a/g;
    expression.lastIndex = 3;
    expect((roundTrip(expression) as RegExp).lastIndex).toBe(3);
    expect(roundTrip([new Send("a", 1)])).toEqual([expect.any(Send)]);
  });

  test("an error of the user's class keeps name, message, stack, cause and fields", () => {
    const error = new PaymentError("too much", 12);
    const back = roundTrip(error) as PaymentError;
    expect(back).toBeInstanceOf(RangeError);
    expect({ ...back }).toEqual({ amount: 12, name: "PaymentError" });
    expect([back.name, back.message, back.stack, back.cause]).toEqual([
      "PaymentError",
      "too much",
      error.stack,
      { reason: "limit" },
    ]);
    class Unnamed extends Error {}
    expect((roundTrip(new Unnamed("x")) as Error).name).toBe("Unnamed");
  });

  test("an error keeps marks of registered symbols, so holdfast errors are still recognised", () => {
    const mark = Symbol.for("test.mark");
    const back = roundTrip(Object.assign(new Error("x"), { [mark]: true })) as Record<symbol, unknown>;
    expect(back[mark]).toBe(true);
  });

  test("values of another realm come back as ours", () => {
    const foreign = runInNewContext('({ a: [1, { b: 2 }], e: new TypeError("x") })') as Record<string, unknown>;
    const back = roundTrip(foreign) as Record<string, unknown>;
    expect(back).toStrictEqual({ a: [1, { b: 2 }], e: expect.any(TypeError) });
    expect(shelf.serde.matches(shelf.tree(foreign), foreign)).toBe(true);
  });

  test("instances made by the CommonJS copy of LangChain are kept as instances", () => {
    const require = createRequire(import.meta.url);
    const other = require("@langchain/core/messages") as typeof messages;
    const graph = require("@langchain/langgraph") as { Send: typeof Send };
    const documents = require("@langchain/core/documents") as { Document: typeof Document };
    expect(other.AIMessage).not.toBe(AIMessage);
    const value = [
      new other.AIMessage({ content: long, id: "1", tool_calls: [toolCall] }),
      new other.ToolMessage({ content: "x", tool_call_id: "1" }),
      Object.assign(new other.HumanMessage("odd"), { extra: 1 }),
      new graph.Send("n", 1),
      new documents.Document({ pageContent: "p" }),
    ];
    const tree = shelf.tree(value);
    expect((tree as Tree[])[0]).toBeInstanceOf(MessageTree);
    expect(shelf.serde.matches(tree, value)).toBe(true);
    const back = roundTrip(value) as object[];
    expect(back.map((item) => item.constructor)).toEqual([AIMessage, ToolMessage, HumanMessage, Send, Document]);
    (value[0] as messages.AIMessage).content = "edited";
    expect(shelf.serde.matches(tree, value)).toBe(false);
  });
});

describe("cyclic and deep values", () => {
  test("cycles through objects, maps, sets, errors and messages keep their identity", () => {
    const value = cycle();
    const tree = shelf.tree(value);
    const back = shelf.read(shelf.text(value)) as ReturnType<typeof cycle>;
    expect(back.self).toBe(back);
    expect([...(back.map as Map<unknown, Set<unknown>>)]).toEqual([[back, new Set([back])]]);
    expect((back.error as { owner: unknown }).owner).toBe(back);
    const message = back.message as messages.HumanMessage;
    expect(message).toBeInstanceOf(HumanMessage);
    expect(message.additional_kwargs.owner).toBe(back);
    expect(message.lc_kwargs.additional_kwargs).toBe(message.additional_kwargs);
    expect(back.big).toBe(long);
    expect(shelf.serde.matches(tree, value)).toBe(true);
    expect(shelf.serde.matches(tree, back)).toBe(true);
    (value.list as unknown[]).push(3);
    expect(shelf.serde.matches(tree, value)).toBe(false);
  });

  test("a list of 100,000 links comes back", () => {
    let value: { next: unknown; n: number } | null = null;
    for (let n = 0; n < 100_000; n++) value = { next: value, n };
    const tree = shelf.tree(value);
    let count = 0;
    for (let at = roundTrip(value) as typeof value; at !== null; at = at.next as typeof value) count++;
    expect(count).toBe(100_000);
    expect(shelf.serde.matches(tree, value)).toBe(true);
  });

  test.each([98, 99, 100, 101, 102, 200])("a value %i levels deep comes back", (depth) => {
    let value: unknown = "leaf";
    for (let i = 0; i < depth; i++) value = i % 3 === 0 ? [value] : i % 3 === 1 ? { value } : new Map([["m", value]]);
    expect(roundTrip(value)).toStrictEqual(value);
    expect(shelf.serde.matches(shelf.tree(value), value)).toBe(true);
  });

  test("a deep value that becomes flat, or the other way round, is noticed", () => {
    const value: { inner?: unknown } = cycle();
    const tree = shelf.tree({ value });
    expect(shelf.serde.matches(tree, { value: 1 })).toBe(false);
    expect(shelf.serde.matches(shelf.tree({ value: 1 }), { value })).toBe(false);
    expect(shelf.serde.matches(tree, {})).toBe(false);
    expect(shelf.serde.matches(tree, [])).toBe(false);
    expect(shelf.serde.matches(tree, new Map())).toBe(false);
  });
});

describe("what cannot be kept is refused with its place", () => {
  class Account {
    readonly id = 1;
  }
  class Box extends Map {}
  class Clever extends AIMessage {}
  const refused: [name: string, value: unknown, path: string, found: string][] = [
    ["a function", { user: { tags: [0, 1, 2, () => 1] } }, ".user.tags[3]", "a function"],
    ["a named function", { run: function go() {} }, ".run", "a function (go)"],
    ["a symbol", [Symbol("s")], "[0]", "a symbol (s)"],
    ["the value itself", () => 1, "", "a function"],
    ["a key that is no identifier", { "a b": { $: Symbol("q") } }, '["a b"]["$"]', "a symbol (q)"],
    ["a property keyed by a symbol", { a: { [Symbol("k")]: 1 } }, ".a", "keyed by a symbol (k)"],
    ["a class instance", { account: new Account() }, ".account", "an instance of Account"],
    ["a subclass of Map", [new Box()], "[0]", "an instance of Box"],
    ["a subclass of a message", [new Clever("x")], "[0]", "an instance of Clever"],
    ["an object with another prototype", [Object.create({ a: 1 })], "[0]", "an instance of Object"],
    ["a promise", { later: Promise.resolve(1) }, ".later", "a Promise"],
    ["a WeakMap", { cache: new WeakMap() }, ".cache", "an instance of WeakMap"],
    ["a boxed number", [Object(1)], "[0]", "an instance of Number"],
    ["in a map", new Map([["k", () => 1]]), '.get("k")', "a function"],
    ["in a set", new Set([() => 1]), ".values()[0]", "a function"],
    ["in an error's field", Object.assign(new Error("x"), { socket: new WeakMap() }), ".socket", "WeakMap"],
    [
      "in a message",
      new AIMessage({ content: "", additional_kwargs: { f: () => 1 } }),
      ".additional_kwargs.f",
      "function",
    ],
    [
      "in a tool call",
      new AIMessage({ content: "", tool_calls: [{ name: "n", args: { a: Symbol("z") } }] }),
      ".tool_calls[0].args.a",
      "symbol",
    ],
    ["in a send", new Send("n", { f: () => 1 }), ".args.f", "a function"],
    ["in an escaped object", { a: { $: 1, f: () => 1 } }, '.a["f"]', "a function"],
    ["in a cyclic value", Object.assign(cycle(), { f: [() => 1] }), ".f[0]", "a function"],
  ];

  test.each(refused)("%s", (_name, value, path, found) => {
    let error: HoldfastError | undefined;
    try {
      shelf.tree(value);
    } catch (thrown) {
      error = thrown as HoldfastError;
    }
    expect(error?.code).toBe("UNSERIALIZABLE_VALUE");
    expect(error?.details.path).toBe(path);
    expect(error?.details.found).toContain(found);
    for (const part of [where(), path, found, "register its class", "Convert"]) expect(error?.message).toContain(part);
  });

  test("a value larger than the limit, blobs included", () => {
    const serde = new Serde({ maxValueChars: 1000 });
    const sink = { put: () => "h" };
    const over = expect.objectContaining({ code: "VALUE_TOO_LARGE" });
    expect(() => serde.toTree({ a: ["x".repeat(1001)] }, sink, where)).toThrow(over);
    expect(() => serde.toTree(Buffer.alloc(1001), sink, where)).toThrow(over);
    expect(() =>
      serde.toTree(
        Array.from({ length: 200 }, () => ({ abc: "abcdef" })),
        sink,
        where,
      ),
    ).toThrow(over);
    expect(() => serde.toTree("x".repeat(1000), sink, where)).not.toThrow();
    // A small object that says "the same again" fifty times over is not small.
    let doubling: unknown = "x";
    for (let i = 0; i < 50; i++) doubling = [doubling, doubling];
    expect(() => serde.toTree(doubling, sink, where)).toThrow(over);
  });
});
