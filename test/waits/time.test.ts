/** Deadlines, timers and events: rows with a moment, decided once, whatever clocks do. */

import { ask, type Checkpointer, sleep, sleepUntil, waitFor } from "holdfast";
import { createApprovals } from "holdfast/approvals";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { newStore, sharedStoreNames, storeNames } from "../backends-table.ts";
import { at, errorOf } from "../checkpointer/subject.ts";
import { openWaits, sequence } from "./graphs.ts";

const DAY = 86_400_000;
const eve = { by: "eve" };

/** Records the due times that have come, of all threads; how many. It serves no graph, so none goes on. */
const sweepDue = async (checkpointer: Checkpointer): Promise<number> =>
  (await createApprovals({ checkpointer, graphs: {} }).resumeDue()).decided;

/** A clock that stands still until it is moved. */
function clock(start = Date.parse("2026-01-01T00:00:00Z")) {
  let time = start;
  return {
    now: () => time,
    move: (ms: number) => {
      time += ms;
    },
  };
}

describe.each(storeNames)("%s", (name) => {
  test("a question past its deadline is rejected by the deadline, however late somebody looks", async () => {
    const { now, move } = clock();
    const saver = await (await newStore(name)).open({ now });
    const app = sequence(saver, {
      a: async () => {
        const { decision, by } = await ask("Ok?", { deadline: "3 days" });
        return { log: [`${decision} ${by}`] };
      },
    });
    await app.invoke({ log: [] }, at("t"));
    move(3 * DAY - 1);
    await app.invoke(null, at("t"));
    expect(await openWaits(saver)).toHaveLength(1);
    move(DAY);
    expect((await app.invoke(null, at("t"))).log).toEqual(["reject deadline"]);
  });

  test("a deadline may answer with a value, or hold", async () => {
    const { now, move } = clock();
    const saver = await (await newStore(name)).open({ now });
    const app = sequence(saver, {
      a: async () => {
        const { decision, value } = await ask("How many?", {
          answer: z.int(),
          deadline: "1 h",
          onDeadline: { value: 7 },
        });
        return { log: [`${decision} ${value}`] };
      },
      b: async () => ({ log: [(await ask("Ok?", { deadline: "1 h", onDeadline: "hold" })).decision] }),
    });
    await app.invoke({ log: [] }, at("t"));
    move(DAY);
    await app.invoke(null, at("t"));
    move(DAY);
    await app.invoke(null, at("t"));
    const [held] = await openWaits(saver);
    expect(held).toMatchObject({ name: "Ok?", due: undefined, onDeadline: "hold" });
    expect(held?.deadline?.getTime()).toBeLessThan(now());
    await saver.answer(held?.id as string, { type: "approve" }, eve);
    expect((await app.invoke(null, at("t"))).log).toEqual(["respond 7", "approve"]);
  });

  test("an answer that comes after the deadline loses, even where nobody has recorded the deadline", async () => {
    const { now, move } = clock();
    const saver = await (await newStore(name)).open({ now });
    const app = sequence(saver, { a: async () => ({ log: [(await ask("Ok?", { deadline: 1000 })).by] }) });
    await app.invoke({ log: [] }, at("t"));
    const [open] = await openWaits(saver);
    move(1000);
    expect(await errorOf(saver.answer(open?.id as string, { type: "approve" }, eve))).toMatchObject({
      code: "ALREADY_ANSWERED",
      details: { decision: { type: "reject", by: "deadline" } },
    });
    expect((await app.invoke(null, at("t"))).log).toEqual(["deadline"]);
  });

  test("a sleep ends when its moment has come and not before, in any process", async () => {
    const { now, move } = clock();
    const store = await newStore(name);
    const nodes = {
      a: async () => {
        await sleep("2 days");
        return { log: ["slept"] };
      },
      b: async () => {
        await sleepUntil(new Date("2026-02-01T00:00:00Z"));
        return { log: ["slept on"] };
      },
    };
    const first = await store.open({ now });
    await sequence(first, nodes).invoke({ log: [] }, at("t"));
    await first.close();
    const second = await store.open({ now });
    const app = sequence(second, nodes);
    move(2 * DAY - 1);
    expect((await app.invoke(null, at("t"))).log).toEqual([]);
    // A clock set back makes it later, and nothing happens twice.
    move(-DAY);
    expect((await app.invoke(null, at("t"))).log).toEqual([]);
    move(DAY + 1);
    expect((await app.invoke(null, at("t"))).log).toEqual(["slept"]);
    move(100 * DAY);
    expect((await app.invoke(null, at("t"))).log).toEqual(["slept", "slept on"]);
    expect((await second.waits({ thread: "t" })).map(({ kind, status }) => `${kind} ${status}`)).toEqual([
      "timer consumed",
      "timer consumed",
    ]);
  });

  test("equal sleeps of one task are different sleeps", async () => {
    const { now, move } = clock();
    const saver = await (await newStore(name)).open({ now });
    const app = sequence(saver, {
      a: async () => {
        await sleep(DAY);
        await sleep(DAY);
        return { log: ["slept twice"] };
      },
    });
    await app.invoke({ log: [] }, at("t"));
    move(DAY);
    expect((await app.invoke(null, at("t"))).log).toEqual([]);
    move(DAY - 1);
    expect((await app.invoke(null, at("t"))).log).toEqual([]);
    move(1);
    expect((await app.invoke(null, at("t"))).log).toEqual(["slept twice"]);
  });

  test("an event reaches who waits for it, once; nobody there is said to its sender", async () => {
    const saver = await (await newStore(name)).open();
    const app = sequence(saver, {
      a: async () => {
        const received = await waitFor("payment", { value: z.object({ cents: z.int() }) });
        return { log: [JSON.stringify(received.value)] };
      },
    });
    expect(await errorOf(saver.deliver("payment", { cents: 5 }, eve))).toMatchObject({ code: "UNKNOWN_WAIT" });
    await app.invoke({ log: [] }, at("t"));
    await app.invoke({ log: [] }, at("u"));
    expect(await saver.deliver("payment", { cents: 5 }, { by: "bank", thread: "t" })).toHaveLength(1);
    expect(await errorOf(saver.deliver("payment", { cents: 6 }, { by: "bank", thread: "t" }))).toMatchObject({
      code: "UNKNOWN_WAIT",
    });
    expect((await app.invoke(null, at("t"))).log).toEqual(['{"cents":5}']);
    expect(await openWaits(saver, "u")).toHaveLength(1);
  });

  test("an event that does not fit is not taken, and the wait stays", async () => {
    const saver = await (await newStore(name)).open();
    const app = sequence(saver, {
      a: async () => ({ log: [String((await waitFor("n", { value: z.int() })).value)] }),
    });
    await app.invoke({ log: [] }, at("t"));
    await saver.deliver("n", "no number", eve);
    await app.invoke(null, at("t"));
    expect((await openWaits(saver))[0]?.problem).toBeDefined();
    await saver.deliver("n", 3, eve);
    expect((await app.invoke(null, at("t"))).log).toEqual(["3"]);
  });

  test("an event's timeout is told apart from the event", async () => {
    const { now, move } = clock();
    const saver = await (await newStore(name)).open({ now });
    const app = sequence(saver, {
      a: async () => ({ log: [String((await waitFor("e", { timeout: "1 day" })).timedOut)] }),
    });
    await app.invoke({ log: [] }, at("t"));
    move(DAY);
    expect(await errorOf(saver.deliver("e", 1, eve))).toMatchObject({ code: "UNKNOWN_WAIT" });
    expect((await app.invoke(null, at("t"))).log).toEqual(["true"]);
  });

  test("overdue waits of all threads are decided once, and only those", async () => {
    const { now, move } = clock();
    const saver = await (await newStore(name)).open({ now });
    const app = sequence(saver, {
      a: async ({ log }) => {
        await sleep(Number(log[0]));
        return { log: ["slept"] };
      },
    });
    for (const [thread, ms] of [
      ["t1", 10],
      ["t2", 20],
      ["t3", 30],
    ] as const)
      await app.invoke({ log: [String(ms)] }, at(thread));
    move(20);
    expect(await sweepDue(saver)).toBe(2);
    expect(await sweepDue(saver)).toBe(0);
    expect((await saver.waits({ status: ["answered"] })).map(({ thread }) => thread).sort()).toEqual(["t1", "t2"]);
  });

  test("bad durations, moments and options are refused before anything is asked", async () => {
    const saver = await (await newStore(name)).open();
    const bad: readonly (() => Promise<unknown>)[] = [
      () => sleep("soon"),
      () => sleep(-1),
      () => sleep(Number.NaN),
      () => sleepUntil(new Date("never")),
      () => sleepUntil("2026" as never),
      () => ask("Ok?", { deadline: "" }),
      () => ask("Ok?", { onDeadline: "hold" }),
      () => ask("Ok?", { deadline: 1, onDeadline: "maybe" as never }),
      () => ask("Ok?", { allow: ["accept" as never] }),
      () => ask("Ok?", { colour: "red" } as never),
      () => ask("", {}),
      () => ask({ text: "?" } as never),
      () => waitFor(""),
    ];
    for (const [i, wait] of bad.entries()) {
      const app = sequence(saver, { a: () => wait().then(() => ({})) });
      expect(await errorOf(app.invoke({ log: [] }, at(`t${i}`)))).toMatchObject({ code: "INVALID_ARGUMENT" });
    }
    expect(await saver.waits()).toEqual([]);
  });
});

describe.each(sharedStoreNames)("%s, shared", (name) => {
  test("a deadline and an answer at the same moment: one wins, and both sides are told the same", async () => {
    const store = await newStore(name);
    for (let round = 0; round < 20; round += 1) {
      const { now, move } = clock();
      const one = await store.open({ now });
      const late = await store.open({ now: () => now() + DAY });
      const thread = `t${round}`;
      const app = sequence(one, { a: async () => ({ log: [(await ask("Ok?", { deadline: "1 h" })).by] }) });
      await app.invoke({ log: [] }, at(thread));
      move(0);
      const [open] = await openWaits(one, thread);
      const id = open?.id as string;
      const [answered] = await Promise.all([errorOf(one.answer(id, { type: "approve" }, eve)), sweepDue(late)]);
      const [decided] = await one.waits({ id });
      expect(decided?.decision?.by).toBe(answered === undefined ? "eve" : "deadline");
      expect((await app.invoke(null, at(thread))).log).toEqual([decided?.decision?.by]);
    }
  });

  test("fifty answers at once, half of them opposite: one decision is recorded and all are told it", async () => {
    const store = await newStore(name);
    const savers = [await store.open(), await store.open()] as const;
    const app = sequence(savers[0], { a: async () => ({ log: [(await ask("Ok?")).decision] }) });
    await app.invoke({ log: [] }, at("t"));
    const [open] = await openWaits(savers[0]);
    const results = await Promise.all(
      Array.from({ length: 50 }, async (_, i) => {
        const type = i % 4 < 2 ? ("approve" as const) : ("reject" as const);
        const saver = savers[i % 2] as (typeof savers)[0];
        try {
          const { replayed, decision } = await saver.answer(open?.id as string, { type }, { by: `p${i}` });
          return { type, said: replayed ? "replayed" : "recorded", decision };
        } catch (error) {
          const { code, details } = error as { code: string; details: { decision: { type: string; by: string } } };
          return { type, said: code, decision: details.decision };
        }
      }),
    );
    const recorded = results.filter(({ said }) => said === "recorded");
    expect(recorded).toHaveLength(1);
    const winner = recorded[0]?.decision;
    for (const { type, said, decision } of results) {
      expect(decision).toMatchObject({ type: winner?.type, by: winner?.by });
      if (said !== "recorded") expect(said).toBe(type === winner?.type ? "replayed" : "ALREADY_ANSWERED");
    }
    expect((await savers[1].verifyDecisions()).checked).toBe(1);
    expect((await app.invoke(null, at("t"))).log).toEqual([winner?.type]);
  });
});
