/** Work that was done stays done: across pauses in subgraphs, in error handlers, under approvals, on ids used again. */

import { interrupt, START, StateGraph } from "@langchain/langgraph";
import { ask, type Backend, type Checkpointer, effect, HoldfastError, type Op } from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { newStore, type Store, storeNames } from "../backends-table.ts";
import { chain } from "../checkpointer/guarantees.ts";
import { State } from "../checkpointer/shapes.ts";
import { at, errorOf } from "../checkpointer/subject.ts";

const eve = { by: "eve" };

/** A checkpointer whose process dies before the first commit with such an operation; nothing is stored from then on. */
async function dying(store: Store, last: (op: Op) => boolean) {
  let dead = false;
  let backend: Backend | undefined;
  const saver = await store.open({}, (inner) => {
    backend = inner;
    return new Proxy(inner, {
      get(target, property) {
        if (property === "commit")
          return async (group: Parameters<Backend["commit"]>[0]) => {
            dead ||= group.flat().some(last);
            if (dead) throw new HoldfastError("STORAGE_FAILED", "The process is dead.");
            return target.commit(group);
          };
        const value: unknown = Reflect.get(target, property, target);
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      },
    });
  });
  return { saver, died: () => dead, bury: async () => backend?.close() };
}

function counted() {
  const seen = { bodies: 0 };
  const pay = effect("pay", { input: z.string(), run: () => ++seen.bodies });
  return { seen, pay };
}

describe.each(storeNames)("%s", (name) => {
  test.each(["its newest checkpoint, unnamed", "an explicit checkpoint_id"])(
    "an effect before a pause inside a subgraph is not repeated when the thread goes on from %s",
    async (how) => {
      const store = await newStore(name);
      const { seen, pay } = counted();
      const build = (saver: Checkpointer) => {
        const sub = new StateGraph(State)
          .addNode("s1", async () => ({ log: [`paid ${await pay("s1")}`] }))
          .addNode("s2", async () => {
            const again = await pay("s2");
            return { log: [`${again} ${String(interrupt("Ok?"))}`] };
          })
          .addEdge(START, "s1")
          .addEdge("s1", "s2")
          .compile();
        return new StateGraph(State).addNode("sub", sub).addEdge(START, "sub").compile({ checkpointer: saver });
      };
      const first = await store.open();
      await build(first).invoke({ n: 1 }, at("t"));
      await first.close();
      const second = await store.open();
      const app = build(second);
      const [open] = await second.waits({ thread: "t", status: ["open"] });
      await second.answer(open?.id as string, { type: "respond", value: "yes" }, eve);
      const { config } = await app.getState(at("t"));
      const { log } = await app.invoke(null, how === "an explicit checkpoint_id" ? config : at("t"));
      expect(seen.bodies).toBe(2);
      expect(log).toEqual(["paid 1", "2 yes"]);
    },
  );

  test("a failure is handled once: the handler's effects and result count once, however often LangGraph runs it", async () => {
    const store = await newStore(name);
    const seen = { failing: 0, handler: 0, effects: 0 };
    const refund = effect("refund", { input: z.string(), run: () => ++seen.effects });
    const build = (saver: Checkpointer) =>
      new StateGraph(State)
        .addNode(
          "a",
          () => {
            seen.failing += 1;
            throw new Error("broken");
          },
          {
            errorHandler: async () => {
              seen.handler += 1;
              return { log: [`handled ${await refund("x")} ${seen.handler}`] };
            },
          } as never,
        )
        .addNode("b", async () => ({ log: [(await ask("Ok?")).decision] }))
        .addEdge(START, "a")
        .addEdge(START, "b")
        .compile({ checkpointer: saver });
    const first = await store.open();
    await build(first).invoke({ n: 1 }, at("t"));
    await first.close();
    const second = await store.open();
    const [open] = await second.waits({ thread: "t", status: ["open"] });
    await build(second).invoke(null, at("t"));
    await second.answer(open?.id as string, { type: "approve" }, eve);
    const { log } = await build(second).invoke(null, at("t"));
    expect(log).toHaveLength(2);
    expect(log.toSorted()).toEqual(["approve", expect.stringMatching(/^handled 1 /)]);
    // What a handler does beside its effects LangGraph does once more each time the thread goes on.
    expect(seen).toEqual({ failing: 1, handler: 3, effects: 1 });
  });

  test("one approval buys one execution: a process that dies after the effect and before the node's result leaves both used up", async () => {
    const store = await newStore(name);
    const { seen, pay } = counted();
    const build = (saver: Checkpointer) =>
      chain(saver, {
        a: async () => {
          const { approved, value } = await ask("Pay?", { details: "x" });
          return { log: [approved ? `paid ${await pay(String(value))}` : "no"] };
        },
      });
    const first = await store.open();
    await build(first).invoke({ n: 1 }, at("t"));
    const [open] = await first.waits({ thread: "t" });
    const id = open?.id as string;
    await first.answer(id, { type: "approve" }, eve);
    await first.close();
    const { saver, died, bury } = await dying(store, (op) => op.kind === "writes" || op.kind === "endWait");
    expect(await errorOf(build(saver).invoke(null, at("t")))).toBeDefined();
    expect([died(), seen.bodies]).toEqual([true, 1]);
    await bury();
    const third = await store.open();
    expect((await build(third).invoke(null, at("t"))).log).toEqual(["paid 1"]);
    expect((await third.waits({ id }))[0]).toMatchObject({ status: "consumed", decision: { by: "eve" } });
    expect(await third.answer(id, { type: "approve" }, { by: "bob" })).toMatchObject({ replayed: true });
    await build(third).invoke(null, at("t"));
    expect(seen.bodies).toBe(1);
  });

  test("a new thread under the id of a deleted one does its work itself", async () => {
    const saver = await (await newStore(name)).open();
    const { seen, pay } = counted();
    const app = chain(saver, { a: async () => ({ log: [`paid ${await pay("x")}`] }) });
    for (const bodies of [1, 2]) {
      expect((await app.invoke({ n: 1 }, at("t"))).log).toEqual([`paid ${bodies}`]);
      await saver.deleteThread("t");
    }
    expect(seen.bodies).toBe(2);
  });

  test.each([
    ["the results of a step are late", "writes"],
    ["the checkpoint after a step is late", "checkpoint"],
  ] as const)("a process that dies while %s repeats no effect afterwards", async (_, kind) => {
    for (const durability of ["sync", "async"] as const) {
      const store = await newStore(name);
      const { seen, pay } = counted();
      const build = (saver: Checkpointer) =>
        chain(saver, {
          a: async () => ({ log: [`paid ${await pay("a")}`] }),
          b: async () => ({ log: [`then ${await pay("b")}`] }),
        });
      // Of the step after the first effect.
      const late = (op: Op) => op.kind === kind && seen.bodies > 0;
      const { saver, died, bury } = await dying(store, late);
      expect(await errorOf(build(saver).invoke({ n: 1 }, at("t", { durability })))).toBeDefined();
      expect(died()).toBe(true);
      await bury();
      const second = await store.open();
      expect((await build(second).invoke(null, at("t", { durability }))).log).toEqual(["paid 1", "then 2"]);
      expect(seen.bodies).toBe(2);
    }
  });

  test.each(["sync", "async"] as const)(
    "the results of a step are stored before the checkpoint that follows it, however late, in %s durability",
    async (durability) => {
      const store = await newStore(name);
      const stored = new Set<string>();
      const early: string[] = [];
      const saver = await store.open(
        {},
        (inner) =>
          new Proxy(inner, {
            get(target, property) {
              if (property === "commit")
                return async (group: Parameters<Backend["commit"]>[0]) => {
                  await new Promise((resolve) => setTimeout(resolve, 15));
                  for (const op of group.flat()) {
                    if (op.kind === "writes") stored.add(op.checkpoint);
                    // The input has no step before it.
                    if (op.kind === "checkpoint" && op.parent !== undefined && !stored.has(op.parent))
                      early.push(op.id);
                  }
                  return target.commit(group);
                };
              const value: unknown = Reflect.get(target, property, target);
              return typeof value === "function" ? (value.bind(target) as unknown) : value;
            },
          }),
      );
      const steps = Object.fromEntries(["a", "b", "c"].map((step) => [step, () => ({ log: [step] })]));
      await chain(saver, steps).invoke({ n: 1 }, at("t", { durability }));
      expect(early).toEqual([]);
      expect(stored.size).toBe(4);
    },
  );

  test("what an effect gives is the same to the bit when it is taken again: NaN, infinities, -0, bigints, odd texts", async () => {
    const store = await newStore(name);
    const value = {
      numbers: [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0, 2n ** 70n],
      texts: ["a\u0000b", "\ud800", "\\u0000", "😀", "x\u0000\ud800".repeat(50_000)],
      none: [undefined, null],
      deep: { map: new Map([[new Date(1), new Set([-0])]]) },
    };
    const seen: unknown[] = [];
    let bodies = 0;
    const get = effect("get", { input: z.any(), run: () => [++bodies, value][1] });
    const build = (saver: Checkpointer) =>
      chain(saver, {
        a: async () => {
          seen.push(await get(value));
          if (seen.length === 1) throw new Error("later");
          return {};
        },
      });
    const first = await store.open();
    await expect(build(first).invoke({ n: 1 }, at("t"))).rejects.toThrow("later");
    await first.close();
    await build(await store.open()).invoke(null, at("t"));
    expect(bodies).toBe(1);
    expect(seen).toStrictEqual([value, value]);
    expect(Object.is((seen[1] as typeof value).numbers[3], -0)).toBe(true);
  });
});
