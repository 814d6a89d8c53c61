/** A preview says what then happens. */

import { type EffectForecast, effect, type Forecast, type OnFork, timeTravel } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { chain } from "../checkpointer/guarantees.ts";
import { at, errorOf } from "../checkpointer/subject.ts";
import { before, contentsOf, entriesOf } from "./travel.ts";

test("a preview lists the nodes and the effects with the reason, and neither runs nor writes anything", async () => {
  const saver = memory();
  let bodies = 0;
  const make = (name: string, more: object = {}) =>
    effect(name, {
      input: z.number(),
      run: (n: number) => {
        bodies += 1;
        if (name === "lost") throw new Error("connection lost");
        return n;
      },
      ...more,
    });
  const [pay, keyed, read] = [make("pay"), make("keyed", { key: String }), make("read", { onUnknown: "rerun" })];
  const lost = make("lost");
  const app = chain(saver, {
    quote: () => ({ log: ["quoted"] }),
    pay: async ({ n }) => ({ log: [String((await pay(n)) + (await keyed(n)) + (await read(n)))] }),
    tell: async ({ n }) => ({ log: [String(await lost(n).catch(() => "nobody knows"))] }),
    end: () => ({}),
  });
  await app.invoke({ n: 5 }, at("t"));
  const travel = timeTravel(app);
  const place = await before(travel, "pay");
  const [contents, ran] = [await contentsOf(saver, "t", "u"), bodies];
  const { next, later, effects, values, policy } = await travel.preview("t", place, { values: { log: ["edited"] } });
  expect(next).toEqual([{ ns: "", node: "pay" }]);
  expect(later).toEqual(["end", "tell"]);
  expect(values).toMatchObject({ log: ["quoted", "edited"], n: 5 });
  expect(policy).toBeUndefined();
  const does = (forecasts: readonly EffectForecast[]) =>
    Object.fromEntries(forecasts.map(({ effect: { name }, same, other }) => [name, [same.does, other.does]]));
  expect(does(effects)).toEqual({
    pay: ["reused", "ask"],
    keyed: ["reused", "executed"],
    read: ["executed", "executed"],
    lost: ["ask", "ask"],
  });
  expect(effects.find(({ effect: { name } }) => name === "pay")?.same.why).toBe(
    'Its outcome with this input is recorded outside the branch, and the default says "reuse".',
  );
  expect(does((await travel.preview("t", place, { effects: "simulate", to: "u" })).effects)).toEqual({
    pay: ["simulated", "simulated"],
    keyed: ["reused", "fails"],
    read: ["simulated", "simulated"],
    lost: ["fails", "fails"],
  });
  // After everything nothing is left to be in question.
  const [head] = await entriesOf(travel);
  expect(await travel.preview("t", head?.checkpoint ?? "")).toMatchObject({ next: [], later: [], effects: [] });
  expect(await contentsOf(saver, "t", "u")).toBe(contents);
  expect(bodies).toBe(ran);
});

/** Small numbers in a fixed order, so that every run makes the same graphs. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 8) % below;
  };
}

const POLICIES: readonly (OnFork | undefined)[] = [undefined, "reuse", "ask", "execute", "deny", "simulate"];

interface Call {
  readonly name: string;
  readonly input: number;
  readonly did: Forecast | "nothing";
}

/** A row of nodes with an effect each: of few names and inputs, so that they meet; some fail, some have a hook. */
function randomApp(next: (below: number) => number) {
  const saver = memory();
  const first = { run: true };
  const calls: Call[] = [];
  let bodies = 0;
  const effects = ["left", "right"].map((name) => {
    const onFork = POLICIES[next(POLICIES.length)];
    const rerun = next(6) === 0;
    const fails = next(4) === 0;
    const definition = {
      input: z.number(),
      run: (n: number) => {
        bodies += 1;
        if (fails && first.run && n === 0) throw new Error("connection lost");
        return n;
      },
      ...(onFork === undefined ? {} : { onFork }),
      ...(rerun ? { onUnknown: "rerun" as const } : {}),
      ...(next(3) === 0 ? { simulate: (n: number) => n } : {}),
    };
    return effect(name, definition);
  });
  const nodes = Array.from({ length: 2 + next(4) }, (_, i) => {
    const call = effects[next(2)] as (typeof effects)[number];
    const [fixed, by] = [next(2) === 0, next(2)];
    const node = async ({ n }: { n: number }, config: unknown) => {
      const input = fixed ? by : n;
      const before = bodies;
      const note = (did: Call["did"]) => calls.push({ name: call.effectName, input, did });
      try {
        await call(input);
      } catch (error) {
        const { code } = error as { code?: string };
        // Out of a pause nothing may be caught; what was lost is left behind as unknown.
        note(
          code === "EFFECT_FORKED"
            ? "denied"
            : code === "NOT_SIMULATED"
              ? "fails"
              : code === undefined
                ? "ask"
                : "nothing",
        );
        if (first.run && (error as Error).message === "connection lost") return { log: ["lost"] };
        throw error;
      }
      const task = (config as { configurable: Record<string, string> }).configurable["__pregel_task_id"] ?? "";
      const mine = (await saver.effects({ thread: "t" })).filter((record) => record.task === task);
      const { simulated, reusedFrom } = mine.at(-1)?.links ?? {};
      note(
        bodies > before
          ? "executed"
          : simulated === true
            ? "simulated"
            : reusedFrom === undefined
              ? "nothing"
              : "reused",
      );
      return { log: [`done ${input}`] };
    };
    return [`node${i}`, node] as const;
  });
  return { saver, app: chain(saver, Object.fromEntries(nodes) as never), calls, first };
}

/** What the preview says about one call, given what the calls before it have taken. */
function forecastOf(
  left: EffectForecast[],
  fork: OnFork | undefined,
  name: string,
  input: number,
  hook: boolean,
): Forecast {
  const named = left.filter(({ effect: { name: own } }) => own === name);
  const equal = named.filter(({ effect: { input: recorded } }) => recorded === input);
  const found = equal.find(({ effect: { status } }) => status === "done") ?? equal[0];
  const prediction = found?.same ?? named[0]?.other;
  if (prediction === undefined) return fork !== "simulate" ? "executed" : hook ? "simulated" : "fails";
  const took = found ?? named[0];
  const rerun = took?.effect.links.rerun === true && fork !== "simulate";
  const takes = prediction.does === "reused" || (prediction.does === "executed" && !rerun);
  const madeUp = prediction.does === "simulated" && !hook;
  const known = named.filter(({ effect: { status } }) => status === "done");
  const gone = madeUp
    ? (known.find(({ effect: { input: recorded } }) => recorded === input) ?? known[0])
    : takes
      ? took
      : undefined;
  if (gone !== undefined) left.splice(left.indexOf(gone), 1);
  return prediction.does;
}

describe("for small graphs with every mixture of policies", () => {
  test.each(Array.from({ length: 12 }, (_, seed) => seed))(
    "the nodes that run first and what each effect does are what the preview said (%i)",
    async (seed) => {
      const next = numbers(seed + 1);
      for (let round = 0; round < 10; round += 1) {
        const { saver, app, calls, first } = randomApp(next);
        await app.invoke({ n: next(2) }, at("t"));
        first.run = false;
        calls.length = 0;
        const travel = timeTravel(app);
        const entries = (await entriesOf(travel)).filter(({ source }) => source === "loop");
        const place = entries[next(entries.length)]?.checkpoint ?? "";
        const effects = POLICIES[next(POLICIES.length)];
        const values = next(2) === 0 ? {} : { values: { n: next(2) } };
        const options = { ...values, ...(effects === undefined ? {} : { effects }) };
        const preview = await travel.preview("t", place, options);
        const { config } = await travel.fork("t", place, options);
        expect((await app.getState(config)).next).toEqual(preview.next.map(({ node }) => node));
        await errorOf(app.invoke(null, config));
        const left = [...preview.effects];
        const hooks = new Map(
          (await saver.effects({ thread: "t" })).map((record) => [record.name, record.links.simulates === true]),
        );
        for (const { name, input, did } of calls) {
          const said = forecastOf(left, effects, name, input, hooks.get(name) ?? false);
          expect({ seed, round, name, input, did }).toEqual({ seed, round, name, input, did: said });
        }
        expect(calls.length > 0 || preview.next.length === 0).toBe(true);
      }
    },
  );
});
