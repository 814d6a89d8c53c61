/** What goes in comes out, on every backend: values, ids, metadata, errors; and what cannot be kept is refused (F, E). */

import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import type { Backend, Checkpointer } from "holdfast";
import { describe, expect, test } from "vitest";
import { newStore, storeNames } from "../backends-table.ts";
import { chain } from "./guarantees.ts";
import { at, errorOf } from "./subject.ts";

const strings = {
  nul: "a\u0000b",
  half: "\ud800 and \udc00",
  escapes: '\\u0000 \\\\- \\n "quoted" \u2028',
  emoji: "😀 família 漢字",
  empty: "",
  large: "x\u0000\ud800😀".repeat(100_000),
};
const numbers = {
  nan: Number.NaN,
  infinite: [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY],
  zero: -0,
  big: 12n ** 40n,
};
const lookAlikes: unknown[] = [
  { $: ["b", "hash"] },
  { $: ["l", "list", 3] },
  { $: ["j", "hash"] },
  { lc: 2, type: "constructor", id: ["Set"], args: [] },
  { __proto__: null, constructor: "c" },
];
const classes = {
  date: new Date(0),
  map: new Map<unknown, unknown>([[{ a: 1 }, new Set([1])]]),
  bytes: new Uint8Array([0, 255]),
  buffer: Buffer.from("buf"),
  pattern: /a\/b/giu,
  url: new URL("http://127.0.0.1/x?y=1"),
  missing: [undefined, null],
};
const everything = { strings, numbers, lookAlikes, classes };

const Any = Annotation.Root({ value: Annotation<unknown>(), other: Annotation<number>() });

function holding(checkpointer: Checkpointer, value: () => unknown) {
  return new StateGraph(Any)
    .addNode("write", () => ({ value: value() }))
    .addNode("next", () => ({ other: 1 }))
    .addEdge(START, "write")
    .addEdge("write", "next")
    .compile({ checkpointer });
}

describe.each(storeNames)("on %s", (name) => {
  test("strings, numbers, look-alikes and classes come back equal, through state and writes, after reopening", async () => {
    const store = await newStore(name);
    const first = await store.open();
    await holding(first, () => everything).invoke({ other: 0 }, at("t", { durability: "async" }));
    await first.close();
    const again = holding(await store.open(), () => undefined);
    const { value } = (await again.getState(at("t"))).values as { value: typeof everything };
    expect(value).toStrictEqual(everything);
    expect(Object.is(value.numbers.zero, -0)).toBe(true);
    const writes = [];
    for await (const tuple of (again.checkpointer as Checkpointer).list(at("t")))
      writes.push(...(tuple.pendingWrites ?? []));
    expect(writes.find(([, channel]) => channel === "value")?.[2]).toStrictEqual(everything);
  });

  test("metadata and the text of errors come back equal", async () => {
    const store = await newStore(name);
    const saver = await store.open();
    const metadata = { source: "update" as const, step: 1, parents: {}, ...strings, not: Number.NaN };
    const checkpoint = emptyCheckpoint();
    await saver.put(at("t"), checkpoint, metadata, {});
    await saver.putWrites(
      { configurable: { thread_id: "t", checkpoint_ns: "", checkpoint_id: checkpoint.id } },
      [["__error__", new Error(strings.half)]],
      "task",
    );
    const tuple = await saver.getTuple(at("t"));
    expect(tuple?.metadata).toStrictEqual(metadata);
    expect(tuple?.pendingWrites?.[0]?.[2]).toMatchObject({ message: strings.half });
  });

  test("ids with every odd character are data: each thread has its own state, and deleting one leaves the others", async () => {
    const store = await newStore(name);
    const saver = await store.open();
    const ids = [
      "*",
      "%",
      "_",
      "a:b",
      "a|b",
      "[a]",
      " ",
      "a b",
      "😀",
      "a\u0000b",
      "a",
      "A",
      "a/../b",
      "' or 1=1 --",
      "x".repeat(3000),
      "__proto__",
      "a\nb",
    ];
    const app = chain(saver, { a: ({ n }) => ({ log: [`${n}`] }) });
    for (const [i, id] of ids.entries()) await app.invoke({ n: i }, at(id));
    await saver.deleteThread("*");
    await saver.deleteThread("%");
    for (const [i, id] of ids.entries()) {
      const { values } = await app.getState(at(id));
      if (id === "*" || id === "%") expect(values).toEqual({});
      else expect(values.log).toEqual([String(i)]);
    }
    expect(await errorOf(app.invoke({ n: 1 }, at("x".repeat(4001))))).toMatchObject({ code: "INVALID_ID" });
    expect(await errorOf(app.invoke({ n: 1 }, at("half \ud800")))).toMatchObject({ code: "INVALID_ID" });
    expect(await errorOf(app.invoke({ n: 1 }, { configurable: {} }))).toMatchObject({ code: "MISSING_THREAD_ID" });
  });

  test("a filter finds exactly the rows that match, whatever its key, and an unknown key finds none", async () => {
    const saver = await (await newStore(name)).open();
    for (const tenant of ["a", "b"]) {
      await saver.put(
        at(tenant),
        emptyCheckpoint(),
        { source: "update", step: 0, parents: {}, tenant, "odd' key": { deep: [1] } } as never,
        {},
      );
    }
    const found = async (filter: Record<string, unknown>, limit?: number) => {
      const threads: unknown[] = [];
      for await (const tuple of saver.list({ configurable: {} }, { filter, ...(limit === undefined ? {} : { limit }) }))
        threads.push(tuple.config.configurable?.["thread_id"]);
      return threads.sort();
    };
    expect(await found({ tenant: "b" })).toEqual(["b"]);
    expect(await found({ tenant: "b" }, 1)).toEqual(["b"]);
    expect(await found({ "odd' key": { deep: [1] } })).toEqual(["a", "b"]);
    expect(await found({ nobody: "b" })).toEqual([]);
    expect(await found({ toString: "b" })).toEqual([]);
    expect(await found({ tenant: "b", nobody: undefined })).toEqual([]);
  });

  test("a write without entries stores nothing", async () => {
    const saver = await (await newStore(name)).open();
    const checkpoint = emptyCheckpoint();
    const config = await saver.put(at("t"), checkpoint, { source: "update", step: 0, parents: {} }, {});
    await saver.putWrites(config, [], "task");
    expect((await saver.getTuple(at("t")))?.pendingWrites).toEqual([]);
  });

  test("a result and a question of one task are both there after reopening", async () => {
    const store = await newStore(name);
    const first = await store.open();
    const config = await first.put(at("t"), emptyCheckpoint(), { source: "update", step: 0, parents: {} }, {});
    await first.putWrites(
      config,
      [
        ["a", 1],
        ["b", 2],
      ],
      "task",
    );
    await first.putWrites(config, [["__interrupt__", [{ value: "?" }]]], "task");
    await first.putWrites(config, [["__resume__", ["one"]]], "task");
    await first.putWrites(config, [["__resume__", ["one", "two"]]], "task");
    await first.putWrites(
      config,
      [
        ["a", "ignored"],
        ["b", "ignored"],
      ],
      "task",
    );
    await first.close();
    const tuple = await (await store.open()).getTuple(at("t"));
    expect(tuple?.pendingWrites).toEqual([
      ["task", "__resume__", ["one", "two"]],
      ["task", "__interrupt__", [{ value: "?" }]],
      ["task", "a", 1],
      ["task", "b", 2],
    ]);
  });

  test.each([
    ["a function", { deep: [{ callback: () => 1 }] }],
    ["a symbol", { deep: [Symbol("s")] }],
    ["an instance of a class that is not registered", { deep: { inner: new (class Own {})() } }],
    ["a promise", { deep: Promise.resolve(1) }],
    ["a WeakMap", { deep: [new WeakMap()] }],
  ])(
    "%s in state fails the step that wrote it, names channel, node and path, and the thread goes on after a fix",
    async (_, value) => {
      const saver = await (await newStore(name)).open();
      for (const durability of ["sync", "async"] as const) {
        let good = false;
        const app = holding(saver, () => (good ? "fine" : value));
        const error = await errorOf(app.invoke({ other: 0 }, at(durability, { durability })));
        expect(error).toMatchObject({ code: "UNSERIALIZABLE_VALUE" });
        for (const part of ["value", "write", "deep"]) expect(error?.message).toContain(part);
        const state = await app.getState(at(durability));
        expect([state.next, state.values.value]).toEqual([["write"], undefined]);
        good = true;
        expect(await app.invoke(null, at(durability, { durability }))).toMatchObject({ value: "fine", other: 1 });
      }
    },
  );

  test("a stored value that was damaged fails the resume and names what is missing; other threads are fine", async () => {
    const store = await newStore(name);
    const first = await store.open();
    for (const thread of ["t", "u"]) await holding(first, () => "large ".repeat(1000)).invoke({ other: 0 }, at(thread));
    await first.close();
    const damaged = (backend: Backend): Backend =>
      new Proxy(backend, {
        get(target, property) {
          if (property === "blobs")
            return async (thread: string, hashes: readonly string[]) =>
              thread === "t" ? new Map() : target.blobs(thread, hashes);
          const value: unknown = Reflect.get(target, property, target);
          return typeof value === "function" ? (value.bind(target) as unknown) : value;
        },
      });
    const app = holding(await store.open({}, damaged), () => "next");
    const attempts = [app.invoke(null, at("t")), app.invoke({ other: 2 }, at("t")), app.getState(at("t"))];
    for (const error of await Promise.all(attempts.map(errorOf))) expect(error).toMatchObject({ code: "CORRUPT_DATA" });
    expect((await app.getState(at("u"))).values.value).toContain("large");
  });

  test("an unknown checkpoint_id is a typed error in a run and undefined in a look-up", async () => {
    const saver = await (await newStore(name)).open();
    const app = holding(saver, () => 1);
    await app.invoke({ other: 0 }, at("t"));
    const config = { configurable: { thread_id: "t", checkpoint_id: "1f000000-0000-6000-8000-000000000000" } };
    expect(await errorOf(app.invoke(null, config))).toMatchObject({ code: "UNKNOWN_CHECKPOINT" });
    expect(await saver.getTuple(config)).toBeUndefined();
  });

  test("a closed checkpointer refuses every call with CLOSED, and closing twice is fine", async () => {
    const saver = await (await newStore(name)).open();
    const app = holding(saver, () => 1);
    await app.invoke({ other: 0 }, at("t"));
    await saver.close();
    await saver.close();
    const config = { configurable: { thread_id: "t", checkpoint_ns: "", checkpoint_id: "x" } };
    const calls = [
      app.invoke({ other: 0 }, at("t")),
      app.getState(at("t")),
      saver.list(at("t")).next(),
      saver.put(at("t"), emptyCheckpoint(), { source: "update", step: 0, parents: {} }, {}),
      saver.putWrites(config, [["a", 1]], "task"),
      saver.deleteThread("t"),
      saver.barrier(),
      saver.effects({ thread: "t" }),
      saver.settle("key", { notDone: true }, { by: "eve" }),
      saver.getDeltaChannelHistory({ config, channels: ["a"] }),
    ];
    for (const call of calls) expect(await errorOf(call)).toMatchObject({ code: "CLOSED" });
  });

  test("a partial update touches only the channels it names", async () => {
    const saver = await (await newStore(name)).open();
    const app = holding(saver, () => ({ kept: true }));
    await app.invoke({ other: 5 }, at("t"));
    await app.updateState(at("t"), { other: 7 }, "next");
    expect((await app.getState(at("t"))).values).toEqual({ value: { kept: true }, other: 7 });
  });

  test("everything of a run is durable when invoke has settled in async durability", async () => {
    const store = await newStore(name);
    const saver = await store.open();
    await chain(saver, { a: () => ({ log: ["a"] }), b: () => ({ log: ["b"] }) }).invoke(
      { n: 1 },
      at("t", { durability: "async" }),
    );
    const { checkpoint } = await saver.backend.load("t", "", undefined);
    const rows: string[] = [];
    for await (const row of saver.backend.checkpoints({ thread: "t" })) rows.push(row.id);
    expect(rows[0]).toBe(checkpoint?.id);
    expect(rows).toHaveLength(4);
    await saver.close();
    expect((await chain(await store.open(), { a: () => ({}), b: () => ({}) }).getState(at("t"))).values.log).toEqual([
      "a",
      "b",
    ]);
  });
});
