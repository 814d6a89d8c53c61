/** What a fork says about effects, what an effect says, and which of the two holds. */

import { effect, type OnFork, timeTravel, transaction } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { newStore } from "../backends-table.ts";
import { chain } from "../checkpointer/guarantees.ts";
import { at, errorOf } from "../checkpointer/subject.ts";
import { before, entriesOf } from "./travel.ts";

const POLICIES: readonly (OnFork | undefined)[] = [undefined, "reuse", "ask", "execute", "deny", "simulate"];

/** What becomes of a call under a policy, with the recorded input and with another one. */
const DOES = {
  reuse: ["reused", "asked"],
  ask: ["asked", "asked"],
  execute: ["executed", "executed"],
  deny: ["denied", "denied"],
  simulate: ["simulated", "simulated"],
} as const;

function holds(own: OnFork | undefined, fork: OnFork | undefined): OnFork {
  if (fork === "simulate") return "simulate";
  if (own === "deny") return "deny";
  return fork ?? own ?? "reuse";
}

async function becomes(own: OnFork | undefined, fork: OnFork | undefined, cents: number): Promise<string> {
  const saver = memory();
  let bodies = 0;
  const charge = effect("charge", {
    input: z.number(),
    run: () => ++bodies,
    ...(own === undefined ? {} : { onFork: own }),
  });
  const app = chain(saver, { charge: async ({ n }) => ({ log: [String(await charge(n))] }) });
  await app.invoke({ n: 100 }, at("t"));
  const travel = timeTravel(app);
  const { config } = await travel.fork("t", await before(travel, "charge"), {
    values: { n: cents },
    ...(fork === undefined ? {} : { effects: fork }),
  });
  const error = await errorOf(app.invoke(null, config));
  if (error !== undefined) return error.code === "EFFECT_FORKED" ? "denied" : error.message;
  if ((await saver.waits({ thread: "t", status: ["open"] })).length > 0) return "asked";
  const [entry] = (await entriesOf(travel)).filter(({ onHead, effects }) => onHead && effects.length > 0);
  const deed = entry?.effects.at(-1)?.deed ?? "nothing";
  expect(bodies).toBe(deed === "executed" ? 2 : 1);
  return deed;
}

describe.each(POLICIES)("an effect that says %s", (own) => {
  test.each(POLICIES)(
    "on a fork that says %s does what the stronger word says, for the same input and for another",
    async (fork) => {
      const [same, other] = DOES[holds(own, fork)];
      expect(await becomes(own, fork, 100)).toBe(same);
      expect(await becomes(own, fork, 120)).toBe(other);
    },
  );
});

test("a fork that simulates runs nothing at all: nothing new, nothing safe to repeat, nothing with a key, no transaction", async () => {
  const saver = await (await newStore("sqlite")).open();
  const bodies: string[] = [];
  const make = (name: string, more: object = {}) =>
    effect(name, {
      input: z.number(),
      run: (n: number) => {
        bodies.push(name);
        return `real ${n}`;
      },
      simulate: (n) => `made up ${n}`,
      ...more,
    });
  const [plain, rerun, keyed] = [make("plain"), make("rerun", { onUnknown: "rerun" }), make("keyed", { key: String })];
  const book = transaction("book", {
    input: z.number(),
    run: (_: unknown, n) => {
      bodies.push("book");
      return `booked ${n}`;
    },
    simulate: (n) => `made up ${n}`,
  });
  const app = chain(saver, {
    start: () => ({}),
    all: async ({ n }) => ({ log: [await plain(n), await rerun(n), await keyed(n), await book(n)] }),
  });
  await app.invoke({ n: 1 }, at("t"));
  expect(bodies.splice(0)).toEqual(["plain", "rerun", "keyed", "book"]);
  const travel = timeTravel(app);
  const place = await before(travel, "all");
  const simulated = await travel.fork("t", place, { values: { n: 2 }, effects: "simulate" });
  expect((await app.invoke(null, simulated.config)).log).toEqual(Array(4).fill("made up 2"));
  const again = await travel.fork("t", place, { effects: "simulate" });
  // What has an outcome under its own key is no simulation.
  expect((await app.invoke(null, again.config)).log).toEqual(["made up 1", "made up 1", "real 1", "made up 1"]);
  expect(bodies).toEqual([]);
  // And what was made up for a key is not there for anybody else.
  await app.invoke({ n: 2 }, at("other"));
  expect(bodies).toEqual(["plain", "rerun", "keyed", "book"]);
  expect((await app.getState(at("other"))).values.log).toEqual(["real 2", "real 2", "real 2", "booked 2"]);
});

test("where there is neither a hook nor a record, a simulated call says so, and nothing happens", async () => {
  const saver = memory();
  let bodies = 0;
  const pay = effect("pay", { input: z.number(), run: () => ++bodies });
  const app = chain(saver, { a: () => ({}), b: async ({ n }) => (n > 1 ? { log: [String(await pay(n))] } : {}) });
  await app.invoke({ n: 1 }, at("t"));
  const travel = timeTravel(app);
  const options = { values: { n: 2 }, effects: "simulate" } as const;
  const { config } = await travel.fork("t", await before(travel, "b"), options);
  const error = await errorOf(app.invoke(null, config));
  expect(error).toMatchObject({ code: "NOT_SIMULATED" });
  expect(error?.message).toContain("simulate: (input) => outcome");
  expect(bodies).toBe(0);
});

test("a simulated outcome that does not fit the effect's output schema is refused", async () => {
  const pay = effect("pay", {
    input: z.number(),
    output: z.object({ id: z.string() }),
    run: () => ({ id: "1" }),
    simulate: () => ({ id: 1 }) as never,
  });
  const app = chain(memory(), { pay: async ({ n }) => ({ log: [(await pay(n)).id] }) });
  await app.invoke({ n: 1 }, at("t"));
  const travel = timeTravel(app);
  const { config } = await travel.fork("t", await before(travel, "pay"), { effects: "simulate" });
  expect((await errorOf(app.invoke(null, config)))?.message).toContain("expected string");
});

test("a fork's word holds for its whole branch: after a failure, in the next turn, and in another process; a rollback leaves it", async () => {
  const store = await newStore("sqlite");
  let bodies = 0;
  let fail = true;
  const pay = effect("pay", { input: z.number(), run: () => ++bodies, simulate: () => -1 });
  const build = (saver: Awaited<ReturnType<typeof store.open>>) =>
    chain(saver, {
      a: () => ({}),
      b: async ({ n }) => ({ log: [String(await pay(n))] }),
      c: async ({ n }) => {
        if (fail) throw new Error("later");
        return { log: [String(await pay(n + 100))] };
      },
    });
  const one = build(await store.open());
  fail = false;
  await one.invoke({ n: 1 }, at("t"));
  expect(bodies).toBe(2);
  const travel = timeTravel(one);
  const place = await before(travel, "b");
  fail = true;
  const { config } = await travel.fork("t", place, { effects: "simulate" });
  await errorOf(one.invoke(null, config));
  fail = false;
  const two = build(await store.open());
  expect((await two.invoke(null, config)).log).toEqual(["-1", "-1"]);
  expect((await two.invoke({ n: 7 }, config)).log).toEqual(["-1", "-1", "-1", "-1"]);
  expect(bodies).toBe(2);
  const head = (await entriesOf(travel))[0];
  expect(head?.effectsPolicy).toBe("simulate");
  // A fork inside the branch says nothing else, so the branch's word goes on.
  const inside = await travel.fork("t", head?.parent ?? "");
  await two.invoke(null, inside.config);
  expect(bodies).toBe(2);
  await travel.rollbackTo("t", place);
  expect((await two.invoke(null, config)).log).toEqual(["1", "2"]);
  expect(bodies).toBe(2);
});

test("an effect that a person refused on a branch is refused again, until the branch is left", async () => {
  const saver = memory();
  let bodies = 0;
  const pay = effect("pay", { input: z.number(), run: () => ++bodies });
  const app = chain(saver, { pay: async ({ n }) => ({ log: [String(await pay(n))] }) });
  await app.invoke({ n: 1 }, at("t"));
  const travel = timeTravel(app);
  const place = await before(travel, "pay");
  const { config } = await travel.fork("t", place, { values: { n: 2 } });
  await app.invoke(null, config);
  const [wait] = await saver.waits({ thread: "t", status: ["open"] });
  await saver.answer(wait?.id ?? "", { type: "reject", comment: "not twice" }, { by: "ada" });
  for (let i = 0; i < 2; i += 1) {
    expect(await errorOf(app.invoke(null, config))).toMatchObject({
      code: "EFFECT_FORKED",
      details: { by: "ada", comment: "not twice" },
    });
  }
  expect((await app.invoke(null, (await travel.fork("t", place)).config)).log).toEqual(["1"]);
  expect(bodies).toBe(1);
});

test("calls made at once that all have to ask are asked together, and each gets the answer to its own question", async () => {
  const saver = memory();
  const bodies: number[] = [];
  const pay = effect("pay", {
    input: z.number(),
    run: (n) => {
      bodies.push(n);
      return n;
    },
  });
  const app = chain(saver, {
    pay: async ({ n }) => ({ log: (await Promise.all([pay(n), pay(n + 1)])).map(String) }),
  });
  await app.invoke({ n: 1 }, at("t"));
  const travel = timeTravel(app);
  const { config } = await travel.fork("t", await before(travel, "pay"), { values: { n: 10 } });
  await app.invoke(null, config);
  const open = await saver.waits({ thread: "t", status: ["open"] });
  expect(open.map(({ details }) => (details as { input: number }).input).sort()).toEqual([10, 11]);
  for (const { id, details } of open) {
    const ten = (details as { input: number }).input === 10;
    const answer = ten ? ({ type: "approve" } as const) : ({ type: "respond", value: { outcome: 77 } } as const);
    await saver.answer(id, answer, { by: "ada" });
  }
  expect((await app.invoke(null, config)).log).toEqual(["10", "77"]);
  expect(bodies).toEqual([1, 2, 10]);
});
