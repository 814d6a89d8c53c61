/** Forks inside subgraphs: values as of then, and only later nodes run. */

import { Send, START, StateGraph } from "@langchain/langgraph";
import { type Checkpointer, effect, timeTravel } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { expect, test } from "vitest";
import { z } from "zod";
import { chain } from "../checkpointer/guarantees.ts";
import { State } from "../checkpointer/shapes.ts";
import { at, errorOf } from "../checkpointer/subject.ts";
import { before, entriesOf, logging } from "./travel.ts";

/** A graph whose nodes log themselves and charge once each, `depth` graphs deep. */
function nested(saver: Checkpointer, depth: 1 | 2) {
  const seen: string[] = [];
  const bodies: string[] = [];
  const mark = effect("mark", { input: z.string(), run: (node) => bodies.push(node) });
  const marking = (name: string) => async () => {
    seen.push(name);
    await mark(name);
    return { order: name };
  };
  const build = (names: readonly string[], inner?: { readonly name: string; readonly graph: unknown }) => {
    const graph = new StateGraph(State) as StateGraph<
      typeof State.spec,
      typeof State.State,
      typeof State.Update,
      string
    >;
    let last: string = START;
    for (const name of names) {
      graph.addNode(name, (name === inner?.name ? inner.graph : marking(name)) as never).addEdge(last as never, name);
      last = name;
    }
    return graph;
  };
  const inner = build(["i1", "i2", "i3"]).compile();
  const middle = depth === 1 ? inner : build(["m1", "inner", "m3"], { name: "inner", graph: inner }).compile();
  const app = build(["r1", "sub", "r3"], { name: "sub", graph: middle }).compile({ checkpointer: saver });
  return { app, seen, bodies };
}

test.each([1, 2] as const)(
  "a fork inside a graph %i deep runs only the nodes after it, and repeats no effect",
  async (depth) => {
    const saver = memory();
    const { app, seen, bodies } = nested(saver, depth);
    await app.invoke({ n: 1 }, at("t"));
    const all = bodies.splice(0).length;
    const travel = timeTravel(app);
    const place = await before(travel, "i2", "t", { subgraphs: true });
    const after = depth === 1 ? ["i2", "i3", "r3"] : ["i2", "i3", "m3", "r3"];
    const { next } = await travel.preview("t", place);
    expect(next.map(({ node }) => node)).toEqual(depth === 1 ? ["sub", "i2"] : ["sub", "inner", "i2"]);
    for (const options of [{}, { values: { n: 7 } }, { to: "u" }, { values: { n: 8 }, to: "v" }]) {
      seen.length = 0;
      const { config } = await travel.fork("t", place, options);
      await app.invoke(null, config);
      expect([options, seen]).toEqual([options, after]);
    }
    expect(bodies).toEqual([]);
    expect((await saver.effects({ thread: "t" })).filter(({ attempt }) => attempt > 0)).toHaveLength(all);
  },
);

test.each([1, 2] as const)(
  "on such a branch what the graph %i deep had done counts as done: an equal call later is a new one",
  async (depth) => {
    const saver = memory();
    let bodies = 0;
    const tick = effect("tick", { input: z.string(), run: () => ++bodies });
    const ticking = async () => ({ log: [String(await tick("same"))] });
    const inner = new StateGraph(State)
      .addNode("i1", ticking)
      .addNode("i2", () => ({}))
      .addNode("i3", async ({ n }) => (n > 1 ? ticking() : {}))
      .addEdge(START, "i1")
      .addEdge("i1", "i2")
      .addEdge("i2", "i3")
      .compile();
    const middle = new StateGraph(State).addNode("inner", inner).addEdge(START, "inner").compile();
    const app = new StateGraph(State)
      .addNode("sub", (depth === 1 ? inner : middle) as never)
      .addNode("r2", async ({ n }) => (n > 1 ? ticking() : {}))
      .addEdge(START, "sub")
      .addEdge("sub", "r2")
      .compile({ checkpointer: saver });
    await app.invoke({ n: 1 }, at("t"));
    expect(bodies).toBe(1);
    const travel = timeTravel(app);
    const place = await before(travel, "i2", "t", { subgraphs: true });
    await app.invoke(null, (await travel.fork("t", place, { values: { n: 2 } })).config);
    expect(bodies).toBe(3);
  },
);

test("a fork around a graph begins that graph anew, with the values as of then", async () => {
  const { app, seen, bodies } = nested(memory(), 2);
  await app.invoke({ n: 1 }, at("t"));
  seen.length = 0;
  const travel = timeTravel(app);
  const done = bodies.length;
  await app.invoke(null, (await travel.fork("t", await before(travel, "sub"))).config);
  expect(seen).toEqual(["m1", "i1", "i2", "i3", "m3", "r3"]);
  expect(bodies).toHaveLength(done);
  expect((await app.getState(at("t"))).values.order).toBe((await app.getState(at("t"))).values.order);
});

test("one of several Sends goes on inside, and its siblings run again without repeating an effect", async () => {
  const seen: string[] = [];
  let bodies = 0;
  const mark = effect("mark", { input: z.string(), run: () => ++bodies });
  const inner = new StateGraph(State)
    .addNode("i1", async ({ order }) => {
      seen.push(`i1 ${order}`);
      await mark(`i1 ${order}`);
      return {};
    })
    .addNode("i2", ({ order }) => {
      seen.push(`i2 ${order}`);
      return { log: [`done ${order}`] };
    })
    .addEdge(START, "i1")
    .addEdge("i1", "i2")
    .compile();
  const app = new StateGraph(State)
    .addNode("a", () => ({}))
    .addNode("w", inner)
    .addEdge(START, "a")
    .addConditionalEdges("a", () => ["one", "two"].map((order) => new Send("w", { order })), ["w"])
    .compile({ checkpointer: memory() });
  await app.invoke({ n: 0 }, at("t"));
  const all = seen.splice(0).sort();
  expect(all).toHaveLength(4);
  const travel = timeTravel(app);
  const inside = (await entriesOf(travel, "t", { subgraphs: true, values: true })).find(
    ({ next, values }) => next[0] === "i2" && String((values as { order: string }).order).includes("two"),
  );
  await app.invoke(null, (await travel.fork("t", inside?.checkpoint ?? "")).config);
  expect(seen.sort()).toEqual(all.filter((text) => !(text.startsWith("i1") && text.includes("two"))));
  expect(bodies).toBe(2);
});

test("a graph that a node calls is forked inside where LangGraph can find it, and refused where it has to be edited and cannot", async () => {
  const seen: string[] = [];
  const inner = new StateGraph(State)
    .addNode(logging(seen, "i1", "i2") as never)
    .addEdge(START, "i1" as never)
    .addEdge("i1" as never, "i2" as never)
    .compile();
  const app = chain(memory(), {
    call: async ({ n }) => {
      seen.push("call");
      return { log: (await inner.invoke({ n })).log };
    },
  });
  await app.invoke({ n: 1 }, at("t"));
  const travel = timeTravel(app);
  const inside = (await entriesOf(travel, "t", { subgraphs: true })).filter(({ ns }) => ns !== "");
  const place = inside.at(-2)?.checkpoint ?? "";
  seen.length = 0;
  await app.invoke(null, (await travel.fork("t", place)).config);
  expect(seen).toEqual(["call", "i1", "i2"]);
  const later = inside.at(-3)?.checkpoint ?? "";
  seen.length = 0;
  await app.invoke(null, (await travel.fork("t", later)).config);
  expect(seen).toEqual(["call", "i2"]);
  expect(await errorOf(travel.fork("t", later, { values: { n: 2 } }))).toMatchObject({ code: "NOT_SUPPORTED" });
});
