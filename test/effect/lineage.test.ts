/** What was done outside the current lineage, keys, nesting and repetition (E2, E4, E7). */

import { RunnableLambda } from "@langchain/core/runnables";
import { START, StateGraph, task } from "@langchain/langgraph";
import { type Backend, Checkpointer, effect, type OnFork, stableTaskIds } from "holdfast";
import { memory, memoryBackend } from "holdfast/checkpointers/memory";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { chain } from "../checkpointer/guarantees.ts";
import { State } from "../checkpointer/shapes.ts";
import { at, errorOf, gate } from "../checkpointer/subject.ts";

const input = z.string();

/** A thread with one charge, left behind in some way; `again` makes the node run once more with other ids. */
interface Leaving {
  readonly name: string;
  /** Whether the run in which the charge was made ends in an error. */
  readonly crashes: boolean;
  again(app: ReturnType<typeof chain>): Promise<unknown>;
}

async function configAt(app: ReturnType<typeof chain>, next: string) {
  for await (const snapshot of app.getStateHistory(at("t"))) if (snapshot.next[0] === next) return snapshot.config;
  throw new Error(`the history has no step before ${next}`);
}

const leavings: readonly Leaving[] = [
  {
    name: "a replay from before it",
    crashes: false,
    again: async (app) => app.invoke(null, (await configAt(app, "pay")) as never),
  },
  {
    name: "an edit of the state before it",
    crashes: false,
    again: async (app) =>
      app.invoke(null, await app.updateState((await configAt(app, "pay")) as never, { log: ["edited"] })),
  },
  {
    name: "updateState after the attempt crashed",
    crashes: true,
    again: async (app) => {
      await app.updateState(at("t"), { log: ["edited"] }, "a");
      return app.invoke(null, at("t"));
    },
  },
  { name: "a new input after the attempt crashed", crashes: true, again: async (app) => app.invoke({ n: 2 }, at("t")) },
  {
    name: "the same input again after the attempt crashed",
    crashes: true,
    again: async (app) => app.invoke({ n: 1 }, at("t")),
  },
];

describe.each(leavings)("left by $name", ({ crashes, again }) => {
  async function start(definition: { onFork?: OnFork; simulate?: () => string } = {}) {
    const saver = memory();
    const seen = { bodies: 0, fail: crashes, input: "same" };
    const pay = effect("pay", { input, run: (text) => `receipt ${++seen.bodies} for ${text}`, ...definition });
    const app = chain(saver, {
      a: () => ({}),
      pay: async () => {
        const receipt = await pay(seen.input);
        if (seen.fail) throw new Error("crash");
        return { log: [receipt] };
      },
    });
    await errorOf(app.invoke({ n: 1 }, at("t")));
    seen.fail = false;
    const last = async () => (await app.getState(at("t"))).values.log.at(-1);
    return { saver, app, seen, last };
  }

  test("the outcome of an equal call is taken without running the body, and stays what it is", async () => {
    const { saver, app, seen, last } = await start();
    await again(app);
    expect(await last()).toBe("receipt 1 for same");
    await app.invoke(null, at("t"));
    expect(seen.bodies).toBe(1);
    const [first, second] = [...(await saver.effects({ thread: "t" }))].sort((a, b) => b.attempt - a.attempt);
    expect(second?.links).toMatchObject({ reusedFrom: first?.key, node: "pay" });
  });

  test("a call with another input asks, and nothing runs until a person has decided", async () => {
    const { saver, app, seen, last } = await start();
    seen.input = "other";
    await again(app);
    const [wait] = await saver.waits({ thread: "t", status: ["open"] });
    expect(wait).toMatchObject({ kind: "question", allow: ["approve", "respond", "reject"] });
    expect(wait?.details).toMatchObject({ effect: "pay", input: "other", left: { input: "same", status: "done" } });
    expect(await app.invoke(null, at("t"))).toHaveProperty("__interrupt__");
    expect(seen.bodies).toBe(1);
    await saver.answer(wait?.id ?? "", { type: "approve" }, { by: "ada" });
    await app.invoke(null, at("t"));
    expect([await last(), seen.bodies]).toEqual(["receipt 2 for other", 2]);
  });

  test("deny refuses the same input and another one, again and again, and says what there is", async () => {
    for (const text of ["same", "other"]) {
      const { app, seen } = await start({ onFork: "deny" });
      seen.input = text;
      const error = await errorOf(again(app));
      expect(error).toMatchObject({ code: "EFFECT_FORKED" });
      for (const part of ["receipt 1", "onFork", "key"]) expect(error?.message).toContain(part);
      expect(await errorOf(app.invoke(null, at("t")))).toMatchObject({ code: "EFFECT_FORKED" });
      expect(seen.bodies).toBe(1);
    }
  });

  test("ask asks for the same input too; execute runs the body once more", async () => {
    const asking = await start({ onFork: "ask" });
    await again(asking.app);
    expect(await asking.saver.waits({ thread: "t", status: ["open"] })).toHaveLength(1);
    expect(asking.seen.bodies).toBe(1);
    const running = await start({ onFork: "execute" });
    await again(running.app);
    expect([await running.last(), running.seen.bodies]).toEqual(["receipt 2 for same", 2]);
  });

  test("simulate gives what the hook says, or what was recorded, and runs nothing", async () => {
    for (const [hook, given] of [
      [{ simulate: () => "made up" }, "made up"],
      [{}, "receipt 1 for same"],
    ] as const) {
      const { saver, app, seen, last } = await start({ onFork: "simulate", ...hook });
      await again(app);
      expect([await last(), seen.bodies]).toEqual([given, 1]);
      expect((await saver.effects({ thread: "t" })).map(({ links }) => links.simulated ?? false).sort()).toEqual([
        false,
        true,
      ]);
    }
  });
});

test("two calls with one given key and different inputs at the same time: one runs, the other is refused", async () => {
  const seen: number[] = [];
  const pay = effect("pay", {
    input: z.object({ invoice: z.string(), cents: z.number() }),
    key: ({ invoice }) => invoice,
    run: async ({ cents }) => {
      seen.push(cents);
      await new Promise((resolve) => setImmediate(resolve));
      return cents;
    },
  });
  const codes: unknown[] = [];
  const app = chain(memory(), {
    a: async () => {
      const calls = [5, 6, 5].map((cents) =>
        pay({ invoice: "I-1", cents }).catch((error: { code: string }) => error.code),
      );
      codes.push(...(await Promise.all(calls)));
      return {};
    },
  });
  await app.invoke({ n: 1 }, at("t"));
  expect(codes).toEqual([5, "EFFECT_MISMATCH", 5]);
  expect(seen).toEqual([5]);
});

test("an effect with a given key that calls itself with that key is told so instead of waiting for itself", async () => {
  let bodies = 0;
  const again: { call?: (text: string) => Promise<string> } = {};
  const pay = effect("pay", {
    input,
    key: () => "one",
    run: async (text): Promise<string> => {
      bodies += 1;
      return (await again.call?.(text)) ?? "";
    },
  });
  again.call = pay;
  const app = chain(memory(), { a: async () => ({ log: [await pay("x")] }) });
  const error = await errorOf(app.invoke({ n: 1 }, at("t")));
  expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
  expect(bodies).toBe(1);
}, 10_000);

test("an effect inside an effect is recorded on its own", async () => {
  const saver = memory();
  let [inner, outer] = [0, 0];
  const step = effect("step", { input, run: () => ++inner });
  const whole = effect("whole", {
    input,
    onUnknown: "rerun",
    run: async (text) => {
      outer += 1;
      const done = await step(text);
      if (outer === 1) throw new Error("later");
      return done;
    },
  });
  const app = chain(saver, { a: async () => ({ log: [String(await whole("x"))] }) });
  await expect(app.invoke({ n: 1 }, at("t"))).rejects.toThrow("later");
  expect((await app.invoke(null, at("t"))).log).toEqual(["1"]);
  expect([inner, outer]).toEqual([1, 2]);
});

test("a node that runs a graph on another thread, with an effect there, repeats nothing when it runs again", async () => {
  const saver = memory();
  let bodies = 0;
  let fail = true;
  const pay = effect("pay", { input, run: () => ++bodies });
  const other = chain(saver, { b: async () => ({ log: [`paid ${await pay("x")}`] }) });
  const app = chain(saver, {
    a: async () => {
      const done = await other.invoke({ n: 1 }, at("other"));
      if (fail) throw new Error("later");
      return { log: done.log };
    },
  });
  const error = await errorOf(app.invoke({ n: 1 }, at("t")));
  expect(error?.message).toContain("later");
  fail = false;
  await app.invoke(null, at("t"));
  expect(bodies).toBe(1);
  expect((await saver.effects({ thread: "other" })).map((record) => record.status)).toEqual(["done"]);
  expect(await saver.effects({ thread: "t" })).toEqual([]);
}, 10_000);

test.each(["sync", "async"] as const)(
  "a subgraph that a lambda in a node invokes keeps its effects (%s)",
  async (durability) => {
    let bodies = 0;
    let fail = true;
    const pay = effect("pay", { input, run: () => ++bodies });
    const sub = new StateGraph(State)
      .addNode("s1", async () => ({ log: [`paid ${await pay("x")}`] }))
      .addNode("s2", () => {
        if (fail) throw new Error("later");
        return {};
      })
      .addEdge(START, "s1")
      .addEdge("s1", "s2")
      .compile();
    const lambda = RunnableLambda.from(async () => (await sub.invoke({ n: 1 })).log);
    const app = chain(memory(), { a: async () => ({ log: await lambda.invoke("x") }) });
    await expect(app.invoke({ n: 1 }, at("t", { durability }))).rejects.toThrow("later");
    fail = false;
    expect((await app.invoke(null, at("t", { durability }))).log).toEqual(["paid 1"]);
    expect(bodies).toBe(1);
  },
);

describe("under retryPolicy", () => {
  const retryPolicy = { maxAttempts: 3, initialInterval: 1, jitter: false, logWarning: false };

  test("an effect that is done is not repeated by the next attempt", async () => {
    let [bodies, tries] = [0, 0];
    const pay = effect("pay", { input, run: () => ++bodies });
    const node = async () => {
      tries += 1;
      const paid = await Promise.all([pay("x"), pay("x")]);
      if (tries < 3) throw new Error("again");
      return { log: [paid.join()] };
    };
    const app = new StateGraph(State)
      .addNode("a", node, { retryPolicy })
      .addEdge(START, "a")
      .compile({ checkpointer: memory() });
    expect((await app.invoke({ n: 1 }, at("t"))).log).toEqual(["1,2"]);
    expect([bodies, tries]).toEqual([2, 3]);
  });

  test("an effect that threw pauses the next attempt, so the retry does not do it twice", async () => {
    let bodies = 0;
    const pay = effect("pay", {
      input,
      run: (): string => {
        bodies += 1;
        throw new Error("cut off");
      },
    });
    const app = new StateGraph(State)
      .addNode("a", async () => ({ log: [await pay("x")] }), { retryPolicy })
      .addEdge(START, "a")
      .compile({ checkpointer: memory() });
    expect(await app.invoke({ n: 1 }, at("t"))).toHaveProperty("__interrupt__");
    expect(bodies).toBe(1);
  });

  test.each([
    ["with stableTaskIds() it is found again", true, 1],
    ["without, LangGraph gives the task another id: a call of its own that runs again", false, 2],
  ])("the first effect inside a task() of a retried node: %s", async (_, stable, expected) => {
    let [bodies, tries] = [0, 0];
    const pay = effect("pay", { input, run: () => ++bodies });
    const inner = task("inner", async () => {
      const paid = await pay("x");
      return paid;
    });
    const node = async () => {
      if (stable) stableTaskIds();
      tries += 1;
      const paid = await inner();
      if (tries < 2) throw new Error("again");
      return { log: [String(paid)] };
    };
    const app = new StateGraph(State)
      .addNode("a", node, { retryPolicy })
      .addEdge(START, "a")
      .compile({ checkpointer: memory() });
    await app.invoke({ n: 1 }, at("t"));
    expect([tries, bodies]).toEqual([2, expected]);
  });
});

test("fifty equal calls at once are fifty calls, and all are found again", async () => {
  let bodies = 0;
  let fail = true;
  const ping = effect("ping", { input, run: () => ++bodies });
  const sums: number[] = [];
  const app = chain(memory(), {
    a: async () => {
      const all = await Promise.all(Array.from({ length: 50 }, (_, i) => ping(i % 2 === 0 ? "even" : "odd")));
      sums.push(all.reduce((a, b) => a + b, 0));
      if (fail) throw new Error("later");
      return {};
    },
  });
  await expect(app.invoke({ n: 1 }, at("t"))).rejects.toThrow("later");
  fail = false;
  await app.invoke(null, at("t"));
  expect(bodies).toBe(50);
  expect(sums).toEqual([1275, 1275]);
});

test("an effect in a loop of two hundred steps with an equal input reads as often in the last steps as in the first", async () => {
  const reads: number[] = [];
  let count = 0;
  const real = memoryBackend();
  const counting: Backend = new Proxy(real, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function") return value;
      if (["load", "ancestors", "checkpoints", "items", "blobs", "effects"].includes(String(property))) count += 1;
      return value.bind(target) as unknown;
    },
  });
  const ping = effect("ping", { input, run: () => 1 });
  const app = new StateGraph(State)
    .addNode("a", async ({ n }) => {
      await ping("equal");
      reads.push(count);
      return { n: n + 1 };
    })
    .addEdge(START, "a")
    .addConditionalEdges("a", ({ n }) => (n < 200 ? "a" : "__end__"))
    .compile({ checkpointer: new Checkpointer(counting) });
  await app.invoke({ n: 0 }, at("t", { recursionLimit: 250, durability: "async" }));
  const steps = reads.slice(1).map((total, i) => total - (reads[i] as number));
  expect(steps).toHaveLength(199);
  expect(Math.max(...steps.slice(-50))).toBeLessThanOrEqual(Math.max(...steps.slice(1, 51)));
});

test("equal keys in two threads at once share one body", async () => {
  const saver = memory();
  const end = gate();
  let bodies = 0;
  const pay = effect("pay", {
    input,
    key: (text) => text,
    run: async () => {
      bodies += 1;
      await end.passed;
      return "paid";
    },
  });
  const app = chain(saver, { a: async () => ({ log: [await pay("I-1")] }) });
  const both = [app.invoke({ n: 1 }, at("one")), app.invoke({ n: 1 }, at("two"))];
  end.open();
  expect((await Promise.all(both)).map(({ log }) => log)).toEqual([["paid"], ["paid"]]);
  expect(bodies).toBe(1);
});
