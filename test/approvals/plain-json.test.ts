import { AIMessage } from "@langchain/core/messages";
import { expect, test } from "vitest";
import { plainJson } from "../../src/approvals/plain-json.ts";

const around: { self?: unknown } = {};
around.self = around;

test.each([
  ["plain data", { a: [1, "x", null, true] }, { a: [1, "x", null, true] }],
  ["a field without a value", { a: undefined, b: 1 }, { b: 1 }],
  ["nothing", undefined, null],
  ["a big number", 2n ** 70n, "1180591620717411303424"],
  ["numbers that JSON does not have", [Number.NaN, -Infinity], ["NaN", "-Infinity"]],
  ["a moment", new Date(0), "1970-01-01T00:00:00.000Z"],
  ["a moment that is none", new Date(Number.NaN), "(invalid date)"],
  ["a map of texts", new Map([["a", new Set([1])]]), { a: [1] }],
  ["another map", new Map([[1, "a"]]), [[1, "a"]]],
  ["bytes", new Uint8Array([1, 2, 3]).subarray(1), "AgM="],
  ["an error", new TypeError("no"), { name: "TypeError", message: "no" }],
  ["an address", new URL("http://x/"), "http://x/"],
  ["itself", around, { self: "(refers to itself)" }],
  ["a key of prototypes", JSON.parse('{"__proto__":{"a":1}}'), JSON.parse('{"__proto__":{"a":1}}')],
  ["a toDict of another kind", { toDict: () => "no", a: 1 }, { toDict: null, a: 1 }],
])("shows %s", (_, value, shown) => {
  expect(plainJson(value)).toEqual(shown);
  expect(JSON.parse(JSON.stringify(plainJson(value)))).toEqual(shown);
});

test("shows a message in LangGraph's wire form", () => {
  expect(plainJson([new AIMessage({ id: "1", content: "hello" })])).toMatchObject([
    { type: "ai", id: "1", content: "hello" },
  ]);
});

test("shows the same object twice where it stands twice, and ends where it is too deep", () => {
  const shared = { n: 1 };
  expect(plainJson([shared, shared])).toEqual([{ n: 1 }, { n: 1 }]);
  let deep: unknown = 1;
  for (let i = 0; i < 10_000; i++) deep = [deep];
  expect(JSON.stringify(plainJson(deep))).toContain("(too deep to be shown)");
});
