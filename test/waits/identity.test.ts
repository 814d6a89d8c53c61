/** A question keeps its identity: in every view of it, in every order of answers, in every process. */

import { interrupt, START, StateGraph } from "@langchain/langgraph";
import { ask, type Checkpointer, effect, run } from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { newStore, sharedStoreNames, storeNames } from "../backends-table.ts";
import { at } from "../checkpointer/subject.ts";
import { type App, Log, openWaits, parallel, sequence, shownIds } from "./graphs.ts";

const eve = { by: "eve" };

/** Every text of which a store, a log line or an answer over HTTP could make something else. */
const texts = {
  nul: "a\u0000b",
  half: "\ud800 and \udc00",
  escapes: '\\u0000 \\\\- \\n "quoted" \u2028',
  emoji: "😀 família 漢字",
  empty: "",
  large: "x\u0000\ud800😀".repeat(100_000),
};

/** Ids in the stream's `__interrupt__` parts, in the order in which they came. */
async function streamed(app: App, input: unknown, thread = "t"): Promise<string[]> {
  const ids: string[] = [];
  const stream = await app.stream(input as never, { ...at(thread), streamMode: "updates" });
  for await (const part of stream as AsyncIterable<{ __interrupt__?: readonly { id: string }[] }>)
    for (const { id } of part.__interrupt__ ?? []) ids.push(id);
  return ids;
}

/** The node at the bottom of three graphs, with a node before it in each, that writes down who ran. */
function deep(saver: Checkpointer, ran: string[], asking: () => Promise<string>) {
  const level = (depth: number): App => {
    const inner =
      depth === 3
        ? async () => {
            ran.push("asks");
            return { log: [await asking()] };
          }
        : level(depth + 1);
    const graph = new StateGraph(Log)
      .addNode("before", () => {
        ran.push(`before ${depth}`);
        return {};
      })
      .addNode("inner", inner as never)
      .addNode("after", () => {
        ran.push(`after ${depth}`);
        return {};
      })
      .addEdge(START, "before")
      .addEdge("before", "inner")
      .addEdge("inner", "after");
    return graph.compile(depth === 1 ? { checkpointer: saver } : {}) as unknown as App;
  };
  return level(1);
}

describe.each(storeNames)("%s", (name) => {
  test.each([
    ["ask", () => ask("Ok?").then(({ decision }) => decision)],
    ["interrupt", async () => String(interrupt("Ok?"))],
  ])(
    "a question by %s has one id in the stream, in the thread's state, in run's answer and in the list of waits",
    async (_, asking) => {
      const saver = await (await newStore(name)).open();
      const app = parallel(saver, {
        a: async () => ({ log: [await asking()] }),
        b: async () => ({ log: [await asking()] }),
      });
      const ids = await streamed(app, { log: [] });
      expect(ids).toHaveLength(2);
      expect((await openWaits(saver)).map(({ id }) => id).sort()).toEqual(ids.sort());
      expect(await shownIds(app)).toEqual(ids);
      const { status, waits } = await run(app, null, at("t"));
      expect([status, waits.map(({ id }) => id).sort()]).toEqual(["waiting", ids]);
    },
  );

  test.each(["sync", "async"] as const)(
    "when a stream tells of a question by ask, the question is stored, in %s durability",
    async (durability) => {
      const saver = await (await newStore(name)).open();
      const app = parallel(saver, {
        a: async () => ({ log: [(await ask("A?")).decision] }),
        b: async () => ({ log: [(await ask("B?")).decision] }),
      });
      const stored: string[] = [];
      const told: string[] = [];
      const stream = await app.stream({ log: [] } as never, { ...at("t"), durability, streamMode: "updates" });
      for await (const part of stream as AsyncIterable<{ __interrupt__?: readonly { id: string }[] }>) {
        for (const { id } of part.__interrupt__ ?? []) {
          told.push(id);
          // Asked of the backend itself: the checkpointer would store first what still waits.
          stored.push(...(await saver.backend.waits({ id, status: ["open"] })).map((row) => row.id));
        }
      }
      expect(told).toHaveLength(2);
      expect(stored).toEqual(told);
    },
  );

  test("answers reach their questions also where the code asks them in another order than before the pause", async () => {
    const store = await newStore(name);
    const node = (order: readonly string[]) => async () => {
      const answers = new Map<string, string>();
      for (const what of order) answers.set(what, String((await ask(`${what}?`, { details: what })).value));
      return { log: ["a", "b"].map((what) => `${what}: ${answers.get(what)}`) };
    };
    const first = await store.open();
    await sequence(first, { two: node(["a", "b"]) }).invoke({ log: [] }, at("t"));
    const answer = async (saver: Checkpointer, what: string) => {
      const [open] = await openWaits(saver);
      expect(open?.details).toBe(what);
      await saver.answer(open?.id as string, { type: "edit", value: `${what}!` }, eve);
    };
    await answer(first, "a");
    await first.close();
    const second = await store.open();
    const app = sequence(second, { two: node(["b", "a"]) });
    await app.invoke(null, at("t"));
    await answer(second, "b");
    expect((await app.invoke(null, at("t"))).log).toEqual(["a: a!", "b: b!"]);
  });

  test("each of two paused branches goes on by its own answer, and effects before the questions run once", async () => {
    const saver = await (await newStore(name)).open();
    const ran = { a: 0, b: 0, effects: 0 };
    const prepare = effect("prepare", { input: z.string(), run: () => ++ran.effects });
    const branch = (label: "a" | "b") => async () => {
      ran[label] += 1;
      await prepare(label);
      return { log: [`${label} ${(await ask("Ok?", { details: label })).decision}`] };
    };
    const app = parallel(saver, { a: branch("a"), b: branch("b") });
    await app.invoke({ log: [] }, at("t"));
    for (const label of ["b", "a"]) {
      const wait = (await openWaits(saver)).find(({ details }) => details === label);
      await saver.answer(wait?.id as string, { type: "approve" }, eve);
      await app.invoke(null, at("t"));
    }
    expect((await app.getState(at("t"))).values.log.toSorted()).toEqual(["a approve", "b approve"]);
    // LangGraph runs the branch that is still paused again as well; the branch that went on is done.
    expect(ran).toEqual({ a: 3, b: 2, effects: 2 });
  });

  test("a question three graphs deep goes on where it was: no node above or before it runs again", async () => {
    const store = await newStore(name);
    const ran: string[] = [];
    const asking = async () => (await ask("Ok?")).decision;
    const first = await store.open();
    await deep(first, ran, asking).invoke({ log: [] }, at("t"));
    const [open] = await openWaits(first);
    await first.answer(open?.id as string, { type: "approve" }, eve);
    await first.close();
    const second = await store.open();
    const app = deep(second, ran, asking);
    await app.invoke(null, at("t"));
    expect(ran).toEqual(["before 1", "before 2", "before 3", "asks", "asks", "after 3", "after 2", "after 1"]);
    expect((await app.getState(at("t"))).next).toEqual([]);
  });

  test("what is known of a nested question comes back equal in another process, and it can be answered there", async () => {
    const store = await newStore(name);
    const details = { texts, when: new Date(7), map: new Map([[{ a: 1 }, new Set([1n])]]), none: undefined, zero: -0 };
    const asking = async () => {
      const { value } = await ask("Ok?", { details, answer: z.unknown(), assignee: "ann", deadline: "3 days" });
      return JSON.stringify(Object.keys(value as object));
    };
    const first = await store.open();
    await deep(first, [], asking).invoke({ log: [] }, { configurable: { thread_id: "t", graph_id: "g", owner: "o" } });
    const before = await openWaits(first);
    expect(before).toHaveLength(1);
    expect(before[0]?.details).toStrictEqual(details);
    await first.close();
    const second = await store.open();
    expect(await openWaits(second)).toStrictEqual(before);
    await second.answer(before[0]?.id as string, { type: "approve" }, eve);
    expect((await deep(second, [], asking).invoke(null, at("t"))).log).toEqual([JSON.stringify(Object.keys(details))]);
  });

  test("at the second pause every process is shown the second question, and not the first", async () => {
    const store = await newStore(name);
    const nodes = {
      a: async () => ({ log: [(await ask("First?")).decision] }),
      b: async () => ({ log: [String(interrupt("Second?"))] }),
    };
    const first = await store.open();
    await sequence(first, nodes).invoke({ log: [] }, at("t"));
    await first.close();
    const second = await store.open();
    await second.answer((await openWaits(second))[0]?.id as string, { type: "approve" }, eve);
    await sequence(second, nodes).invoke(null, at("t"));
    await second.close();
    const third = await store.open();
    const open = await openWaits(third);
    expect(open.map(({ value }) => value)).toEqual(["Second?"]);
    expect(await shownIds(sequence(third, nodes))).toEqual(open.map(({ id }) => id));
    await third.answer(open[0]?.id as string, { type: "respond", value: "yes" }, eve);
    expect((await sequence(third, nodes).invoke(null, at("t"))).log).toEqual(["approve", "yes"]);
  });

  test("who runs a thread whose subgraph asks is told the question, where it is, and since when", async () => {
    const began = Date.parse("2030-01-01T00:00:00Z");
    const saver = await (await newStore(name)).open({ now: () => began });
    const app = deep(saver, [], async () => (await ask("Pay?", { details: { cents: 5 } })).decision);
    const { status, waits } = await run(app, { log: [] }, at("t"));
    expect(status).toBe("waiting");
    expect(waits).toMatchObject([{ kind: "question", name: "Pay?", details: { cents: 5 }, openedAt: new Date(began) }]);
    expect(waits[0]?.ns).toMatch(/^inner:.*\|inner:/);
  });

  test("every text survives in questions, answers, comments and names of deciders, and as the answer of an interrupt", async () => {
    const store = await newStore(name);
    const seen: unknown[] = [];
    const nodes = {
      a: async () => {
        const { value, comment } = await ask(texts.half, { details: texts, name: "a" });
        seen.push(value, comment);
        return {};
      },
      b: () => {
        seen.push(interrupt(texts));
        return {};
      },
    };
    const first = await store.open();
    await sequence(first, nodes).invoke({ log: [] }, at("t"));
    const [question] = await openWaits(first);
    expect(question?.details).toStrictEqual(texts);
    expect(question?.value).toMatchObject({ question: texts.half });
    const comment = `${texts.nul}${texts.half}${texts.escapes}`;
    await first.answer(question?.id as string, { type: "edit", value: texts, comment }, { by: texts.emoji });
    await first.close();
    const second = await store.open();
    await sequence(second, nodes).invoke(null, at("t"));
    const [plain] = await openWaits(second);
    expect(plain?.value).toStrictEqual(texts);
    await second.answer(plain?.id as string, { type: "respond", value: texts }, eve);
    await sequence(second, nodes).invoke(null, at("t"));
    expect(seen).toStrictEqual([texts, comment, texts]);
    const [recorded] = await second.waits({ id: question?.id as string });
    expect(recorded?.decision).toMatchObject({ value: texts, comment, by: texts.emoji });
    expect((await second.verifyDecisions()).broken).toEqual([]);
  });

  test("any text can be asked: with half a surrogate, and so long that its name is cut inside a character of two units", async () => {
    const saver = await (await newStore(name)).open();
    const asked = [texts.half, `${"x".repeat(199)}😀 and more`];
    const app = sequence(saver, {
      a: async () => {
        await Promise.all(asked.map((question) => ask(question)));
        return { log: asked.map((question) => String(interrupt(question))) };
      },
    });
    await app.invoke({ log: [] }, at("t"));
    for (let round = 0; round < 3; round += 1) {
      for (const { id, value, kind } of await openWaits(saver)) {
        expect(asked).toContain(kind === "question" ? (value as { question: string }).question : value);
        await saver.answer(id, { type: "respond", value: "yes" }, eve);
      }
      await app.invoke(null, at("t"));
    }
    expect((await app.getState(at("t"))).values).toEqual({ log: ["yes", "yes"] });
  });
});

describe.each(sharedStoreNames)("%s, shared", (name) => {
  test.each([
    ["the first one first", [0, 1]],
    ["the last one first", [1, 0]],
  ])("two clients answer two questions of one turn, %s, and each answer reaches its own", async (_, order) => {
    const store = await newStore(name);
    const savers = [await store.open(), await store.open()] as const;
    const node = (label: string) => async () => ({
      log: [`${label} ${String((await ask("Ok?", { details: label })).value)}`],
    });
    const build = (saver: Checkpointer) => parallel(saver, { a: node("a"), b: node("b") });
    await build(savers[0]).invoke({ log: [] }, at("t"));
    const waits = await openWaits(savers[0]);
    const labels = waits.map(({ details }) => String(details));
    for (const [client, index] of order.entries()) {
      const saver = savers[client] as Checkpointer;
      await saver.answer(
        waits[index]?.id as string,
        { type: "edit", value: `${labels[index]}!` },
        { by: `client ${client}` },
      );
      await build(saver).invoke(null, at("t"));
    }
    expect((await build(savers[1]).getState(at("t"))).values.log.toSorted()).toEqual(["a a!", "b b!"]);
  });
});
