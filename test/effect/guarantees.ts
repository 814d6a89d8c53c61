/** Guarantees of effects (E1–E6) that both the real library and the mutants are checked against. */

import { START, StateGraph } from "@langchain/langgraph";
import type { Backend, Checkpointer, EffectRow } from "holdfast";
import { expect } from "vitest";
import { z } from "zod";
import { chain } from "../checkpointer/guarantees.ts";
import { State } from "../checkpointer/shapes.ts";
import { at, errorOf, gate, type Guarantee } from "../checkpointer/subject.ts";

async function intents(backend: Backend, thread: string): Promise<readonly EffectRow[]> {
  return backend.effects({ thread });
}

export const bodyAfterBarrier: Guarantee = {
  name: "when a body begins, the checkpoint it hangs on and, except for rerun, its intent are stored",
  check: async ({ open, library }) => {
    const saver = await open();
    const seen: unknown[] = [];
    const look = (name: string, onUnknown: "settle" | "rerun") =>
      library.effect(name, {
        input: z.string(),
        onUnknown,
        run: async () => {
          // Asked of the backend itself: the checkpointer would store first what still waits.
          const { checkpoint, writes } = await saver.backend.load("t", "", undefined);
          const rows = (await intents(saver.backend, "t")).filter((row) => row.name === name);
          seen.push([name, checkpoint?.id, writes.length, rows.map((row) => row.status).join()]);
          return 1;
        },
      });
    const [settle, rerun] = [look("settled", "settle"), look("rerun", "rerun")];
    const expected: unknown[] = [];
    const here = async (name: string, status: string, effect: (input: string) => Promise<number>) => {
      const { AsyncLocalStorageProviderSingleton } = await import("@langchain/core/singletons");
      const config = AsyncLocalStorageProviderSingleton.getRunnableConfig() as {
        configurable: { checkpoint_map: Record<string, string> };
      };
      expected.push([name, config.configurable.checkpoint_map[""], 0, status]);
      await effect("x");
      return {};
    };
    const app = chain(saver, {
      a: () => here("rerun", "", rerun),
      b: () => here("settled", "intent", settle),
      c: () => here("rerun", "done", rerun),
    });
    await app.invoke({ n: 1 }, at("t", { durability: "async" }));
    // The third one's rows are those of the first: equal name, another task.
    expect(seen).toEqual(expected);
  },
};

export const recordedOnce: Guarantee = {
  name: "a node that runs again gets the recorded outcomes, of equal calls each its own, and no body runs again",
  check: async ({ open, library }) => {
    const saver = await open();
    let bodies = 0;
    let fail = true;
    const pay = library.effect("pay", {
      input: z.object({ cents: z.number() }),
      run: ({ cents }) => ({ id: ++bodies, cents }),
    });
    const seen: string[] = [];
    const app = chain(saver, {
      a: async () => {
        const all = await Promise.all([pay({ cents: 5 }), pay({ cents: 5 }), pay({ cents: 6 })]);
        seen.push(all.map(({ id, cents }) => `${id}:${cents}`).join(" "));
        if (fail) throw new Error("later");
        return {};
      },
    });
    await expect(app.invoke({ n: 1 }, at("t"))).rejects.toThrow("later");
    fail = false;
    await app.invoke(null, at("t"));
    expect(bodies).toBe(3);
    expect(seen[1]).toBe(seen[0]);
  },
};

export const changedInputRefused: Guarantee = {
  name: "a node that runs again and calls an effect with another input than recorded gets EFFECT_MISMATCH and no body runs",
  check: async ({ open, library }) => {
    const saver = await open();
    let bodies = 0;
    let amount = 5;
    const pay = library.effect("pay", { input: z.number(), run: () => ++bodies });
    const app = chain(saver, {
      a: async () => {
        await pay(amount);
        if (amount === 5) throw new Error("later");
        return {};
      },
    });
    await expect(app.invoke({ n: 1 }, at("t"))).rejects.toThrow("later");
    amount = 6;
    const error = await errorOf(app.invoke(null, at("t")));
    expect(error?.code).toBe("EFFECT_MISMATCH");
    expect(error?.message).toContain("5");
    expect(error?.message).toContain("6");
    expect(bodies).toBe(1);
  },
};

export const keyedMismatchRefused: Guarantee = {
  name: "a given key that comes with another input is refused, in any thread, and with the same input gives the outcome",
  check: async ({ open, library }) => {
    const saver = await open();
    let bodies = 0;
    const pay = library.effect("pay", {
      input: z.object({ invoice: z.string(), cents: z.number() }),
      key: ({ invoice }) => invoice,
      run: () => ++bodies,
    });
    const app = chain(saver, { a: async ({ n }) => ({ log: [String(await pay({ invoice: "I-1", cents: n }))] }) });
    await app.invoke({ n: 5 }, at("one"));
    expect((await app.invoke({ n: 5 }, at("two"))).log).toEqual(["1"]);
    expect((await errorOf(app.invoke({ n: 6 }, at("three"))))?.code).toBe("EFFECT_MISMATCH");
    await saver.deleteThread("one");
    expect((await app.invoke({ n: 5 }, at("four"))).log).toEqual(["1"]);
    expect(bodies).toBe(1);
  },
};

/** A body of the first checkpointer that is still running while a second one looks at the same call. */
async function whileRunning(
  open: () => Promise<Checkpointer>,
  make: (body: () => Promise<unknown>) => (input: number) => Promise<unknown>,
) {
  const [one, two] = [await open(), await open()];
  const end = gate();
  const begun = gate();
  let bodies = 0;
  const pay = make(async () => {
    bodies += 1;
    begun.open();
    // A second body, which must never begin, does not wait.
    if (bodies === 1) await end.passed;
    return bodies;
  });
  const build = (saver: Checkpointer) => chain(saver, { a: async () => ({ log: [`paid ${String(await pay(7))}`] }) });
  const first = build(one)
    .invoke({ n: 1 }, at("t"))
    .catch((error: unknown) => error);
  await begun.passed;
  return { one, two, end, first, second: build(two), bodies: () => bodies };
}

export const inDoubtWhileAlive: Guarantee = {
  name: "while the owner of an intent may be alive nobody runs it, and a verify that says no is not believed",
  needs: "shared",
  check: async ({ open, library }) => {
    for (const policy of ["verify", "settle", "fail"] as const) {
      const { one, two, end, first, second, bodies } = await whileRunning(open, (run) =>
        library.effect("pay", {
          input: z.number(),
          run,
          onUnknown: policy,
          ...(policy === "verify" ? { verify: () => undefined } : {}),
        }),
      );
      expect((await errorOf(second.invoke(null, at("t"))))?.code).toBe("EFFECT_IN_DOUBT");
      const [{ key } = { key: "" }] = await two.effects({ thread: "t" });
      expect((await errorOf(two.settle(key, { notDone: true }, { by: "eve" })))?.code).toBe("EFFECT_IN_DOUBT");
      expect(bodies()).toBe(1);
      end.open();
      await first;
      expect((await two.effects({ thread: "t" }))[0]?.status).toBe("done");
      await one.deleteThread("t");
    }
  },
};

export const outcomeStoredFirst: Guarantee = {
  name: "an outcome is returned only when it is stored",
  check: async ({ open, library }) => {
    const saver = await open();
    const pay = library.effect("pay", { input: z.number(), run: () => 42 });
    let stored: string | undefined;
    const app = chain(saver, {
      a: async () => {
        await pay(1);
        stored = (await intents(saver.backend, "t"))[0]?.status;
        return {};
      },
    });
    await app.invoke({ n: 1 }, at("t"));
    expect(stored).toBe("done");
  },
};

export const refusedRunStartsNothing: Guarantee = {
  name: "a run that was refused starts no further effect",
  needs: "shared",
  check: async ({ open, library }) => {
    const [one, two] = [await open(), await open()];
    let bodies = 0;
    const pay = library.effect("pay", { input: z.string(), run: () => ++bodies, onUnknown: "rerun" });
    const overtaken = gate();
    const begun = gate();
    const slow = chain(one, {
      a: async () => {
        begun.open();
        await overtaken.passed;
        return {};
      },
      b: async () => {
        await one.barrier();
        return { log: [String(await pay("b"))] };
      },
    });
    const fast = chain(two, { a: () => ({ log: ["fast"] }), b: () => ({}) });
    const first = errorOf(slow.invoke({ n: 1 }, at("t", { durability: "async" })));
    await begun.passed;
    await one.barrier();
    await fast.invoke({ n: 2 }, at("t"));
    overtaken.open();
    expect((await first)?.code).toMatch(/^(RUN_REFUSED|HEAD_MOVED)$/);
    expect(bodies).toBe(0);
  },
};

export const unknownIsNotRepeated: Guarantee = {
  name: "an effect whose body threw is not run again but waits to be settled, and the decision is what the node gets",
  check: async ({ open, library }) => {
    const saver = await open();
    let bodies = 0;
    const mail = library.effect("mail", {
      input: z.string(),
      run: (): string => {
        bodies += 1;
        throw new Error("socket closed");
      },
    });
    const graph = new StateGraph(State).addNode("a", async () => ({ log: [await mail("x")] })).addEdge(START, "a");
    const app = graph.compile({ checkpointer: saver });
    await expect(library.run(app, { n: 1 }, at("t"))).rejects.toThrow("socket closed");
    const parked = await library.run(app, null, at("t"));
    expect(parked).toMatchObject({ status: "parked", waits: [{ kind: "settle" }] });
    await saver.settle(
      (parked.waits.at(0)?.value as never as { key: string } | undefined)?.key ?? "",
      { done: "sent" },
      { by: "eve" },
    );
    expect(await library.run(app, null, at("t"))).toMatchObject({ status: "finished", values: { log: ["sent"] } });
    expect(bodies).toBe(1);
  },
};

export const effectGuarantees: readonly Guarantee[] = [
  bodyAfterBarrier,
  recordedOnce,
  changedInputRefused,
  keyedMismatchRefused,
  inDoubtWhileAlive,
  outcomeStoredFirst,
  refusedRunStartsNothing,
  unknownIsNotRepeated,
];
