/** What happens between an intent and its outcome: errors, timeouts, aborts, bodies that outlive their run (E3–E6). */

import { START, StateGraph } from "@langchain/langgraph";
import { effect, NotExecuted } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { newStore, storeNames } from "../backends-table.ts";
import { chain } from "../checkpointer/guarantees.ts";
import { State } from "../checkpointer/shapes.ts";
import { at, errorOf, gate } from "../checkpointer/subject.ts";

const input = z.string();

test.each([
  ["NotExecuted", () => new NotExecuted("sold out")],
  ["a refused connection", () => Object.assign(new Error("connect"), { code: "ECONNREFUSED" })],
  [
    "a refused connection as the cause",
    () => new Error("fetch failed", { cause: Object.assign(new Error(), { code: "ECONNREFUSED" }) }),
  ],
])("%s says that nothing happened: the next attempt runs the body again", async (_, make) => {
  const attempts: number[] = [];
  const pay = effect("pay", {
    input,
    run: (_input, { attempt }) => {
      attempts.push(attempt);
      if (attempts.length === 1) throw make();
      return "paid";
    },
  });
  const app = chain(memory(), { a: async () => ({ log: [await pay("x")] }) });
  expect(await errorOf(app.invoke({ n: 1 }, at("t")))).toBeDefined();
  expect((await app.invoke(null, at("t"))).log).toEqual(["paid"]);
  expect(attempts).toEqual([1, 2]);
});

describe.each(storeNames)("on %s", (name) => {
  test("verify that says yes gives the outcome, no runs the body again, and an error of it runs nothing", async () => {
    const saver = await (await newStore(name)).open();
    const answers: (() => string | undefined)[] = [
      () => {
        throw new Error("receiver is down");
      },
      () => undefined,
      () => "found it",
    ];
    let bodies = 0;
    const pay = effect("pay", {
      input,
      verify: () => answers.shift()?.(),
      run: (): string => {
        bodies += 1;
        throw new Error("cut off");
      },
    });
    const app = chain(saver, { a: async () => ({ log: [await pay("x")] }) });
    await expect(app.invoke({ n: 1 }, at("t"))).rejects.toThrow("cut off");
    await expect(app.invoke(null, at("t"))).rejects.toThrow("receiver is down");
    expect(bodies).toBe(1);
    await expect(app.invoke(null, at("t"))).rejects.toThrow("cut off");
    expect(bodies).toBe(2);
    expect((await app.invoke(null, at("t"))).log).toEqual(["found it"]);
    expect(bodies).toBe(2);
    expect((await saver.effects({ thread: "t" }))[0]).toMatchObject({ status: "done", value: "found it" });
  });

  test("giveUp makes the effect throw from then on, and names who gave it up and why", async () => {
    const saver = await (await newStore(name)).open();
    const pay = effect("pay", {
      input,
      run: (): string => {
        throw new Error("cut off");
      },
    });
    const app = chain(saver, { a: async () => ({ log: [await pay("x")] }) });
    await expect(app.invoke({ n: 1 }, at("t"))).rejects.toThrow("cut off");
    const [record] = await saver.effects({ thread: "t" });
    await saver.settle(record?.key ?? "", { giveUp: "customer left" }, { by: "eve" });
    for (const _ of [1, 2]) {
      const error = await errorOf(app.invoke(null, at("t")));
      expect(error).toMatchObject({ code: "EFFECT_GIVEN_UP" });
      expect(error?.message).toMatch(/eve.*customer left/);
    }
  });

  test("onUnknown fail throws EFFECT_UNKNOWN until it is settled, and settled as not done it runs again", async () => {
    const saver = await (await newStore(name)).open();
    let bodies = 0;
    const pay = effect("pay", {
      input,
      onUnknown: "fail",
      run: () => {
        bodies += 1;
        if (bodies === 1) throw new Error("cut off");
        return "paid";
      },
    });
    const app = chain(saver, { a: async () => ({ log: [await pay("x")] }) });
    await expect(app.invoke({ n: 1 }, at("t"))).rejects.toThrow("cut off");
    expect(await errorOf(app.invoke(null, at("t")))).toMatchObject({ code: "EFFECT_UNKNOWN" });
    const [record] = await saver.effects({ thread: "t" });
    await saver.settle(record?.key ?? "", { notDone: true }, { by: "eve" });
    expect((await app.invoke(null, at("t"))).log).toEqual(["paid"]);
    expect(bodies).toBe(2);
  });

  test("an intent whose owner has closed is unknown, is settled from another checkpointer, and the thread goes on", async () => {
    const store = await newStore(name);
    const first = await store.open();
    const begun = gate();
    let bodies = 0;
    const pay = effect("pay", {
      input,
      run: () => {
        bodies += 1;
        begun.open();
        return new Promise<string>(() => {});
      },
    });
    void chain(first, { a: async () => ({ log: [await pay("x")] }) })
      .invoke({ n: 1 }, at("t"))
      .catch(() => {});
    await begun.passed;
    await first.close();
    const second = await store.open();
    const app = chain(second, { a: async () => ({ log: [await pay("x")] }) });
    const state = await app.invoke(null, at("t"));
    expect(state).toHaveProperty("__interrupt__");
    const [record] = await second.effects({ thread: "t" });
    expect(record).toMatchObject({ status: "intent", attempt: 1 });
    expect(await second.settle(record?.key ?? "", { done: "by hand" }, { by: "eve" })).toMatchObject({
      replayed: false,
    });
    expect((await app.invoke(null, at("t"))).log).toEqual(["by hand"]);
    expect(bodies).toBe(1);
  });
});

test("a sibling's error ends the run, and an immediate invoke(null) waits for the body that is still running instead of starting another", async () => {
  const saver = memory();
  const [begun, end] = [gate(), gate()];
  let bodies = 0;
  let fail = true;
  const pay = effect("pay", {
    input,
    run: async () => {
      bodies += 1;
      begun.open();
      await end.passed;
      return "paid";
    },
  });
  const app = new StateGraph(State)
    .addNode("slow", async () => ({ log: [await pay("x")] }))
    .addNode("bad", async () => {
      await begun.passed;
      if (fail) throw new Error("sibling failed");
      return {};
    })
    .addEdge(START, "slow")
    .addEdge(START, "bad")
    .compile({ checkpointer: saver });
  await expect(app.invoke({ n: 1 }, at("t"))).rejects.toThrow("sibling failed");
  fail = false;
  const again = app.invoke(null, at("t"));
  end.open();
  expect((await again).log).toEqual(["paid"]);
  expect(bodies).toBe(1);
});

test("an aborted run starts no effect, and the body that runs sees the signal", async () => {
  const saver = memory();
  const controller = new AbortController();
  const [begun, ended] = [gate(), gate()];
  let second = 0;
  let late: unknown;
  const slow = effect("slow", {
    input,
    run: (_, { signal }) =>
      new Promise<string>((_resolve, reject) => {
        begun.open();
        signal.addEventListener("abort", () => reject(new Error("stopped")), { once: true });
      }),
  });
  const after = effect("after", { input, run: () => ++second });
  const app = chain(saver, {
    a: async () => {
      await errorOf(slow("x"));
      late = await errorOf(after("y"));
      ended.open();
      return {};
    },
  });
  const run = errorOf(app.invoke({ n: 1 }, at("t", { signal: controller.signal })));
  await begun.passed;
  controller.abort();
  expect(await run).toBeDefined();
  await ended.passed;
  expect(late).toMatchObject({ code: "EFFECT_ABORTED" });
  expect(second).toBe(0);
});

test("after a timeout no second body runs while the first may, and a late success is recorded", async () => {
  const saver = memory();
  const end = gate();
  let bodies = 0;
  const pay = effect("pay", {
    input,
    timeoutMs: 20,
    verify: () => undefined,
    run: async () => {
      bodies += 1;
      await end.passed;
      return "paid late";
    },
  });
  const app = chain(saver, { a: async () => ({ log: [await pay("x")] }) });
  expect(await errorOf(app.invoke({ n: 1 }, at("t")))).toMatchObject({ code: "EFFECT_TIMEOUT" });
  expect(await errorOf(app.invoke(null, at("t")))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
  expect(bodies).toBe(1);
  end.open();
  await vi.waitUntil(async () => (await saver.effects({ thread: "t" }))[0]?.status === "done");
  expect((await app.invoke(null, at("t"))).log).toEqual(["paid late"]);
  expect(bodies).toBe(1);
});

test("a value that cannot be kept counts as a failed body, names the effect, and the body is not run again", async () => {
  const saver = memory();
  let bodies = 0;
  const pay = effect("pay", { input, run: () => ({ n: ++bodies, callback: () => 1 }) });
  const app = chain(saver, { a: async () => ({ n: (await pay("x")).n }) });
  const error = await errorOf(app.invoke({ n: 1 }, at("t")));
  expect(error).toMatchObject({ code: "UNSERIALIZABLE_VALUE" });
  expect(error?.message).toMatch(/outcome.*pay/);
  expect(await app.invoke(null, at("t"))).toHaveProperty("__interrupt__");
  expect(bodies).toBe(1);
});

test("an output that its schema refuses is recorded as failed and does not run again by itself", async () => {
  const saver = memory();
  let bodies = 0;
  const pay = effect("pay", {
    input,
    output: z.object({ id: z.number() }),
    run: () => ({ id: String(++bodies) }) as never,
  });
  const app = chain(saver, { a: async () => ({ n: (await pay("x")).id }) });
  expect(await errorOf(app.invoke({ n: 1 }, at("t")))).toBeDefined();
  expect((await saver.effects({ thread: "t" }))[0]?.status).toBe("failed");
  expect(await app.invoke(null, at("t"))).toHaveProperty("__interrupt__");
  expect(bodies).toBe(1);
});

test("errors keep their class name, code and message, and strings of every kind", async () => {
  const saver = memory();
  const odd = "NUL \u0000, half \ud800, emoji 😀, \\u0000 as text, \\\\-";
  const pay = effect("pay", {
    input,
    run: (): string => {
      throw Object.assign(new RangeError(odd), { code: "E_ODD", numbers: [Number.NaN, Number.POSITIVE_INFINITY, -0] });
    },
  });
  const app = chain(saver, { a: async () => ({ log: [await pay(odd)] }) });
  await errorOf(app.invoke({ n: 1 }, at("t")));
  const [record] = await saver.effects({ thread: "t" });
  expect(record?.input).toBe(odd);
  expect(record?.error).toMatchObject({
    name: "RangeError",
    message: odd,
    code: "E_ODD",
    numbers: [Number.NaN, Number.POSITIVE_INFINITY, -0],
  });
});
