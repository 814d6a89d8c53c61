/** Forks and rollbacks: values, questions, new threads. */

import { HumanMessage } from "@langchain/core/messages";
import {
  Annotation,
  DeltaChannel,
  interrupt,
  MessagesAnnotation,
  type Messages,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { ask, type Checkpointer, effect, run, timeTravel } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { newStore, type StoreName, storeNames } from "../backends-table.ts";
import { chain } from "../checkpointer/guarantees.ts";
import { State } from "../checkpointer/shapes.ts";
import { at, errorOf } from "../checkpointer/subject.ts";
import { before, contentsOf, entriesOf, logging } from "./travel.ts";

const openStore = async (name: StoreName): Promise<Checkpointer> => (await newStore(name)).open();

describe.each(storeNames)("on %s", (name) => {
  test("two edits from one checkpoint are two branches, and each reads its own values, now and later", async () => {
    const saver = await openStore(name);
    const app = chain(saver, logging([], "a", "b", "c"));
    await app.invoke({ n: 1 }, at("t"));
    const travel = timeTravel(app);
    const place = await before(travel, "b");
    const heads: string[] = [];
    for (const edit of ["first", "second"]) {
      const forked = await travel.fork("t", place, { values: { log: [edit], n: heads.length } });
      expect((await app.invoke(null, forked.config)).log).toEqual(["a", edit, "b", "c"]);
      heads.push(String((await app.getState(at("t"))).config.configurable?.["checkpoint_id"]));
    }
    const logs = await Promise.all(
      heads.map(
        async (checkpoint_id) => (await app.getState({ configurable: { thread_id: "t", checkpoint_id } })).values,
      ),
    );
    expect(logs.map(({ log, n }) => ({ log, n }))).toEqual([
      { log: ["a", "first", "b", "c"], n: 0 },
      { log: ["a", "second", "b", "c"], n: 1 },
    ]);
  });

  test("a finished run begins again at a step of its own, and the steps before it are untouched", async () => {
    const saver = await openStore(name);
    const seen: string[] = [];
    const app = chain(saver, logging(seen, "one", "two", "three", "four"));
    await app.invoke({ n: 1 }, at("t"));
    seen.length = 0;
    const travel = timeTravel(app);
    const forked = await travel.fork("t", await before(travel, "three"));
    expect(seen).toEqual([]);
    expect(await run(app, null, { ...forked.config })).toMatchObject({ status: "finished" });
    expect(seen).toEqual(["three", "four"]);
  });

  test("a fork into a new thread works on after the old one is deleted, and neither repeats nor forgets what it left there", async () => {
    const saver = await openStore(name);
    const bodies: number[] = [];
    const charge = effect("charge", {
      input: z.object({ cents: z.number(), note: z.string() }),
      run: ({ cents }) => {
        bodies.push(cents);
        return { receipt: "r".repeat(2000), cents };
      },
    });
    const app = chain(saver, {
      quote: () => ({ log: ["long ".repeat(200)] }),
      charge: async ({ n }) => ({ log: [String((await charge({ cents: n, note: "n".repeat(2000) })).cents)] }),
    });
    await app.invoke({ n: 100 }, at("t"));
    const travel = timeTravel(app);
    const place = await before(travel, "charge");
    const [same, other] = [
      await travel.fork("t", place, { to: "same" }),
      await travel.fork("t", place, { to: "other", values: { n: 120 } }),
    ];
    await saver.deleteThread("t");
    expect((await app.invoke(null, same.config)).log.at(-1)).toBe("100");
    await app.invoke(null, other.config);
    expect(bodies).toEqual([100]);
    const [wait] = await saver.waits({ thread: "other", status: ["open"] });
    expect(wait?.details).toMatchObject({ input: { cents: 120 }, left: { input: { cents: 100 }, status: "done" } });
    await saver.answer(wait?.id ?? "", { type: "respond", value: { recorded: true } }, { by: "ada" });
    expect((await app.invoke(null, other.config)).log.at(-1)).toBe("100");
    const [first] = (await entriesOf(travel, "same")).reverse();
    expect(first).toMatchObject({
      parent: undefined,
      fork: { thread: "t", checkpoint: place },
      carried: [{ name: "charge", deed: "executed" }],
    });
    expect(bodies).toEqual([100]);
    // From fork to fork: what was taken already is not carried on, and the link is that of the last fork.
    const again = await travel.fork("same", await before(travel, "charge", "same"), { to: "third" });
    expect((await app.invoke(null, again.config)).log.at(-1)).toBe("100");
    expect(bodies).toEqual([100]);
  });

  test("a rollback adds a head that equals the old checkpoint, and the thread goes on from there", async () => {
    const saver = await openStore(name);
    const seen: string[] = [];
    const app = chain(saver, { ...logging(seen, "a"), q: () => ({ log: [String(interrupt("ok?"))] }) });
    await app.invoke({ n: 1 }, at("t"));
    const travel = timeTravel(app);
    const count = (await entriesOf(travel)).length;
    const place = await before(travel, "a");
    const { checkpoint, config } = await travel.rollbackTo("t", place);
    const entries = await entriesOf(travel);
    expect(entries).toHaveLength(count + 1);
    expect(entries[0]).toMatchObject({ checkpoint, head: true, parent: place });
    expect((await travel.diff({ thread: "t", checkpoint: place }, { thread: "t" })).channels).toEqual({});
    expect((await saver.waits({ thread: "t" })).map(({ status }) => status)).toEqual(["superseded"]);
    seen.length = 0;
    expect(await app.invoke(null, config)).toHaveProperty("__interrupt__");
    expect(seen).toEqual(["a"]);
    expect(await saver.verifyDecisions({ thread: "t" })).toMatchObject({ broken: [] });
  });
});

test("every store gives the same branches", async () => {
  const seen = await Promise.all(
    storeNames.map(async (name) => {
      const app = chain(await openStore(name), logging([], "a", "b"));
      await app.invoke({ n: 1 }, at("t"));
      const travel = timeTravel(app);
      const place = await before(travel, "b");
      await app.invoke(null, (await travel.fork("t", place, { values: { log: ["x"] } })).config);
      await travel.fork("t", place, { values: { log: ["y"] }, asNode: "b" });
      const entries = await entriesOf(travel, "t", { values: true });
      const number = new Map(entries.map(({ checkpoint }, i) => [checkpoint, i]));
      return entries.map(({ parent, children, source, step, next, values, head, onHead, left, fork }) => ({
        parent: parent === undefined ? undefined : number.get(parent),
        children: children.map((id) => number.get(id)).sort(),
        fork: number.get(fork?.checkpoint ?? ""),
        ...{ source, step, next, values, head, onHead, left },
      }));
    }),
  );
  expect(seen[1]).toEqual(seen[0]);
  expect(seen[2]).toEqual(seen[0]);
});

describe("questions", () => {
  test("a branch from before an answered question asks again, and the old answer stays with the old question", async () => {
    const saver = memory();
    const app = chain(saver, {
      a: () => ({}),
      q: async () => ({ log: [`safe ${(await ask("Ship?")).by}`, `plain ${String(interrupt("ok?"))}`] }),
    });
    const answerAll = async (by: string) => {
      for (let open = await openWaits(); open.length > 0; open = await openWaits()) {
        for (const { id, kind } of open) {
          await saver.answer(id, kind === "question" ? { type: "approve" } : { type: "respond", value: by }, { by });
        }
        await app.invoke(null, at("t"));
      }
    };
    const openWaits = () => saver.waits({ thread: "t", status: ["open"] });
    await app.invoke({ n: 1 }, at("t"));
    await answerAll("ada");
    const travel = timeTravel(app);
    await app.invoke(null, (await travel.fork("t", await before(travel, "q"))).config);
    expect(await openWaits()).toHaveLength(1);
    await answerAll("eve");
    expect((await app.getState(at("t"))).values.log).toEqual(["safe eve", "plain eve"]);
    expect((await saver.waits({ thread: "t" })).map(({ status }) => status)).toEqual(Array(4).fill("consumed"));
  });

  test("an edit of a paused thread, as each of its nodes, adds one checkpoint, closes the question and runs nothing; then it goes on to the next pause", async () => {
    for (const [asNode, then] of [
      ["a", ["q1"]],
      ["q1", ["b", "q2"]],
      ["b", ["q2"]],
      ["q2", []],
    ] as const) {
      const saver = memory();
      const seen: string[] = [];
      const pause = (name: string) => async () => {
        seen.push(name);
        return { log: [`${name} ${(await ask(name)).decision}`] };
      };
      const app = chain(saver, { ...logging(seen, "a"), q1: pause("q1"), ...logging(seen, "b"), q2: pause("q2") });
      await app.invoke({ n: 1 }, at("t"));
      const travel = timeTravel(app);
      const [head] = await entriesOf(travel);
      const count = (await entriesOf(travel)).length;
      seen.length = 0;
      const { config } = await travel.fork("t", head?.checkpoint ?? "", { values: { log: ["edited"] }, asNode });
      expect(await entriesOf(travel)).toHaveLength(count + 1);
      expect((await saver.waits({ thread: "t" })).map(({ status }) => status)).toEqual(["superseded"]);
      expect(seen).toEqual([]);
      await app.invoke(null, config);
      expect(seen).toEqual(then);
      const open = await saver.waits({ thread: "t", status: ["open"] });
      expect(open.map(({ name }) => name)).toEqual(then.length === 0 ? [] : [then.at(-1)]);
    }
  });

  test("a breakpoint that was passed does not stop the branch, and the next one does", async () => {
    const seen: string[] = [];
    const graph = new StateGraph(State)
      .addNode(logging(seen, "a", "b", "c") as never)
      .addEdge(START, "a" as never)
      .addEdge("a" as never, "b" as never)
      .addEdge("b" as never, "c" as never);
    const app = graph.compile({ checkpointer: memory(), interruptBefore: ["b", "c"] as never });
    await app.invoke({ n: 1 }, at("t"));
    const travel = timeTravel(app);
    const { config } = await travel.fork("t", await before(travel, "b"), { values: { n: 2 } });
    await app.invoke(null, config);
    expect(seen).toEqual(["a", "b"]);
    await app.invoke(null, config);
    expect(seen).toEqual(["a", "b", "c"]);
  });
});

describe("values", () => {
  test("an edited message replaces the one with its id, in place and in a new thread", async () => {
    const app = new StateGraph(MessagesAnnotation)
      .addNode("echo", ({ messages }) => ({
        messages: [new HumanMessage({ id: "e", content: `echo ${String(messages[0]?.content)}` })] as Messages,
      }))
      .addEdge(START, "echo")
      .compile({ checkpointer: memory() });
    await app.invoke({ messages: [new HumanMessage({ id: "h", content: "one ".repeat(300) })] }, at("t"));
    const travel = timeTravel(app);
    const place = await before(travel, "echo");
    for (const to of [undefined, "u"]) {
      const values = { messages: [new HumanMessage({ id: "h", content: "two" })] };
      const { config } = await travel.fork("t", place, { values, ...(to === undefined ? {} : { to }) });
      const { messages } = await app.invoke(null, config);
      expect(messages.map(({ content }) => content)).toEqual(["two", "echo two"]);
    }
  });

  test("a DeltaChannel has on every branch, and in every new thread, exactly what it had at the checkpoint", async () => {
    const saver = memory();
    const items = () =>
      new DeltaChannel<string[], string[]>((state, updates) => (state ?? []).concat(...updates), {
        snapshotFrequency: 100,
      });
    const node = (name: string) => () => ({ items: [name] }) as never;
    const app = new StateGraph(Annotation.Root({ items: items as never }) as unknown as typeof State)
      .addNode("a", node("a"))
      .addNode("b", node("b"))
      .addNode("c", node("c"))
      .addEdge(START, "a")
      .addEdge("a", "b")
      .addEdge("b", "c")
      .compile({ checkpointer: saver });
    await app.invoke({ items: ["in"] } as never, at("t"));
    const travel = timeTravel(app);
    const places = new Map((await entriesOf(travel)).map(({ next, checkpoint }) => [next[0], checkpoint]));
    for (const from of ["a", "b", "c"]) {
      const place = places.get(from) ?? "";
      const kept = ["in", "a", "b", "c"].slice(0, ["a", "b", "c"].indexOf(from) + 1);
      const rest = ["a", "b", "c"].slice(["a", "b", "c"].indexOf(from));
      expect(await app.invoke(null, (await travel.fork("t", place)).config)).toEqual({ items: [...kept, ...rest] });
      const edited = await travel.fork("t", place, { values: { items: ["x"] } as never });
      expect(await app.invoke(null, edited.config)).toEqual({ items: [...kept, "x", ...rest] });
      const { config } = await travel.fork("t", place, { to: `from ${from}` });
      expect(await app.invoke(null, config)).toEqual({ items: [...kept, ...rest] });
      expect((await app.getState(config)).values).toEqual({ items: [...kept, ...rest] });
    }
  });

  test("a thread can be ended by an edit, and begin a new turn by input at an old checkpoint", async () => {
    const app = chain(memory(), logging([], "a", "b"));
    await app.invoke({ n: 1 }, at("t"));
    const travel = timeTravel(app);
    const [finished] = await entriesOf(travel);
    const ended = await travel.fork("t", await before(travel, "a"), { asNode: "b" });
    expect((await app.getState(ended.config)).next).toEqual([]);
    const input = { values: { n: 5 }, asNode: "__input__" };
    const anew = await travel.fork("t", finished?.checkpoint ?? "", input);
    expect((await app.invoke(null, anew.config)).log).toEqual(["a", "b", "a", "b"]);
  });
});

test("what is wrong with a fork is told before anything is written", async () => {
  const saver = memory();
  const app = chain(saver, { a: () => ({ log: ["a"] }), b: () => ({}) });
  await app.invoke({ n: 1 }, at("t"));
  await app.invoke({ n: 1 }, at("taken"));
  const travel = timeTravel(app);
  const place = await before(travel, "b");
  const contents = await contentsOf(saver, "t", "taken", "u");
  const wrong: readonly [string, unknown, unknown, unknown][] = [
    ["UNKNOWN_CHECKPOINT", "t", "nowhere", {}],
    ["UNKNOWN_CHECKPOINT", "nobody", place, {}],
    ["THREAD_EXISTS", "t", place, { to: "taken" }],
    ["INVALID_ARGUMENT", "t", place, { to: "t" }],
    ["INVALID_ARGUMENT", "t", place, { to: "" }],
    ["INVALID_ARGUMENT", "t", place, { effects: "repeat" }],
    ["INVALID_ARGUMENT", "t", place, { asNode: "nobody", values: { n: 2 } }],
    ["INVALID_ARGUMENT", "t", place, { asNode: "__copy__" }],
    ["INVALID_ARGUMENT", "t", place, { values: null }],
    ["INVALID_ARGUMENT", "t", place, { values: { nothing: 1 } }],
    ["INVALID_ARGUMENT", "t", place, { as_node: "a" }],
    ["INVALID_ARGUMENT", "", place, {}],
    ["INVALID_ARGUMENT", "t", 7, {}],
    ["INVALID_ID", "t", place, { to: "x".repeat(5000) }],
  ];
  for (const [code, thread, checkpoint, options] of wrong) {
    for (const call of [travel.fork, travel.preview]) {
      const error = await errorOf(call(thread as never, checkpoint as never, options as never));
      expect([options, error?.code]).toEqual([options, code]);
    }
  }
  expect((await errorOf(travel.fork("t", place, { asNode: "nobody", values: {} })))?.message).toContain("a, b");
  expect(await contentsOf(saver, "t", "taken", "u")).toBe(contents);
  const foreign = () => timeTravel({ ...app, checkpointer: undefined } as never);
  expect(foreign).toThrow(expect.objectContaining({ code: "FOREIGN_CHECKPOINTER" }));
});

test("of two forks into one new thread one begins it, and the other is refused", async () => {
  const app = chain(memory(), { a: () => ({}), b: () => ({}) });
  await app.invoke({ n: 1 }, at("t"));
  const travel = timeTravel(app);
  const place = await before(travel, "b");
  const both = await Promise.all([0, 1].map((n) => errorOf(travel.fork("t", place, { to: "u", values: { n } }))));
  expect(both.map((error) => error?.code).sort()).toEqual(["THREAD_EXISTS", undefined]);
  expect(await entriesOf(travel, "u")).toHaveLength(1);
});

test("a run that is under way when its thread is forked is refused, and the branch stays the head", async () => {
  const saver = memory();
  let forked: Promise<{ readonly checkpoint: string }> | undefined;
  const app = chain(saver, {
    a: () => ({}),
    b: async () => {
      forked ??= before(timeTravel(app), "a").then((place) => timeTravel(app).fork("t", place));
      await forked;
      return { log: ["late"] };
    },
    c: () => ({}),
  });
  const error = await errorOf(app.invoke({ n: 1 }, at("t")));
  expect(error?.code).toMatch(/^(HEAD_MOVED|RUN_REFUSED)$/);
  expect((await app.getState(at("t"))).config.configurable?.["checkpoint_id"]).toBe((await forked)?.checkpoint);
});

test("an operator repairs a stuck run by hand, and the record says who did it", async () => {
  const saver = memory();
  const mail = effect("mail", {
    input: z.string(),
    run: (): string => {
      throw new Error("connection lost");
    },
  });
  const app = chain(saver, { tell: async () => ({ log: [await mail("ada")] }) });
  await errorOf(app.invoke({ n: 1 }, at("t")));
  expect(await run(app, null, at("t"))).toMatchObject({ status: "parked" });
  const [{ key } = { key: "" }] = await saver.effects({ thread: "t" });
  await saver.settle(key, { done: "sent by hand" }, { by: "eve" });
  expect(await run(app, null, at("t"))).toMatchObject({ status: "finished", values: { log: ["sent by hand"] } });
  const settled = (await entriesOf(timeTravel(app))).flatMap(({ effects }) => effects);
  expect(settled).toMatchObject([{ deed: "executed", decision: { by: "eve", decision: { done: "sent by hand" } } }]);
});
