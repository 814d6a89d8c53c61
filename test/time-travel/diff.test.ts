/** What differs between two states. */

import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { type Change, timeTravel } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { describe, expect, test } from "vitest";
import { changesOf } from "../../src/diff.ts";
import { plainOf } from "../../src/diff-plain.ts";
import { chain } from "../checkpointer/guarantees.ts";
import { at, errorOf } from "../checkpointer/subject.ts";

/** Small numbers in a fixed order, so that every run makes the same histories. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 8) % below;
  };
}

const long = (words: string) => `${words} `.repeat(20).trim();

describe("messages", () => {
  const before = [
    new HumanMessage({ id: "1", content: "hello" }),
    new AIMessage({ id: "2", content: long("a longer answer") }),
    new HumanMessage({ id: "3", content: "thanks" }),
  ];

  test("are matched by id: one more, one less and one edited are three changes, wherever they stand", () => {
    const after = [
      new HumanMessage({ id: "1", content: "hello" }),
      new AIMessage({ id: "9", content: "inserted" }),
      new AIMessage({ id: "2", content: long("a longer answer").replace("longer", "shorter") }),
    ];
    expect(changesOf(before, after)).toEqual([
      { kind: "removed", path: [{ id: "3" }], value: { type: "human", id: "3", content: "thanks" } },
      { kind: "added", path: [{ id: "9" }], value: { type: "ai", id: "9", content: "inserted" } },
      { kind: "text", path: [{ id: "2" }, "content"], edits: [{ at: 2, removed: "long", added: "short" }] },
    ]);
  });

  test("that only changed places are moved, and no other change is told", () => {
    expect(changesOf(before, [before[2], before[0], before[1]])).toEqual([
      { kind: "moved", path: [{ id: "3" }], from: 2, to: 0 },
    ]);
  });

  test("a tool call that was edited is found inside its message", () => {
    const call = (city: string) =>
      new AIMessage({ id: "2", content: "", tool_calls: [{ id: "c1", name: "book", args: { city } }] });
    expect(changesOf([call("Rome")], [call("Oslo")])).toEqual([
      {
        kind: "replaced",
        path: [{ id: "2" }, "tool_calls", { id: "c1" }, "args", "city"],
        before: "Rome",
        after: "Oslo",
      },
    ]);
  });
});

test("lists without ids are compared by place between what both begin and end with", () => {
  expect(changesOf(["a", "b", "c"], ["a", "x", "b", "c"])).toEqual([{ kind: "added", path: [1], value: "x" }]);
  expect(changesOf(["a", "b", "c"], ["a", "c"])).toEqual([{ kind: "removed", path: [1], value: "b" }]);
  expect(changesOf([{ n: 1 }, { n: 2 }], [{ n: 1 }, { n: 3 }])).toEqual([
    { kind: "replaced", path: [1, "n"], before: 2, after: 3 },
  ]);
});

test.each([
  ["a date", new Date(0), new Date(1)],
  ["a bigint", 1n, 2n],
  ["a number and its text", 1, "1"],
  ["undefined and null", undefined, null],
  ["zero and minus zero", 0, -0],
  ["a map", new Map([["a", 1]]), new Map([["a", 2]])],
  ["a set and a list", new Set([1]), [1]],
  ["bytes", new Uint8Array(100), new Uint8Array(100).fill(1)],
  ["an error", new Error("a"), new Error("b")],
  ["an error's class", new Error("a"), new TypeError("a")],
  ["not a number", Number.NaN, Number.POSITIVE_INFINITY],
])("a change of %s is told, and both sides of it are plain JSON", (_, before, after) => {
  const changes = changesOf({ value: before }, { value: after });
  expect(changes.length).toBeGreaterThan(0);
  expect(JSON.parse(JSON.stringify(changes))).toEqual(changes);
  expect(changesOf({ value: before }, { value: before })).toEqual([]);
});

test("a value inside itself is compared to where it begins again", () => {
  const loop = (n: number) => {
    const value: Record<string, unknown> = { n };
    value["self"] = value;
    return value;
  };
  expect(changesOf(loop(1), loop(2))).toEqual([{ kind: "replaced", path: ["n"], before: 1, after: 2 }]);
});

/** Does what the changes say, from the last place to the first. */
function applyText(before: string, changes: readonly Change[]): string {
  const [change] = changes;
  if (change === undefined) return before;
  if (change.kind === "replaced") return String(change.after);
  if (change.kind !== "text") throw new Error(change.kind);
  return change.edits.reduceRight((text, { at: place, removed, added }) => {
    expect(text.slice(place, place + removed.length)).toBe(removed);
    return text.slice(0, place) + added + text.slice(place + removed.length);
  }, before);
}

test("the edits of a text, applied to it, give the other text, for any two texts", () => {
  const next = numbers(7);
  const alphabet = ["a", "b", " ", "ä", "\u{1f600}", "\n", "%", "+", "-", "@@ -1,2 +3,4 @@", "\ud83d"];
  const text = (length: number) => Array.from({ length }, () => alphabet[next(alphabet.length)] ?? "").join("");
  for (let i = 0; i < 300; i += 1) {
    const before = text(next(200));
    const cut = next(before.length + 1);
    const after =
      next(4) === 0 ? text(next(200)) : before.slice(0, cut) + text(next(30)) + before.slice(cut + next(20));
    expect(applyText(before, changesOf(before, after))).toBe(after);
  }
});

test("two lists of twenty thousand messages in opposite order are compared without a step for each pair", () => {
  const items = Array.from({ length: 20_000 }, (_, i) => ({ id: String(i), text: `item ${i}` }));
  const changes = changesOf(items, items.toReversed());
  expect(changes.filter(({ kind }) => kind === "moved")).toHaveLength(19_999);
  const edited = items.map((item, i) => (i % 1000 === 0 ? { ...item, text: "edited" } : item));
  expect(changesOf(items, edited)).toHaveLength(20);
});

test("plain JSON of equal values is equal, and keeps what a message is", () => {
  expect(plainOf(new AIMessage({ id: "1", content: "x" }))).toEqual({ type: "ai", id: "1", content: "x" });
  expect(plainOf({ at: new Date(0) })).toEqual({ at: { $: "Date", value: "1970-01-01T00:00:00.000Z" } });
});

describe("of threads", () => {
  test("two checkpoints differ in the channels that were written between them, and a state does not differ from itself", async () => {
    const saver = memory();
    const app = chain(saver, { a: () => ({ log: ["a"] }), b: ({ n }) => ({ log: ["b"], n: n + 1 }) });
    await app.invoke({ n: 1 }, at("t"));
    const { diff, history } = timeTravel(app);
    const entries = [];
    for await (const entry of history("t")) entries.push(entry);
    const before = entries.find(({ next }) => next[0] === "b")?.checkpoint ?? "";
    const { channels, after } = await diff({ thread: "t", checkpoint: before }, { thread: "t" });
    expect(channels).toEqual({
      log: { kind: "changed", changes: [{ kind: "added", path: [1], value: "b" }] },
      n: { kind: "changed", changes: [{ kind: "replaced", path: [], before: 1, after: 2 }] },
    });
    expect(after.checkpoint).toBe(entries[0]?.checkpoint);
    expect((await diff({ thread: "t" }, { thread: "t" })).channels).toEqual({});
  });

  test("an edited message of a branch is told by its id", async () => {
    const app = new StateGraph(MessagesAnnotation)
      .addNode("model", () => ({ messages: [new AIMessage({ id: "a", content: "fine" })] }))
      .addEdge(START, "model")
      .compile({ checkpointer: memory() });
    await app.invoke({ messages: [new HumanMessage({ id: "h", content: "how are you" })] }, at("t"));
    const { diff, fork, history } = timeTravel(app);
    let first = "";
    let last = "";
    for await (const entry of history("t")) {
      if (last === "") last = entry.checkpoint;
      if (entry.next[0] === "model") first = entry.checkpoint;
    }
    const values = { messages: [new HumanMessage({ id: "h", content: "how is she" })] };
    await app.invoke(null, (await fork("t", first, { values })).config);
    const { channels } = await diff({ thread: "t", checkpoint: last }, { thread: "t" });
    expect(channels).toEqual({
      messages: {
        kind: "changed",
        changes: [{ kind: "replaced", path: [{ id: "h" }, "content"], before: "how are you", after: "how is she" }],
      },
    });
  });

  test("what is no place, or is not there, is refused with a typed error", async () => {
    const app = chain(memory(), { a: () => ({}) });
    await app.invoke({ n: 1 }, at("t"));
    const { diff } = timeTravel(app);
    const code = async (before: unknown, after: unknown) =>
      (await errorOf(diff(before as never, after as never)))?.code;
    expect(await code({ thread: "t", checkpoint: "nowhere" }, { thread: "t" })).toBe("UNKNOWN_CHECKPOINT");
    expect(await code({ thread: "t" }, { thread: "u" })).toBe("UNKNOWN_CHECKPOINT");
    expect(await code({}, { thread: "t" })).toBe("INVALID_ARGUMENT");
    expect(await code({ thread: "t", checkpoint: 7 }, { thread: "t" })).toBe("INVALID_ARGUMENT");
  });
});
