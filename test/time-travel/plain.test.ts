/** The same through plain LangGraph calls: replays, updates, new input, states of subgraphs. */

import { Command, interrupt, START, StateGraph } from "@langchain/langgraph";
import { type Backend, effect, type EffectQuery, timeTravel } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { newStore } from "../backends-table.ts";
import { chain } from "../checkpointer/guarantees.ts";
import { type App, State } from "../checkpointer/shapes.ts";
import { at, errorOf } from "../checkpointer/subject.ts";
import { before, entriesOf } from "./travel.ts";

const place = (thread_id: string, checkpoint_id: string) => ({ configurable: { thread_id, checkpoint_id } });

describe("the word of a branch", () => {
  /** A thread with a real branch and one that simulates; the head is on `head`. */
  async function twoBranches(head: "real" | "simulated") {
    const saver = memory();
    let bodies = 0;
    const pay = effect("pay", { input: z.number(), run: () => ++bodies, simulate: () => -1 });
    const app = chain(saver, { a: () => ({}), b: async ({ n }) => ({ log: [String(await pay(n))] }), c: () => ({}) });
    await app.invoke({ n: 1 }, at("t"));
    const travel = timeTravel(app);
    const real = await before(travel, "b");
    const simulated = (await travel.fork("t", real, { effects: "simulate" })).checkpoint;
    await app.invoke(null, at("t"));
    if (head === "real") await travel.rollbackTo("t", real);
    const bodiesNow = () => bodies;
    return { app, travel, real, simulated, bodies: bodiesNow };
  }

  test("is that of the checkpoint a replay is addressed to, wherever the head is", async () => {
    const one = await twoBranches("real");
    expect((await one.app.invoke(null, place("t", one.simulated))).log).toEqual(["-1"]);
    const two = await twoBranches("simulated");
    expect((await two.app.invoke(null, place("t", two.real))).log).toEqual(["1"]);
    expect((await entriesOf(two.travel))[0]?.effectsPolicy).toBeUndefined();
    expect([one.bodies(), two.bodies()]).toEqual([1, 1]);
  });

  test("is that of the checkpoint that is updated, wherever the head is", async () => {
    const one = await twoBranches("real");
    await one.app.updateState(place("t", one.simulated), { n: 9 }, "a");
    expect((await entriesOf(one.travel))[0]?.effectsPolicy).toBe("simulate");
    expect((await one.app.invoke(null, at("t"))).log).toEqual(["-1"]);
    const two = await twoBranches("simulated");
    await two.app.updateState(place("t", two.real), { log: ["edited"] }, "a");
    expect((await entriesOf(two.travel))[0]?.effectsPolicy).toBeUndefined();
    expect((await two.app.invoke(null, at("t"))).log).toEqual(["edited", "1"]);
    expect([one.bodies(), two.bodies()]).toEqual([1, 1]);
  });
});

describe("what a thread pays for being forked", () => {
  /** The effect queries of a thread's calls, beside those of a task. */
  async function queries(play: (app: App, fail: (now: boolean) => void) => Promise<void>): Promise<string[]> {
    const seen: string[] = [];
    const counting = (backend: Backend): Backend =>
      new Proxy(backend, {
        get(target, property) {
          const value: unknown = Reflect.get(target, property, target);
          if (typeof value !== "function") return value;
          if (property === "ancestors") seen.push("ancestors");
          if (property !== "effects") return value.bind(target) as unknown;
          return (query: EffectQuery) => {
            if (!("task" in query) && !("key" in query))
              seen.push("digest" in query ? "by input" : "all of the thread");
            return target.effects(query);
          };
        },
      });
    const saver = await (await newStore("memory")).open({}, counting);
    let failing = false;
    const ping = effect("ping", { input: z.string(), run: (text) => text });
    const app = chain(saver, {
      a: async ({ n, log }) => ({ log: [await ping(`a ${n} ${log.length}`)] }),
      b: async ({ n, log }) => {
        const done = await ping(`b ${n} ${log.length}`);
        if (failing) throw new Error("later");
        return { log: [done] };
      },
    }) as unknown as App;
    await app.invoke({ n: 1 }, at("t"));
    seen.length = 0;
    await play(app, (now) => {
      failing = now;
    });
    return seen;
  }

  test("is nothing before it is: turns, failures and resumes look for the same input only, and read no ancestors", async () => {
    const seen = await queries(async (app, fail) => {
      await app.invoke({ n: 2 }, at("t"));
      fail(true);
      await errorOf(app.invoke({ n: 3 }, at("t")));
      fail(false);
      await app.invoke(null, at("t"));
      await app.invoke({ n: 4 }, at("t"));
    });
    expect(new Set(seen)).toEqual(new Set(["by input"]));
  });

  test.each<readonly [string, (app: App, fail: (now: boolean) => void) => Promise<void>]>([
    [
      "a replay",
      async (app) => {
        for await (const { next, config } of app.getStateHistory(at("t")))
          if (next[0] === "b") return void (await app.invoke(null, config));
      },
    ],
    ["an update", async (app) => void (await app.updateState(at("t"), { n: 2 }, "a"))],
    [
      "new input on an unfinished thread",
      async (app, fail) => {
        fail(true);
        await errorOf(app.invoke({ n: 3 }, at("t")));
        fail(false);
        await errorOf(app.invoke({ n: 4 }, at("t")));
      },
    ],
    [
      "a command on an unfinished thread",
      async (app, fail) => {
        fail(true);
        await errorOf(app.invoke({ n: 3 }, at("t")));
        fail(false);
        await errorOf(app.invoke(new Command({ update: { n: 9 } }), at("t")));
      },
    ],
  ])("after %s the whole thread is looked at, also in later turns", async (_, leave) => {
    const seen = await queries(async (app, fail) => {
      await leave(app, fail);
      await errorOf(app.invoke(null, at("t")));
      await errorOf(app.invoke({ n: 7 }, { ...at("t"), configurable: { thread_id: "t", on_paused: "supersede" } }));
    });
    expect(seen.slice(-1)[0]).not.toBe("by input");
    expect(seen).toContain("all of the thread");
  });
});

describe("the state of a subgraph", () => {
  function nested(depth: 1 | 2) {
    const seen: string[] = [];
    let bodies = 0;
    const mark = effect("mark", { input: z.string(), run: () => ++bodies });
    const inner = new StateGraph(State)
      .addNode("i1", async () => {
        seen.push("i1");
        await mark("i1");
        return {};
      })
      .addNode("i2", () => {
        seen.push("i2");
        return { log: [String(interrupt("ok?"))] };
      })
      .addEdge(START, "i1")
      .addEdge("i1", "i2")
      .compile();
    const middle = new StateGraph(State).addNode("inner", inner).addEdge(START, "inner").compile();
    const app = new StateGraph(State)
      .addNode("sub", (depth === 1 ? inner : middle) as never)
      .addNode("r2", async () => {
        seen.push("r2");
        await mark("r2");
        return {};
      })
      .addEdge(START, "sub")
      .addEdge("sub", "r2")
      .compile({ checkpointer: memory() }) as unknown as App;
    return { app, seen, bodies: () => bodies };
  }

  /** The config that LangGraph gives for the innermost paused state. */
  async function innermost(app: App): Promise<{ configurable: Record<string, unknown> }> {
    type Nested = { readonly config: unknown; readonly tasks: readonly { readonly state?: Nested }[] };
    let state = (await app.getState(at("t"), { subgraphs: true })) as unknown as Nested;
    for (let inner = state.tasks[0]?.state; inner !== undefined; inner = state.tasks[0]?.state) state = inner;
    return state.config as never;
  }

  test.each([1, 2] as const)(
    "%i deep is that of a new call where a replay begins around it: it asks again, and no effect is repeated",
    async (depth) => {
      const { app, seen, bodies } = nested(depth);
      await app.invoke({ n: 1 }, at("t"));
      await app.invoke(new Command({ resume: "yes" }), at("t"));
      seen.length = 0;
      for await (const { next, config } of app.getStateHistory(at("t"))) {
        if (next[0] !== "sub") continue;
        expect(await app.invoke(null, config)).toHaveProperty("__interrupt__");
        break;
      }
      const done = (await app.invoke(new Command({ resume: "again" }), at("t"))) as { log: string[] };
      expect([seen.filter((node) => node !== "i2"), bodies(), done.log]).toEqual([["i1", "r2"], 2, ["again"]]);
    },
  );

  test.each([1, 2] as const)(
    "%i deep is addressed where the thread waits: LangGraph goes on there, two deep it begins the inner one anew, and no effect is repeated",
    async (depth) => {
      const { app, seen, bodies } = nested(depth);
      await app.invoke({ n: 1 }, at("t"));
      const config = await innermost(app);
      seen.length = 0;
      for (let i = 0; i < 2; i += 1) expect(await app.invoke(null, config)).toHaveProperty("__interrupt__");
      await app.invoke(new Command({ resume: "yes" }), at("t"));
      const again = depth === 1 ? [] : ["i1", "i1"];
      expect([seen.filter((node) => node !== "i2"), bodies()]).toEqual([[...again, "r2"], 2]);
    },
  );

  test.each([1, 2] as const)(
    "%i deep is addressed after the thread has gone on: the graph begins anew, and no effect is repeated",
    async (depth) => {
      const { app, seen, bodies } = nested(depth);
      await app.invoke({ n: 1 }, at("t"));
      const config = await innermost(app);
      await app.invoke(new Command({ resume: "yes" }), at("t"));
      seen.length = 0;
      expect(await app.invoke(null, config)).toHaveProperty("__interrupt__");
      await app.invoke(new Command({ resume: "again" }), at("t"));
      expect([seen.filter((node) => node !== "i2"), bodies()]).toEqual([["i1", "r2"], 2]);
    },
  );
});

describe("a graph that keeps its state across calls", () => {
  function counting(fail: { at: number | undefined }) {
    const sub = new StateGraph(State)
      .addNode("s", ({ n, log }) => ({ log: [`${n} after ${log.length}`] }))
      .addEdge(START, "s")
      .compile({ checkpointer: true } as never);
    const call = async ({ n }: { n: number }, config: unknown) => {
      if (n === fail.at) throw new Error("before the call");
      return { log: [(await sub.invoke({ n }, config as never)).log.at(-1) ?? ""] };
    };
    return new StateGraph(State)
      .addNode("sub", call, { subgraphs: [sub as never] })
      .addNode("inc", ({ n }) => ({ n: n + 1 }))
      .addEdge(START, "sub")
      .addEdge("sub", "inc")
      .addConditionalEdges("inc", ({ n }) => (n < 3 ? "sub" : "__end__"))
      .compile({ checkpointer: memory() });
  }
  const whole = ["0 after 0", "1 after 1", "2 after 2"];

  test("is called anew after a failure: it takes its input and does not answer with the result of the call before", async () => {
    const fail: { at: number | undefined } = { at: 1 };
    const app = counting(fail);
    await errorOf(app.invoke({ n: 0 }, at("t")));
    fail.at = undefined;
    expect((await app.invoke(null, at("t"))).log).toEqual(whole);
  });

  test("has on a branch, and in a new thread, the state of then, whoever starts the run", async () => {
    for (const n of [0, 1, 2]) {
      const app = counting({ at: undefined });
      await app.invoke({ n: 0 }, at("t"));
      const travel = timeTravel(app);
      const calls = (await entriesOf(travel)).filter(({ next }) => next[0] === "sub");
      const { checkpoint = "" } = calls.reverse()[n] ?? {};
      const { config } = await travel.fork("t", checkpoint, { to: "u" });
      expect((await app.invoke(null, config)).log).toEqual(whole);
      await travel.fork("t", checkpoint);
      expect((await app.invoke(null, at("t"))).log).toEqual(whole);
    }
  });

  test("is forked inside, and goes on there", async () => {
    const sub = new StateGraph(State)
      .addNode("s1", ({ log }) => ({ log: [`s1 after ${log.length}`] }))
      .addNode("s2", () => ({ log: ["s2"] }))
      .addEdge(START, "s1")
      .addEdge("s1", "s2")
      .compile({ checkpointer: true } as never);
    const app = new StateGraph(State)
      .addNode("sub", sub as never)
      .addEdge(START, "sub")
      .compile({ checkpointer: memory() });
    await app.invoke({ n: 1 }, at("t"));
    const travel = timeTravel(app);
    const place = await before(travel, "s2", "t", { subgraphs: true });
    const { config } = await travel.fork("t", place, { values: { log: ["edited"] } });
    expect((await app.invoke(null, config)).log).toEqual(["s1 after 0", "edited", "s2"]);
  });
});
