/** The timeline of a thread: its tree, tasks, effects, waits and decisions. */

import { interrupt, START, StateGraph } from "@langchain/langgraph";
import { ask, effect, type HistoryEntry, timeTravel } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { newStore, storeNames } from "../backends-table.ts";
import { chain } from "../checkpointer/guarantees.ts";
import { type Snapshot, State, shapes } from "../checkpointer/shapes.ts";
import { at, errorOf } from "../checkpointer/subject.ts";
import { before, entriesOf } from "./travel.ts";

const steps = { a: () => ({ log: ["a"] }), b: () => ({ log: ["b"] }), c: () => ({ log: ["c"] }) };

describe.each(storeNames)("on %s", (name) => {
  test("branches stand in the tree with their parents and children, and one way leads from the head to the beginning", async () => {
    const saver = await (await newStore(name)).open();
    const app = chain(saver, steps);
    await app.invoke({ n: 1 }, at("t"));
    const travel = timeTravel(app);
    const fork = await before(travel, "b");
    await app.invoke(null, (await travel.fork("t", fork, { values: { log: ["edited"] } })).config);
    const entries = await entriesOf(travel);
    const byId = new Map(entries.map((entry) => [entry.checkpoint, entry]));
    expect(byId.size).toBe(entries.length);
    for (const { parent, children, checkpoint } of entries) {
      if (parent !== undefined) expect(byId.get(parent)?.children).toContain(checkpoint);
      for (const child of children) expect(byId.get(child)?.parent).toBe(checkpoint);
    }
    expect(byId.get(fork)?.children).toHaveLength(2);
    const way: string[] = [];
    for (let id = entries.find(({ head }) => head)?.checkpoint; id !== undefined; id = byId.get(id)?.parent)
      way.push(id);
    expect(entries.filter(({ onHead }) => onHead).map(({ checkpoint }) => checkpoint)).toEqual(way);
    expect(entries.filter(({ onHead }) => !onHead)).toHaveLength(2);
    const begun = entries.find((entry) => entry.fork !== undefined);
    expect(begun).toMatchObject({
      source: "update",
      fork: { kind: "fork", thread: "t", checkpoint: fork },
      onHead: true,
    });
  });

  test("a rollback shows as a branch of its own, and what the old head waited for as superseded", async () => {
    const saver = await (await newStore(name)).open();
    const app = chain(saver, {
      a: () => ({ log: ["a"] }),
      q: async () => ({ log: [String((await ask("Go on?")).decision)] }),
    });
    await app.invoke({ n: 1 }, at("t"));
    const travel = timeTravel(app);
    await travel.rollbackTo("t", await before(travel, "a"));
    const entries = await entriesOf(travel);
    expect(entries[0]).toMatchObject({ head: true, source: "fork", fork: { kind: "rollback" }, next: ["a"] });
    const asked = entries.find(({ waits }) => waits.length > 0);
    expect(asked).toMatchObject({
      onHead: false,
      next: ["q"],
      waits: [{ name: "Go on?", status: "superseded", decisions: [{ type: "supersede", by: "rollback" }] }],
    });
  });
});

test("effects stand at the checkpoint they were called from, with what became of them", async () => {
  const saver = memory();
  let lost = true;
  const charge = effect("charge", {
    input: z.number(),
    run: (cents) => `receipt of ${cents}`,
  });
  const mail = effect("mail", {
    input: z.string(),
    run: (): string => {
      if (lost) throw new Error("connection lost");
      return "sent";
    },
  });
  const app = chain(saver, {
    pay: async ({ n }) => ({ log: [await charge(n)] }),
    tell: async () => ({ log: [await mail("ada")] }),
  });
  await errorOf(app.invoke({ n: 5 }, at("t")));
  const travel = timeTravel(app);
  const [head] = await entriesOf(travel);
  expect(head?.tasks).toMatchObject([{ name: "tell", status: "failed", error: { message: "connection lost" } }]);
  expect(head?.effects).toMatchObject([{ name: "mail", deed: "failed", attempt: 1, input: "ada" }]);
  const [effectKey] = (head?.effects ?? []).map(({ key }) => key);
  await saver.settle(effectKey ?? "", { giveUp: "no such address" }, { by: "eve" });
  lost = false;
  await app.invoke(null, (await travel.fork("t", await before(travel, "pay"))).config);
  const deeds = (entries: readonly HistoryEntry[]) =>
    entries.flatMap(({ effects }) => effects.map(({ name, deed, left }) => [name, deed, left]));
  // A person has given up the mail, and now is asked about it again on the other branch: nothing is decided there yet.
  expect(deeds(await entriesOf(travel))).toEqual([
    ["charge", "reused", false],
    ["mail", "given-up", true],
    ["charge", "executed", true],
  ]);
  const all = (await entriesOf(travel)).flatMap(({ effects }) => effects);
  const [reused, executed] = ["reused", "executed"].map((deed) => all.find((effect) => effect.deed === deed));
  expect(reused?.links.reusedFrom).toBe(executed?.key);
});

test("what was simulated shows as simulated, and what a denying effect threw as the task's error", async () => {
  const saver = memory();
  const definition = { input: z.number(), run: (n: number) => `done ${n}` };
  const build = (onFork: "deny" | "simulate") => {
    const pay = effect("pay", { ...definition, onFork });
    return chain(saver, { a: () => ({}), pay: async ({ n }) => ({ log: [await pay(n)] }) });
  };
  const app = build("simulate");
  await app.invoke({ n: 1 }, at("t"));
  const travel = timeTravel(app);
  const place = await before(travel, "pay");
  await app.invoke(null, (await travel.fork("t", place)).config);
  expect((await entriesOf(travel)).flatMap(({ effects }) => effects.map(({ deed }) => deed))).toEqual([
    "simulated",
    "executed",
  ]);
  await travel.fork("t", place);
  await errorOf(build("deny").invoke(null, at("t")));
  const [head] = await entriesOf(travel);
  expect(head?.tasks).toMatchObject([{ name: "pay", status: "failed", error: { code: "EFFECT_FORKED" } }]);
});

test("questions and their answers stand at the checkpoint that asked, also those of graphs inside", async () => {
  const saver = memory();
  const inner = new StateGraph(State)
    .addNode("q", async () => ({ log: [String((await ask("Really?", { details: 5 })).value)] }))
    .addEdge(START, "q")
    .compile();
  const app = new StateGraph(State).addNode("sub", inner).addEdge(START, "sub").compile({ checkpointer: saver });
  await app.invoke({ n: 1 }, at("t"));
  const [wait] = await saver.waits({ thread: "t" });
  await saver.answer(wait?.id ?? "", { type: "approve" }, { by: "ada" });
  await app.invoke(null, at("t"));
  const travel = timeTravel(app);
  const roots = await entriesOf(travel);
  expect(roots.find(({ next }) => next[0] === "sub")?.waits).toMatchObject([
    { id: wait?.id, status: "consumed", decisions: [{ type: "approve", by: "ada" }] },
  ]);
  const all = await entriesOf(travel, "t", { subgraphs: true });
  expect(all.find(({ ns, next }) => ns !== "" && next[0] === "q")?.waits).toHaveLength(1);
  expect(all.filter(({ ns }) => ns === "").flatMap(({ waits }) => waits)).toEqual([]);
});

test("pages continue one another, and read backwards they are the whole history", async () => {
  const app = chain(memory(), steps);
  await app.invoke({ n: 1 }, at("t"));
  const travel = timeTravel(app);
  await travel.fork("t", await before(travel, "b"));
  await app.invoke(null, at("t"));
  const whole = await entriesOf(travel);
  const paged: HistoryEntry[] = [];
  for (;;) {
    const last = paged.at(-1)?.checkpoint;
    const page = await entriesOf(travel, "t", { limit: 2, ...(last === undefined ? {} : { before: last }) });
    if (page.length === 0) break;
    paged.push(...page);
  }
  expect(paged).toEqual(whole);
  expect(whole.length).toBeGreaterThan(6);
});

test("values are there where they are asked for, and nowhere else", async () => {
  const app = chain(memory(), steps);
  await app.invoke({ n: 1 }, at("t"));
  const travel = timeTravel(app);
  expect((await entriesOf(travel)).every(({ values }) => values === undefined)).toBe(true);
  const [head] = await entriesOf(travel, "t", { values: true, limit: 1 });
  expect(head?.values).toEqual((await app.getState(at("t"))).values);
});

test("a thread that does not exist has no history, and what is no option or checkpoint is refused", async () => {
  const travel = timeTravel(chain(memory(), steps));
  expect(await entriesOf(travel, "nobody")).toEqual([]);
  expect((await errorOf(entriesOf(travel, "t", { before: "nowhere" })))?.code).toBe("UNKNOWN_CHECKPOINT");
  for (const options of [{ limit: 0 }, { limit: 1.5 }, { before: "" }, { newest: true }]) {
    expect((await errorOf(entriesOf(travel, "t", options as never)))?.code).toBe("INVALID_ARGUMENT");
  }
  expect((await errorOf(entriesOf(travel, "")))?.code).toBe("INVALID_ARGUMENT");
});

test("under a clock that was set back the way from the head to the beginning is still whole", async () => {
  const saver = memory();
  const app = chain(saver, steps);
  await app.invoke({ n: 1 }, at("t"));
  const real = Date.now;
  Date.now = () => real() - 3_600_000;
  try {
    await app.invoke({ n: 2 }, at("t"));
  } finally {
    Date.now = real;
  }
  const entries = await entriesOf(timeTravel(app));
  expect(entries.every(({ onHead }) => onHead)).toBe(true);
  expect(entries.filter(({ head }) => head)).toHaveLength(1);
  const middle = entries.filter(({ children }) => children.length === 1);
  expect(middle).toHaveLength(entries.length - 1);
});

/** The same things of a snapshot of LangGraph's and of an entry of ours. */
const seen = (next: readonly string[], tasks: Snapshot["tasks"] | HistoryEntry["tasks"]) => ({
  next,
  tasks: tasks.map(({ id, name, interrupts, ...task }) => ({
    id,
    name,
    interrupts: interrupts.map(({ value }) => value),
    result: (task as { result?: unknown }).result,
    failed: (task as { error?: unknown }).error !== undefined,
  })),
});

describe.each(shapes)("of a graph with $name", (shape) => {
  test("tasks and next nodes are those that LangGraph's own history tells, though no values are loaded", async () => {
    const saver = memory();
    const failures = new Set<string>();
    const app = shape.build(saver, failures);
    failures.add(shape.nodes.at(-1) ?? "");
    await errorOf(app.invoke(shape.input(1), at("t")));
    failures.clear();
    await errorOf(app.invoke(null, at("t")));
    const travel = timeTravel(app as unknown as Parameters<typeof timeTravel>[0]);
    const expected = [];
    for await (const snapshot of app.getStateHistory(at("t"))) expected.push(snapshot);
    const entries = await entriesOf(travel);
    expect(entries.map(({ next, tasks }) => seen(next, tasks))).toEqual(
      expected.map(({ next, tasks }) => seen(next, tasks)),
    );
    const full = await entriesOf(travel, "t", { values: true });
    expect(full.map(({ values }) => values)).toEqual(expected.map(({ values }) => values));
    expect(full.map(({ next, tasks }) => ({ next, tasks }))).toEqual(
      entries.map(({ next, tasks }) => ({ next, tasks })),
    );
  });
});

test("entries of graphs inside tell their own tasks, and whether they ran from a checkpoint on the way to the head", async () => {
  const inner = new StateGraph(State)
    .addNode("s1", () => ({ log: ["s1"] }))
    .addNode("s2", () => ({ log: [String(interrupt("ok?"))] }))
    .addEdge(START, "s1")
    .addEdge("s1", "s2")
    .compile();
  const app = new StateGraph(State).addNode("sub", inner).addEdge(START, "sub").compile({ checkpointer: memory() });
  await app.invoke({ n: 1 }, at("t"));
  const travel = timeTravel(app);
  const inside = (await entriesOf(travel, "t", { subgraphs: true })).filter(({ ns }) => ns !== "");
  expect(inside.map(({ next, head, onHead }) => ({ next, head, onHead }))).toEqual([
    { next: ["s2"], head: true, onHead: true },
    { next: ["s1"], head: false, onHead: true },
    { next: ["__start__"], head: false, onHead: true },
  ]);
  await travel.fork("t", await before(travel, "sub"));
  const left = (await entriesOf(travel, "t", { subgraphs: true })).filter(({ ns }) => ns !== "");
  expect(left.every(({ onHead }) => !onHead)).toBe(true);
});
