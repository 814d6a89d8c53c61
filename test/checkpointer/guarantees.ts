/** Guarantees of state (S1–S6) that both the real library and the mutants are checked against. */

import { Annotation, Command, interrupt, START, StateGraph } from "@langchain/langgraph";
import type { Checkpointer } from "holdfast";
import { expect, vi } from "vitest";
import { State } from "./shapes.ts";
import { at, errorOf, gate, type Guarantee } from "./subject.ts";

type Step = (
  state: typeof State.State,
  config: unknown,
) => Promise<Partial<typeof State.Update>> | Partial<typeof State.Update>;

/** START → the nodes, one after the other. */
export function chain(checkpointer: Checkpointer, nodes: Readonly<Record<string, Step>>) {
  const graph = new StateGraph(State) as StateGraph<typeof State.spec, typeof State.State, typeof State.Update, string>;
  let before: string = START;
  for (const [name, node] of Object.entries(nodes)) {
    graph.addNode(name, node).addEdge(before as never, name);
    before = name;
  }
  return graph.compile({ checkpointer });
}

/** Two runs that continue the same head; the first to begin is overtaken inside its node. */
async function overtaken(open: () => Promise<Checkpointer>, durability: "sync" | "async") {
  const [one, two] = [await open(), await open()];
  const waiting = gate();
  const begun = gate();
  const slow = chain(one, {
    a: async ({ n }) => {
      begun.open();
      await waiting.passed;
      return { log: [`a${n}`] };
    },
    b: () => ({ log: ["b"] }),
  });
  const fast = chain(two, { a: ({ n }) => ({ log: [`a${n}`] }), b: () => ({ log: ["b"] }) });
  const first = errorOf(slow.invoke({ n: 1 }, at("t", { durability })));
  await begun.passed;
  await one.barrier();
  await fast.invoke({ n: 2 }, at("t", { durability }));
  const stored = (await fast.getState(at("t"))).values;
  waiting.open();
  return { error: await first, before: stored, after: (await fast.getState(at("t"))).values };
}

export const headIsKept: Guarantee = {
  name: "of two runs on one thread the one that was overtaken is refused with HEAD_MOVED and changes nothing",
  needs: "shared",
  check: async ({ open }) => {
    for (const durability of ["sync", "async"] as const) {
      const { error, before, after } = await overtaken(open, durability);
      expect(error?.code).toMatch(/^(HEAD_MOVED|RUN_REFUSED)$/);
      expect(after).toEqual(before);
      const saver = await open();
      await saver.deleteThread("t");
      await saver.close();
    }
  },
};

export const otherWritesRefused: Guarantee = {
  name: "a run that finds another run's different result of the same task is refused instead of ignored",
  needs: "shared",
  check: async ({ open }) => {
    const [one, two] = [await open(), await open()];
    let fail = true;
    const paused = chain(one, {
      a: () => {
        if (fail) throw new Error("crash");
        return {};
      },
    });
    await expect(paused.invoke({ n: 1 }, at("t"))).rejects.toThrow("crash");
    fail = false;
    const [held, bothRun, stored] = [gate(), gate(), gate()];
    const parallel = (saver: Checkpointer, a: () => Promise<string>, hold: () => Promise<void>) => {
      const graph = new StateGraph(State)
        .addNode("a", async () => ({ log: [await a()] }))
        .addNode("hold", async () => {
          await hold();
          return {};
        })
        .addEdge(START, "a")
        .addEdge(START, "hold");
      return graph.compile({ checkpointer: saver });
    };
    const slowly = async () => {
      await bothRun.passed;
      return "one";
    };
    const later = async () => {
      bothRun.open();
      await stored.passed;
      return "two";
    };
    const slow = parallel(one, slowly, () => held.passed);
    // Neither ends before both have begun: the other run would take over what it finds.
    const fast = parallel(two, later, () => stored.passed);
    await slow.updateState(at("u"), { n: 1 }, "__start__");
    const [first, second] = [slow, fast].map((app) => errorOf(app.invoke(null, at("u", { durability: "sync" }))));
    const written = async () => (await one.getTuple(at("u")))?.pendingWrites?.map(([, channel]) => channel);
    await expect.poll(written, { timeout: 30_000 }).toContain("log");
    stored.open();
    const conflict = await second;
    held.open();
    const codes = [(await first)?.code, conflict?.code];
    expect(codes).toContain("WRITE_CONFLICT");
    expect((await fast.getState(at("u"))).values.log).toHaveLength(1);
  },
};

export const latestIsTheHead: Guarantee = {
  name: "the latest checkpoint is the one stored last, also when the clock was set back meanwhile",
  check: async ({ open }) => {
    const saver = await open();
    const app = chain(saver, { a: ({ n }) => ({ log: [`a${n}`] }) });
    vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2030, 0, 2) });
    try {
      await app.invoke({ n: 1 }, at("t"));
      vi.setSystemTime(Date.UTC(2030, 0, 1));
      await app.invoke({ n: 2 }, at("t"));
      expect((await app.getState(at("t"))).values.log).toEqual(["a1", "a2"]);
      expect((await app.invoke({ n: 3 }, at("t"))).log).toEqual(["a1", "a2", "a3"]);
    } finally {
      vi.useRealTimers();
    }
  },
};

export const deletionLeavesNothing: Guarantee = {
  name: "a deleted thread leaves no row, and its id is nowhere in the store",
  check: async ({ open, contents, library }) => {
    const saver = await open();
    const { z } = await import("zod");
    const note = library.effect("note", { input: z.string(), run: (text) => `noted ${text}` });
    const app = chain(saver, {
      a: async () => ({ log: [await note("secret-of-gone"), "secret-of-gone ".repeat(200)] }),
      b: () => ({ log: [String(interrupt("gone-question"))] }),
    });
    await app.invoke({ n: 1 }, at("gone-thread", { durability: "sync" }));
    await app.invoke({ n: 1 }, at("kept-thread", { durability: "sync" }));
    await saver.deleteThread("gone-thread");
    expect((await app.getState(at("gone-thread"))).metadata).toBeUndefined();
    expect(await saver.effects({ thread: "gone-thread" })).toEqual([]);
    expect(saver.backend.owner.length).toBeGreaterThan(0);
    const rows: unknown[] = [];
    for await (const row of saver.backend.checkpoints({ thread: "gone-thread" })) rows.push(row);
    expect(rows).toEqual([]);
    await saver.close();
    const text = await contents();
    expect(text).toContain("kept-thread");
    expect(text).not.toContain("gone-thread");
  },
};

export const lateWritesRefused: Guarantee = {
  name: "what a run writes after its thread was deleted is refused, and a new run begins a new thread",
  check: async ({ open }) => {
    const saver = await open();
    let [waiting, begun] = [gate(), gate()];
    let hold = true;
    const app = chain(saver, {
      a: async ({ n }) => {
        if (hold) {
          begun.open();
          await waiting.passed;
        }
        return { log: [`a${n}`] };
      },
      b: () => ({ log: ["b"] }),
    });
    for (const durability of ["sync", "async"] as const) {
      [hold, waiting, begun] = [true, gate(), gate()];
      const late = errorOf(app.invoke({ n: 1 }, at("t", { durability })));
      await begun.passed;
      await saver.deleteThread("t");
      waiting.open();
      expect((await late)?.code).toMatch(/^(THREAD_DELETED|RUN_REFUSED)$/);
      expect((await app.getState(at("t"))).metadata).toBeUndefined();
      hold = false;
      expect((await app.invoke({ n: 2 }, at("t", { durability }))).log).toEqual(["a2", "b"]);
    }
  },
};

export const forksReadTheirOwn: Guarantee = {
  name: "two branches from one checkpoint each read their own values",
  check: async ({ open }) => {
    const saver = await open();
    const big = "item ".repeat(40);
    const app = chain(saver, {
      a: ({ n }) => ({ log: [`a${n} ${big}`, `a${n} again ${big}`, `a${n} and again ${big}`] }),
      b: ({ log }) => ({ log: [`b after ${log.length} ${big}`] }),
    });
    await app.invoke({ n: 1 }, at("t"));
    const history = [];
    for await (const snapshot of app.getStateHistory(at("t"))) history.push(snapshot);
    const before = history.find((snapshot) => snapshot.next[0] === "b")?.config;
    // Each branch writes other channels, so that equal version numbers stand for different values.
    const branch = async (mark: string, update: Partial<typeof State.Update>) => {
      const config = await app.updateState(before as never, update);
      await app.invoke(null, config);
      return { mark, end: (await app.getState(at("t"))).config };
    };
    const branches = [
      await branch("one", { log: [`one ${big}`], n: 100 }),
      await branch("two", { log: [`two ${big}`], order: "two" }),
      await branch("three", { n: 300 }),
      await branch("four", { log: [`four ${big}`] }),
    ];
    const again = await open().catch(() => saver);
    const reader = chain(again, { a: () => ({}), b: () => ({}) });
    const read: Record<string, unknown> = {};
    for (const { mark, end } of branches) {
      const { values } = await reader.getState(end);
      read[mark] = [values.log.map((item: string) => item.split(" ")[0]).join(), values.n, values.order];
    }
    expect(read).toEqual({
      one: ["a1,a1,a1,one,b", 100, ""],
      two: ["a1,a1,a1,two,b", 1, "(two)"],
      three: ["a1,a1,a1,b", 300, ""],
      four: ["a1,a1,a1,four,b", 1, ""],
    });
  },
};

export const storedAsPut: Guarantee = {
  name: "a value that is edited in place after the put is stored as it was at the put",
  check: async ({ open }) => {
    const saver = await open();
    const Live = Annotation.Root({ box: Annotation<{ n: number }[]>(), n: Annotation<number>() });
    const app = new StateGraph(Live)
      .addNode("a", () => ({ box: [{ n: 1 }] }))
      .addNode("b", ({ box }) => {
        const [first] = box;
        if (first !== undefined) first.n = 2;
        return { n: 5 };
      })
      .addEdge(START, "a")
      .addEdge("a", "b")
      .compile({ checkpointer: saver });
    await app.invoke({ n: 0 }, at("t", { durability: "async" }));
    const history = [];
    for await (const snapshot of app.getStateHistory(at("t"))) history.push(snapshot);
    expect(history.find((snapshot) => snapshot.next[0] === "b")?.values.box).toEqual([{ n: 1 }]);
  },
};

export const editsAreNoticed: Guarantee = {
  name: "an old item of a list that is edited, also in place, is stored as edited and the earlier checkpoint keeps the old one",
  check: async ({ open }) => {
    const saver = await open();
    const text = "long enough, three times, to be a list of its own ".repeat(4);
    const Live = Annotation.Root({ items: Annotation<{ id: number; text: string }[]>() });
    const app = new StateGraph(Live)
      .addNode("a", () => ({ items: [0, 1, 2].map((id) => ({ id, text })) }))
      .addNode("b", ({ items }) => ({
        items: [...items.map((item) => (item.id === 1 ? { ...item, text: "edited" } : item))],
      }))
      .addNode("c", ({ items }) => {
        const [first] = items;
        if (first !== undefined) first.text = "in place";
        return { items: [...items, { id: 3, text }] };
      })
      .addNode("d", ({ items }) => ({ items: items.slice(0, 2) }))
      .addEdge(START, "a")
      .addEdge("a", "b")
      .addEdge("b", "c")
      .addEdge("c", "d")
      .compile({ checkpointer: saver });
    await app.invoke({ items: [] }, at("t", { durability: "sync" }));
    const texts: Record<string, string[]> = {};
    for await (const { next, values } of app.getStateHistory(at("t"))) {
      texts[next[0] ?? "end"] = (values.items ?? []).map((item: { text: string }) =>
        item.text === text ? "-" : item.text,
      );
    }
    expect(texts).toMatchObject({
      b: ["-", "-", "-"],
      c: ["-", "edited", "-"],
      d: ["in place", "edited", "-", "-"],
      end: ["in place", "edited"],
    });
  },
};

export const specialWritesReplace: Guarantee = {
  name: "three questions in one node are answered one after the other, each answer once",
  check: async ({ open }) => {
    const saver = await open();
    const app = chain(saver, {
      ask: () => ({ log: ["1?", "2?", "3?"].map((question) => `${question}${String(interrupt(question))}`) }),
    });
    await app.invoke({ n: 1 }, at("t"));
    for (const answer of ["x", "y", "z"]) await app.invoke(new Command({ resume: answer }), at("t"));
    const state = await app.getState(at("t"));
    expect(state.values.log).toEqual(["1?x", "2?y", "3?z"]);
    expect(state.tasks).toEqual([]);
  },
};

export const stateGuarantees: readonly Guarantee[] = [
  headIsKept,
  otherWritesRefused,
  latestIsTheHead,
  deletionLeavesNothing,
  lateWritesRefused,
  forksReadTheirOwn,
  storedAsPut,
  editsAreNoticed,
  specialWritesReplace,
];
