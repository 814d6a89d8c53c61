/** A thread that pauses under one version of a graph and goes on under the next. */

import { Annotation, interrupt, START, StateGraph } from "@langchain/langgraph";
import { ask, type Checkpointer, run } from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { newStore, storeNames } from "../backends-table.ts";
import { at, errorOf } from "../checkpointer/subject.ts";
import { openWaits, parallel, sequence } from "./graphs.ts";

const eve = { by: "eve" };

interface App {
  invoke(input: unknown, config: unknown): Promise<Record<string, unknown>>;
  getState(config: unknown): Promise<{ readonly next: readonly string[]; readonly values: Record<string, unknown> }>;
}

/** Two nodes over channels of these names, of which the second is paused before or inside. */
function graph(saver: Checkpointer, channels: readonly string[], pause: "breakpoint" | "interrupt" | "ask"): App {
  const spec = Object.fromEntries(channels.map((name) => [name, Annotation<unknown>()]));
  const builder = new StateGraph(Annotation.Root({ ...spec, end: Annotation<string>() }) as never) as unknown as {
    addNode(name: string, node: (state: Record<string, unknown>) => unknown): void;
    addEdge(from: string, to: string): void;
    compile(options: object): App;
  };
  builder.addNode("a", () => ({}));
  builder.addNode("b", async (state) => {
    const said = pause === "ask" ? (await ask("Ok?")).decision : pause === "interrupt" ? interrupt("Ok?") : "passed";
    return { end: `${String(said)} ${JSON.stringify(state)}` };
  });
  builder.addEdge(START, "a");
  builder.addEdge("a", "b");
  return builder.compile({ checkpointer: saver, ...(pause === "breakpoint" ? { interruptBefore: ["b"] } : {}) });
}

const changes: [what: string, before: readonly string[], after: readonly string[]][] = [
  ["removed", ["kept", "old"], ["kept"]],
  ["added", ["kept"], ["kept", "fresh"]],
  ["renamed", ["kept", "old"], ["kept", "renamed"]],
];

describe.each(storeNames)("%s", (name) => {
  describe.each(["breakpoint", "interrupt", "ask"] as const)("paused by %s", (pause) => {
    test.each(changes)("a thread reaches its end after a state key was %s", async (_, before, after) => {
      const store = await newStore(name);
      const first = await store.open();
      await graph(first, before, pause).invoke({ kept: 1, old: 2 }, at("t"));
      await first.close();
      const second = await store.open();
      const app = graph(second, after, pause);
      expect((await app.getState(at("t"))).next).toEqual(["b"]);
      const [open] = await openWaits(second);
      if (open !== undefined) await second.answer(open.id, { type: "approve" }, eve);
      const { end } = await app.invoke(null, at("t"));
      expect(end).toMatch(/^(passed|approve|true) \{.*"kept":1/);
      expect((await app.getState(at("t"))).next).toEqual([]);
      const again = await run(app as never, null, at("t"));
      expect(again.status).toBe("already_done");
    });
  });

  test("a thread goes on after the type of a state key has changed, and the node gets the value as it was stored", async () => {
    const store = await newStore(name);
    const build = (saver: Checkpointer, n: z.ZodType) =>
      new StateGraph(z.object({ n, end: z.string().optional() }) as never)
        .addNode("a", (async (state: unknown) => {
          const { approved } = await ask("Ok?");
          return { end: `${approved} ${JSON.stringify(state)}` };
        }) as never)
        .addEdge(START, "a" as never)
        .compile({ checkpointer: saver }) as unknown as App;
    const first = await store.open();
    await build(first, z.number()).invoke({ n: 5 }, at("t"));
    await first.close();
    const second = await store.open();
    await second.answer((await openWaits(second))[0]?.id as string, { type: "approve" }, eve);
    expect((await build(second, z.string()).invoke(null, at("t")))["end"]).toBe('true {"n":5}');
  });

  test("a question asked by one build is listed, answered and taken by the next one with the same graph", async () => {
    const store = await newStore(name);
    const nodes = (build: string) => ({
      a: async () => ({ log: [`${(await ask("Ship?", { details: 1 })).decision} under ${build}`] }),
    });
    const first = await store.open();
    await sequence(first, nodes("v1")).invoke({ log: [] }, { configurable: { thread_id: "t", graph_id: "order" } });
    await first.close();
    const second = await store.open();
    const [open] = await second.waits({ graph: "order", status: ["open"] });
    await second.answer(open?.id as string, { type: "approve" }, eve);
    expect((await sequence(second, nodes("v2")).invoke(null, at("t"))).log).toEqual(["approve under v2"]);
  });

  test.each(["open", "answered"])(
    "a thread whose %s question no node asks any more is not called finished, and goes on under a graph that has the node",
    async (status) => {
      const store = await newStore(name);
      const node = async () => ({ log: [(await ask("Ok?")).decision] });
      const first = await store.open();
      await sequence(first, { ask: node }).invoke({ log: [] }, at("t"));
      const id = (await openWaits(first))[0]?.id as string;
      if (status === "answered") await first.answer(id, { type: "approve" }, eve);
      await first.close();
      const second = await store.open();
      expect(await errorOf(run(sequence(second, { ask_v2: node }) as never, null, at("t")))).toMatchObject({
        code: "WAIT_STRANDED",
        details: { waits: [{ id, name: "Ok?", status }] },
      });
      if (status === "open") await second.answer(id, { type: "approve" }, eve);
      const done = await run(sequence(second, { ask: node }) as never, null, at("t"));
      expect(done).toMatchObject({ status: "finished", values: { log: ["approve"] } });
    },
  );

  test("a decision that no node takes ends the run with its name instead of running for ever", async () => {
    const store = await newStore(name);
    const node = (label: string) => async () => ({
      log: [`${label} ${(await ask("Ok?", { details: label })).decision}`],
    });
    const first = await store.open();
    await parallel(first, { a: node("a"), b: node("b") }).invoke({ log: [] }, at("t"));
    const gone = (await openWaits(first)).find(({ details }) => details === "a");
    await first.answer(gone?.id as string, { type: "approve" }, eve);
    await first.close();
    const second = await store.open();
    expect(await errorOf(run(parallel(second, { a2: node("a"), b: node("b") }) as never, null, at("t")))).toMatchObject(
      {
        code: "WAIT_STRANDED",
        details: { waits: [{ id: gone?.id, status: "answered" }] },
      },
    );
  });

  test("a thread that goes on in exit durability after a state key was removed is not taken for one with new input", async () => {
    const store = await newStore(name);
    const first = await store.open();
    await graph(first, ["kept", "old"], "interrupt").invoke({ kept: 1, old: 2 }, at("t"));
    await first.close();
    const second = await store.open();
    const [open] = await openWaits(second);
    await second.answer(open?.id as string, { type: "approve" }, eve);
    const { end } = await graph(second, ["kept"], "interrupt").invoke(null, at("t", { durability: "exit" }));
    expect(end).toMatch(/^true/);
    expect((await second.waits({ thread: "t" })).map(({ status }) => status)).toEqual(["consumed"]);
  });
});
