import * as messages from "@langchain/core/messages";
import { describe, expect, test } from "vitest";
import { BlobTree, payload, Serde, type ValueType } from "../src/serde.ts";
import { long, Shelf, where } from "./serde-shelf.ts";

const { AIMessage } = messages;
const shelf = new Shelf();
const roundTrip = (value: unknown) => shelf.read(shelf.text(value));

describe("data stays data", () => {
  const lookAlikes: Record<string, unknown> = {
    "every tag of ours": ["b", "u", "n", "m", "i", "o", "date", "map", "type", "graph", "r", "error"].map((tag) => ({
      $: [tag, "AIMessage", 1],
    })),
    "a tag with other keys": { $: ["date", 1], a: 1 },
    "a dollar that is no array": [{ $: 1 }, { $: undefined }, { $: { $: { $: [] } } }],
    "a large string that looks like a reference": `{"$":["b","hash"]} ${long}`,
    "a small string that looks like a reference": '{"$":["b","hash"]}',
    "LangChain's constructor record": {
      lc: 1,
      type: "constructor",
      id: ["langchain_core", "messages", "AIMessage"],
      kwargs: {},
    },
    "LangChain's secret record": { lc: 1, type: "secret", id: ["OPENAI_API_KEY"] },
    "JsonPlus records": [
      { lc: 2, type: "undefined" },
      { lc: 2, type: "constructor", id: ["Set"], args: [[1]] },
      { lc: 2, type: "delta_snapshot", value: [] },
    ],
    "a plain Send": { lg_name: "Send", node: "n", args: {} },
    "a plain Command": { lg_name: "Command", update: {}, goto: [], lc_direct_tool_output: true },
    "a plain Overwrite": [{ lg_name: "Overwrite", __overwrite__: 1 }, { __overwrite__: 1 }],
    "a plain message": {
      type: "human",
      content: "x",
      lc_serializable: true,
      lc_namespace: ["langchain_core", "messages"],
    },
    "a plain node of ours": { hash: "h", data: "d", form: undefined },
    "Buffer's JSON": { type: "Buffer", data: [1, 2] },
  };

  test.each(Object.entries(lookAlikes))("%s", (_name, value) => {
    const back = roundTrip(value);
    expect(back).toStrictEqual(value);
    expect(shelf.serde.matches(shelf.tree(value), value)).toBe(true);
    expect(
      shelf.serde.matches(shelf.serde.resolve(shelf.serde.parse(payload(shelf.text(value))), shelf.blobs), value),
    ).toBe(true);
    expect(shelf.serde.blobHashes(shelf.serde.stringify(new Shelf().tree('{"$":["b","hash"]}')))).toEqual([]);
  });

  test("a node of ours in the place of data does not match it", () => {
    expect(shelf.serde.matches(shelf.tree(long), { hash: "h", data: long, form: undefined })).toBe(false);
    expect(shelf.serde.matches(shelf.tree({ a: 1 }), { toString: Object.prototype.toString })).toBe(false);
    expect(shelf.serde.matches(shelf.tree({ a: 1 }), JSON.parse('{"__proto__":{}}'))).toBe(false);
  });

  test("reading never pollutes a prototype", () => {
    const back = roundTrip(JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'));
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
    expect(Object.getPrototypeOf(back)).toBe(Object.prototype);
  });
});

describe("blobs", () => {
  test("large strings and byte arrays leave the text and are found again", () => {
    const own = new Shelf();
    const text = own.serde.stringify(
      own.tree({ a: "x".repeat(256), b: ["y".repeat(255), Buffer.alloc(256)], c: long }),
    );
    expect(text).not.toContain("xxx");
    expect(own.blobs.size).toBe(3);
    expect(own.serde.blobHashes(text)).toEqual([...own.blobs.keys()]);
    expect(own.serde.blobHashes([text, text])).toEqual([...own.blobs.keys()]);
    expect(own.serde.blobHashes("[]")).toEqual([]);
  });

  test("a missing blob, or one of another type, is damage that names the hash", () => {
    const tree = shelf.serde.parse('{"a":{"$":["b","gone"]}}');
    const missing = expect.objectContaining({ code: "CORRUPT_DATA", message: expect.stringContaining('"gone"') });
    expect(() => shelf.serde.fromTree(tree, new Map(), where)).toThrow(missing);
    expect(() => shelf.serde.resolve(tree, new Map())).toThrow(missing);
    expect(() => shelf.serde.fromTree(tree, new Map([["gone", new Uint8Array(1)]]), where)).toThrow(missing);
  });

  test("a byte array read from a backend's buffer does not share its memory", () => {
    const stored = Buffer.alloc(300, 1);
    const tree = shelf.serde.parse('{"$":["b","h","Uint8Array"]}');
    const back = shelf.serde.fromTree(tree, new Map([["h", stored]]), where) as Uint8Array;
    stored[0] = 9;
    expect(back).toStrictEqual(new Uint8Array(300).fill(1));
    expect(back.buffer.byteLength).toBe(300);
  });

  test("nodes hold the data itself", () => {
    expect(shelf.tree(long)).toBeInstanceOf(BlobTree);
    const bytes = Buffer.alloc(300);
    const tree = shelf.tree(bytes) as BlobTree;
    bytes[3] = 1;
    expect(tree.data).toStrictEqual(new Uint8Array(300));
    expect(shelf.serde.matches(tree, bytes)).toBe(false);
  });
});

describe("formats", () => {
  const unsupported = (text: string) =>
    expect.objectContaining({ code: "UNSUPPORTED_FORMAT", message: expect.stringContaining(text) });
  const corrupt = expect.objectContaining({ code: "CORRUPT_DATA" });

  test("a newer or unknown codec is refused by name", () => {
    expect(() => payload("json/2 {}")).toThrow(unsupported("json/2"));
    expect(() => payload("json/2 {}")).toThrow(unsupported("json/1"));
    expect(() => payload("msgpack/1 \u0001")).toThrow(unsupported("msgpack/1"));
  });

  test.each(["", "{}", "json/1", "json", "json/x {}", "\u0000\u0001", "JSON/1 {}"])("%j is no encoded text", (text) => {
    expect(() => payload(text)).toThrow(corrupt);
  });

  test("an unknown tag is refused by name, also inside a graph", () => {
    for (const json of ['[{"$":["temporal",1]}]', '{"$":["graph",[{"$":["r",1]}],{"$":["temporal",1]}]}']) {
      expect(() => shelf.serde.fromTree(shelf.serde.parse(json), new Map(), where)).toThrow(unsupported('"temporal"'));
    }
  });

  test.each([
    "{",
    "",
    '{"$":1}',
    '{"$":[]}',
    '{"$":[1]}',
    '{"$":["b"]}',
    '{"$":["n","zero"]}',
    '{"$":["bigint","x"]}',
    '{"$":["date"]}',
    '{"$":["map","key"]}',
    '{"$":["regexp","(","g"]}',
    '{"$":["url","::"]}',
    '{"$":["bytes","Worker",""]}',
    '{"$":["bytes","Float64Array","AAA="]}',
    '{"$":["error","Function",{},{}]}',
    '{"$":["error","constructor",{},{}]}',
    '{"$":["i","Object",{}]}',
    '{"$":["i","__proto__",{}]}',
    '{"$":["m","AIMessage"]}',
    '{"$":["m","AIMessage","c?",{}]}',
    '{"$":["m","Function","c",{}]}',
    '{"$":["m","HumanMessage","ct",{}]}',
    '{"$":["o",1,2]}',
    '{"$":["array",-1]}',
    '{"$":["array"]}',
    '{"$":["type","money"]}',
    '{"$":["graph",1]}',
    '{"$":["graph"]}',
    '{"$":["graph",[{"$":["r",7]}]]}',
    '{"$":["r",0]}',
  ])("damaged text %s is refused", (json) => {
    const read = () => shelf.serde.fromTree(shelf.serde.parse(json), new Map(), where);
    expect(read).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/^(CORRUPT_DATA|UNSUPPORTED_FORMAT)$/) }),
    );
  });

  test("text nested deeper than anything this codec writes is damage, not a crash", () => {
    const json = "[".repeat(200_000) + "]".repeat(200_000);
    expect(() => shelf.serde.fromTree(shelf.serde.parse(json), new Map(), where)).toThrow(corrupt);
  });
});

describe("registered types", () => {
  class Money {
    readonly cents: number;
    readonly currency: string;
    constructor(cents: number, currency: string) {
      this.cents = cents;
      this.currency = currency;
    }
  }
  const money: ValueType<Money> = {
    id: "money",
    aliases: ["old-money"],
    version: 2,
    is: (value): value is Money => value instanceof Money,
    toData: ({ cents, currency }) => ({ cents, currency }),
    fromData: (data) => {
      const { cents, currency } = data as Money;
      return new Money(cents, currency);
    },
    migrate: (data, from) => ({ cents: (data as { amount: number }).amount * 100, currency: `EUR${from}` }),
  };
  const own = new Shelf([money]);

  test("an instance comes back as an instance, at any depth and in cycles", () => {
    const value: Record<string, unknown> = { prices: new Map([["a", new Money(5, "EUR")]]) };
    expect(own.read(own.text(value))).toStrictEqual(value);
    value.self = value;
    const back = own.read(own.text(value)) as typeof value;
    expect(back.prices).toStrictEqual(value.prices);
    expect(own.serde.matches(own.tree(value), value)).toBe(true);
  });

  test("an in-place edit of an instance is noticed", () => {
    const value = [new Money(5, "EUR")];
    const tree = own.tree(value);
    expect(own.serde.matches(tree, value)).toBe(true);
    (value[0] as { cents: number }).cents = 6;
    expect(own.serde.matches(tree, value)).toBe(false);
  });

  test("an alias and an older version are read, through migrate", () => {
    expect(own.read('json/1 {"$":["type","old-money",2,{"cents":1,"currency":"X"}]}')).toStrictEqual(new Money(1, "X"));
    expect(own.read('json/1 {"$":["type","money",1,{"amount":3}]}')).toStrictEqual(new Money(300, "EUR1"));
  });

  test("an id that is not registered, a newer version, and an older one without migrate are refused by name", () => {
    const read = (shelfOf: Shelf, json: string) => () => shelfOf.read(`json/1 ${json}`);
    const refusedWith = (text: string) =>
      expect.objectContaining({ code: "UNSUPPORTED_FORMAT", message: expect.stringContaining(text) });
    expect(read(shelf, '{"$":["type","money",2,{}]}')).toThrow(refusedWith('"money" is not registered'));
    expect(read(own, '{"$":["type","money",3,{}]}')).toThrow(refusedWith("version 3"));
    const { migrate: _, ...without } = money;
    expect(read(new Shelf([without]), '{"$":["type","money",1,{}]}')).toThrow(refusedWith("no migrate"));
  });

  test("a message class of the user's is kept once it is registered", () => {
    class Clever extends AIMessage {}
    const clever: ValueType<Clever> = {
      id: "clever",
      is: (value): value is Clever => value instanceof Object && value.constructor === Clever,
      toData: ({ content, id }) => ({ content, id }),
      fromData: (data) => new Clever(data as messages.AIMessageFields),
    };
    const both = new Shelf([clever]);
    const back = both.read(both.text([new Clever({ content: "x", id: "1" })])) as object[];
    expect(back[0]?.constructor).toBe(Clever);
  });

  test("a type that leads back to itself is refused, and two types with one id are", () => {
    class Node {
      next: unknown = this;
    }
    const node: ValueType<Node> = {
      id: "node",
      is: (value): value is Node => value instanceof Node,
      toData: ({ next }) => ({ next }),
      fromData: () => new Node(),
    };
    const cyclic = expect.objectContaining({ code: "UNSERIALIZABLE_VALUE", message: expect.stringContaining("cycle") });
    expect(() => new Shelf([node]).tree(new Node())).toThrow(cyclic);
    expect(() => new Serde({ types: [node, { ...node }] })).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT" }),
    );
  });
});
