/** Guarantees of forks (E7) that both the real library and the mutants are checked against, through plain LangGraph calls. */

import { Send, START, StateGraph } from "@langchain/langgraph";
import type { Checkpointer, EffectRecord, OnFork, WaitRecord } from "holdfast";
import { expect } from "vitest";
import { z } from "zod";
import { chain } from "../checkpointer/guarantees.ts";
import { State } from "../checkpointer/shapes.ts";
import { at, errorOf, type Guarantee, type Subject } from "../checkpointer/subject.ts";

/** A shop: the amount is the state's `n`, the address its last log line. */
function shop(
  library: Subject["library"],
  saver: Checkpointer,
  definition: { onFork?: OnFork; simulate?: (cents: number) => string } = {},
) {
  const bodies: number[] = [];
  const charge = library.effect("charge", {
    input: z.number(),
    run: (cents) => {
      bodies.push(cents);
      return `receipt ${bodies.length} of ${cents}`;
    },
    ...definition,
  });
  const app = chain(saver, {
    quote: () => ({ log: ["quoted"] }),
    charge: async ({ n }) => ({ log: [await charge(n)] }),
    ship: ({ log }) => ({ log: [`shipped with ${log.at(-1)}`] }),
  });
  const before = async (node: string) => {
    for await (const snapshot of app.getStateHistory(at("t"))) {
      if (snapshot.next[0] === node) return snapshot.config;
    }
    throw new Error(`the history has no step before ${node}`);
  };
  return {
    app,
    bodies,
    before,
    edited: async (node: string, values: Partial<typeof State.Update>) =>
      app.updateState((await before(node)) as never, values),
    log: async () => (await app.getState(at("t"))).values.log,
  };
}

const openWaits = (saver: Checkpointer): Promise<readonly WaitRecord[]> =>
  saver.waits({ thread: "t", status: ["open"] });

const effectsOf = async (saver: Checkpointer): Promise<readonly EffectRecord[]> =>
  [...(await saver.effects({ thread: "t" }))].sort((a, b) => a.begunAt.getTime() - b.begunAt.getTime());

export const outcomeIsReused: Guarantee = {
  name: "after the charge a branch with another address charges nothing: it takes the receipt, and its record says from where",
  check: async ({ open, library }) => {
    const saver = await open();
    const { app, bodies, before, edited, log } = shop(library, saver);
    await app.invoke({ n: 100 }, at("t"));
    await app.invoke(null, await edited("ship", { log: ["other address"] }));
    expect(await log()).toEqual(["quoted", "receipt 1 of 100", "other address", "shipped with other address"]);
    await app.invoke(null, await before("charge"));
    expect((await log()).at(-1)).toBe("shipped with receipt 1 of 100");
    expect(bodies).toEqual([100]);
    const records = await effectsOf(saver);
    const [original] = records.filter(({ attempt }) => attempt === 1);
    expect(records.filter(({ links }) => links.reusedFrom === original?.key)).toHaveLength(1);
  },
};

export const otherInputAsks: Guarantee = {
  name: "before the charge a branch with another amount asks and runs nothing until a person has decided",
  check: async ({ open, library }) => {
    const saver = await open();
    const { app, bodies, edited, log } = shop(library, saver);
    await app.invoke({ n: 100 }, at("t"));
    await app.invoke(null, await edited("charge", { n: 120 }));
    const [wait] = await openWaits(saver);
    expect(wait?.details).toMatchObject({ input: 120, left: { input: 100, outcome: "receipt 1 of 100" } });
    await app.invoke(null, at("t"));
    expect(bodies).toEqual([100]);
    await saver.answer(wait?.id ?? "", { type: "approve" }, { by: "ada" });
    await app.invoke(null, at("t"));
    expect(await log()).toContain("receipt 2 of 120");
    expect(bodies).toEqual([100, 120]);
  },
};

export const unknownIsAsked: Guarantee = {
  name: "a charge left behind whose outcome is not known is neither taken nor made again without a person's word",
  check: async ({ open, library }) => {
    const saver = await open();
    let bodies = 0;
    const charge = library.effect("charge", {
      input: z.number(),
      run: (): string => {
        bodies += 1;
        if (bodies === 1) throw new Error("connection lost");
        return `receipt ${bodies}`;
      },
    });
    const app = chain(saver, { quote: () => ({}), charge: async ({ n }) => ({ log: [await charge(n)] }) });
    await errorOf(app.invoke({ n: 100 }, at("t")));
    await app.updateState(at("t"), { log: ["edited"] }, "quote");
    await app.invoke(null, at("t"));
    const [wait] = await openWaits(saver);
    expect(wait?.details).toMatchObject({ left: { status: "failed", error: "connection lost" } });
    expect(bodies).toBe(1);
    const recorded = { type: "respond", value: { recorded: true } } as const;
    expect(await errorOf(saver.answer(wait?.id ?? "", recorded, { by: "ada" }))).toMatchObject({
      code: "INVALID_ANSWER",
    });
    await saver.answer(wait?.id ?? "", { type: "respond", value: { outcome: "from the bank's site" } }, { by: "ada" });
    const done = await app.invoke(null, at("t"));
    expect(done.log).toEqual(["edited", "from the bank's site"]);
    expect(bodies).toBe(1);
  },
};

export const denyRefuses: Guarantee = {
  name: "an effect that denies is refused on a branch, whatever its input, with what was recorded and the ways out",
  check: async ({ open, library }) => {
    const saver = await open();
    const { app, bodies, before, edited } = shop(library, saver, { onFork: "deny" });
    await app.invoke({ n: 100 }, at("t"));
    const error = await errorOf(app.invoke(null, await before("charge")));
    expect(error?.code).toBe("EFFECT_FORKED");
    for (const part of ["receipt 1", "onFork", "key"]) expect(error?.message).toContain(part);
    const other = await errorOf(app.invoke(null, await edited("charge", { n: 120 })));
    expect(other?.code).toBe("EFFECT_FORKED");
    expect(bodies).toEqual([100]);
  },
};

export const simulatedIsNotReal: Guarantee = {
  name: "a simulated outcome is marked, and no later branch takes it for a real one",
  check: async ({ open, library }) => {
    const saver = await open();
    const { app, bodies, before, edited, log } = shop(library, saver, {
      onFork: "simulate",
      simulate: (cents) => `made up for ${cents}`,
    });
    await app.invoke({ n: 100 }, at("t"));
    await app.invoke(null, await edited("charge", { n: 120 }));
    expect(await log()).toContain("made up for 120");
    expect((await effectsOf(saver)).map(({ links }) => links.simulated === true)).toContain(true);
    // The same graph without the policy: what was made up for 120 is nothing that happened.
    const plain = shop(library, saver);
    await plain.app.invoke(null, await edited("charge", { n: 120 }));
    const [wait] = await openWaits(saver);
    expect(wait?.details).toMatchObject({ input: 120, left: { input: 100 } });
    expect([...bodies, ...plain.bodies]).toEqual([100]);
    await saver.answer(wait?.id ?? "", { type: "reject", comment: "enough" }, { by: "ada" });
    const refused = await errorOf(plain.app.invoke(null, at("t")));
    expect(refused).toMatchObject({ code: "EFFECT_FORKED", details: { by: "ada" } });
    await plain.app.invoke(null, await before("ship"));
    expect([...bodies, ...plain.bodies]).toEqual([100]);
  },
};

export const replaysChargeOnce: Guarantee = {
  name: "three replays make one charge, and a second charge of the same amount later in the graph is one of its own",
  check: async ({ open, library }) => {
    const saver = await open();
    const bodies: string[] = [];
    const charge = library.effect("charge", {
      input: z.number(),
      run: (cents) => {
        bodies.push(`${cents}`);
        return `receipt ${bodies.length}`;
      },
    });
    const twice = { second: false };
    const app = chain(saver, {
      first: async ({ n }) => ({ log: [await charge(n)] }),
      second: async ({ n }) => (twice.second ? { log: [await charge(n)] } : {}),
    });
    await app.invoke({ n: 100 }, at("t"));
    const start = [];
    for await (const { next, config } of app.getStateHistory(at("t"))) if (next[0] === "first") start.push(config);
    for (let i = 0; i < 3; i += 1) expect((await app.invoke(null, start[0] as never)).log).toEqual(["receipt 1"]);
    expect(bodies).toEqual(["100"]);
    // The one charge that was left behind is taken by the first call; the second call has nothing to take.
    twice.second = true;
    expect((await app.invoke(null, start[0] as never)).log).toEqual(["receipt 1", "receipt 2"]);
    expect(bodies).toEqual(["100", "100"]);
    expect((await app.invoke(null, start[0] as never)).log).toEqual(["receipt 1", "receipt 2"]);
    expect(bodies).toEqual(["100", "100"]);
  },
};

export const oneOutcomeOneCall: Guarantee = {
  name: "of equal calls made at once on a branch each takes an outcome of its own, and one more than were left behind runs",
  check: async ({ open, library }) => {
    const saver = await open();
    let bodies = 0;
    const ping = library.effect("ping", { input: z.string(), run: () => `pong ${++bodies}` });
    const fan = { out: 2 };
    const app = new StateGraph(State)
      .addNode("a", () => ({}))
      .addNode("w", async () => ({ log: (await Promise.all([ping("x"), ping("x")])).sort() }))
      .addEdge(START, "a")
      .addConditionalEdges("a", () => Array.from({ length: fan.out }, (_, n) => new Send("w", { n })), ["w"])
      .compile({ checkpointer: saver });
    await app.invoke({ n: 1 }, at("t"));
    expect(bodies).toBe(4);
    fan.out = 3;
    const start = [];
    for await (const { next, config } of app.getStateHistory(at("t"))) if (next[0] === "a") start.push(config);
    const done = await app.invoke(null, start[0] as never);
    expect(bodies).toBe(6);
    expect(new Set(done.log).size).toBe(6);
  },
};

export const ownLineageIsNotLeft: Guarantee = {
  name: "on a branch, an equal call whose predecessor is part of the branch is a new one and runs",
  check: async ({ open, library }) => {
    const saver = await open();
    let bodies = 0;
    const tick = library.effect("tick", { input: z.string(), run: () => ++bodies });
    const app = chain(saver, {
      one: async () => ({ log: [`one ${await tick("same")}`] }),
      two: () => ({}),
      three: async ({ n }) => (n > 1 ? { log: [`three ${await tick("same")}`] } : {}),
    });
    await app.invoke({ n: 1 }, at("t"));
    const history = [];
    for await (const { next, config } of app.getStateHistory(at("t"))) if (next[0] === "two") history.push(config);
    const done = await app.invoke(null, await app.updateState(history[0] as never, { n: 2 }));
    expect(done.log).toEqual(["one 1", "three 2"]);
  },
};

export const newThreadTakesAlong: Guarantee = {
  name: "a fork into a new thread takes along what it leaves behind: nothing is charged again there when the old thread is gone",
  check: async ({ open, library }) => {
    const saver = await open();
    const { app, bodies, before } = shop(library, saver);
    const large = "large ".repeat(500);
    await app.invoke({ n: 100, log: [large] }, at("t"));
    const place = String((await before("charge")).configurable?.["checkpoint_id"]);
    const { config } = await library.timeTravel(app).fork("t", place, { to: "u" });
    await saver.deleteThread("t");
    expect((await app.invoke(null, config)).log.slice(0, 3)).toEqual([large, "quoted", "receipt 1 of 100"]);
    expect(bodies).toEqual([100]);
  },
};

export const simulatingForkRunsNothing: Guarantee = {
  name: "a fork that simulates runs no effect, also one of which nothing was left behind",
  check: async ({ open, library }) => {
    const saver = await open();
    const bodies: string[] = [];
    const make = (name: string) =>
      library.effect(name, {
        input: z.number(),
        run: (n) => String(bodies.push(`${name} ${n}`)),
        simulate: (n) => `made up for ${n}`,
      });
    const [charge, refund] = [make("charge"), make("refund")];
    const app = chain(saver, {
      charge: async ({ n }) => ({ log: [await charge(n)] }),
      refund: async ({ n }) => (n === 7 ? { log: [await refund(n)] } : {}),
    });
    await app.invoke({ n: 100 }, at("t"));
    const travel = library.timeTravel(app);
    let place = "";
    for await (const { next, checkpoint } of travel.history("t")) if (next[0] === "charge") place = checkpoint;
    const { config } = await travel.fork("t", place, { effects: "simulate", values: { n: 7 } });
    expect((await app.invoke(null, config)).log).toEqual(["made up for 7", "made up for 7"]);
    await app.invoke({ n: 8 }, config);
    expect(bodies).toEqual(["charge 100"]);
  },
};

export const forkIsOneStep: Guarantee = {
  name: "a fork adds one checkpoint, becomes the head, runs nothing, and closes what the old head waited for",
  check: async ({ open, library }) => {
    const saver = await open();
    const seen: string[] = [];
    const app = chain(saver, {
      a: () => {
        seen.push("a");
        return {};
      },
      q: async () => ({ log: [String((await library.ask("Go on?")).decision)] }),
    });
    await app.invoke({ n: 1 }, at("t"));
    const count = async () => {
      let checkpoints = 0;
      for await (const _ of saver.backend.checkpoints({ thread: "t" })) checkpoints += 1;
      return checkpoints;
    };
    const [before, travel] = [await count(), library.timeTravel(app)];
    const head = String((await app.getState(at("t"))).config.configurable?.["checkpoint_id"]);
    const forked = await travel.fork("t", head, { values: { n: 2 }, asNode: "a" });
    expect(await count()).toBe(before + 1);
    expect((await saver.backend.load("t", "", undefined)).head).toBe(forked.checkpoint);
    expect(await openWaits(saver)).toEqual([]);
    expect(seen).toEqual(["a"]);
    await app.invoke(null, forked.config);
    expect([seen, (await openWaits(saver)).length]).toEqual([["a"], 1]);
  },
};

export const forkGuarantees: readonly Guarantee[] = [
  outcomeIsReused,
  otherInputAsks,
  unknownIsAsked,
  denyRefuses,
  simulatedIsNotReal,
  replaysChargeOnce,
  oneOutcomeOneCall,
  ownLineageIsNotLeft,
  newThreadTakesAlong,
  simulatingForkRunsNothing,
  forkIsOneStep,
];
