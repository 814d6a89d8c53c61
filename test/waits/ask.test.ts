/** Questions: asked once, answered once, by id, by any process; what was approved is what goes on. */

import { Command, interrupt } from "@langchain/langgraph";
import { ask, effect } from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { newStore, storeNames } from "../backends-table.ts";
import { at, errorOf } from "../checkpointer/subject.ts";
import { openWaits, parallel, sequence, shownIds } from "./graphs.ts";

const eve = { by: "eve" };

describe.each(storeNames)("%s", (name) => {
  test("a question is a row before the run returns, with the id that LangGraph shows, and an answer lets the thread go on", async () => {
    const saver = await (await newStore(name)).open();
    const app = sequence(saver, {
      pay: async () => {
        const { approved, value, by } = await ask("Pay?", { details: { cents: 42 } });
        return { log: [`${approved} ${JSON.stringify(value)} ${by}`] };
      },
    });
    const paused = (await app.invoke({ log: [] }, at("t"))) as { __interrupt__?: readonly { id: string }[] };
    const [wait, ...others] = await openWaits(saver);
    expect(others).toEqual([]);
    expect(wait).toMatchObject({ kind: "question", name: "Pay?", details: { cents: 42 }, status: "open" });
    expect(paused.__interrupt__?.map(({ id }) => id)).toEqual([wait?.id]);
    expect(await shownIds(app)).toEqual([wait?.id]);
    const { replayed } = await saver.answer(wait?.id as string, { type: "approve" }, eve);
    expect(replayed).toBe(false);
    expect((await saver.waits({ thread: "t" })).map(({ status }) => status)).toEqual(["answered"]);
    const done = await app.invoke(null, at("t"));
    expect(done.log).toEqual(['true {"cents":42} eve']);
    expect((await saver.waits({ thread: "t" })).map(({ status }) => status)).toEqual(["consumed"]);
  });

  test("any process goes on with an answered question after everything was closed", async () => {
    const store = await newStore(name);
    const nodes = { pay: async () => ({ log: [(await ask("Pay?")).decision] }) };
    const first = await store.open();
    await sequence(first, nodes).invoke({ log: [] }, at("t"));
    await first.close();
    const second = await store.open();
    const [wait] = await openWaits(second);
    await second.answer(wait?.id as string, { type: "reject", comment: "too much" }, eve);
    await second.close();
    const third = await store.open();
    expect((await sequence(third, nodes).invoke(null, at("t"))).log).toEqual(["reject"]);
  });

  test("continuing without an answer leaves the thread paused on the same question", async () => {
    const saver = await (await newStore(name)).open();
    const app = sequence(saver, {
      two: async () => {
        const first = await ask("First?");
        const second = await ask("Second?");
        return { log: [first.decision, second.decision] };
      },
    });
    await app.invoke({ log: [] }, at("t"));
    const [first] = await openWaits(saver);
    await app.invoke(new Command({ resume: { [first?.id as string]: true } }), at("t"));
    const [second] = await openWaits(saver);
    expect(second?.name).toBe("Second?");
    for (let i = 0; i < 2; i += 1) await app.invoke(null, at("t"));
    expect((await openWaits(saver)).map(({ id }) => id)).toEqual([second?.id]);
    const done = await app.invoke(new Command({ resume: { [second?.id as string]: false } }), at("t"));
    expect(done.log).toEqual(["approve", "reject"]);
  });

  test("questions asked together are shown together and answered in any order", async () => {
    const saver = await (await newStore(name)).open();
    const app = sequence(saver, {
      three: async () => {
        const answers = await Promise.all(["a", "b", "c"].map((file) => ask("Delete?", { details: file })));
        return { log: answers.map(({ decision, value }) => `${decision} ${String(value)}`) };
      },
    });
    await app.invoke({ log: [] }, at("t"));
    const waits = await openWaits(saver);
    expect(waits.map(({ details }) => details).sort()).toEqual(["a", "b", "c"]);
    expect(await shownIds(app)).toEqual(waits.map(({ id }) => id).sort());
    const idOf = (file: string) => waits.find(({ details }) => details === file)?.id as string;
    await saver.answer(idOf("c"), { type: "approve" }, eve);
    await app.invoke(null, at("t"));
    expect(await openWaits(saver)).toHaveLength(2);
    await saver.answer(idOf("b"), { type: "reject" }, eve);
    await saver.answer(idOf("a"), { type: "edit", value: "a2" }, eve);
    expect((await app.invoke(null, at("t"))).log).toEqual(["edit a2", "reject undefined", "approve c"]);
  });

  test("equal questions of parallel nodes have ids of their own, and each gets its own answer", async () => {
    const saver = await (await newStore(name)).open();
    const node = (label: string) => async () => ({ log: [`${label} ${(await ask("Ok?")).decision}`] });
    const app = parallel(saver, { a: node("a"), b: node("b") });
    await app.invoke({ log: [] }, at("t"));
    const waits = await openWaits(saver);
    expect(new Set(waits.map(({ id }) => id)).size).toBe(2);
    await saver.answer(waits[1]?.id as string, { type: "reject" }, eve);
    await app.invoke(null, at("t"));
    await saver.answer(waits[0]?.id as string, { type: "approve" }, eve);
    const { log } = await app.invoke(null, at("t"));
    expect(log.map((line) => line.split(" ")[1]).sort()).toEqual(["approve", "reject"]);
  });

  test("the same answer again is replayed, another one is refused with the recorded decision", async () => {
    const saver = await (await newStore(name)).open();
    const app = sequence(saver, { ask: async () => ({ log: [(await ask("Ok?")).decision] }) });
    await app.invoke({ log: [] }, at("t"));
    const id = (await openWaits(saver))[0]?.id as string;
    await saver.answer(id, { type: "approve" }, eve);
    for (const when of ["before", "after"]) {
      expect(await saver.answer(id, { type: "approve", comment: when }, { by: "bob" })).toMatchObject({
        replayed: true,
        decision: { by: "eve" },
      });
      expect(await errorOf(saver.answer(id, { type: "reject" }, eve))).toMatchObject({
        code: "ALREADY_ANSWERED",
        details: { decision: { type: "approve", by: "eve" } },
      });
      if (when === "before") await app.invoke(null, at("t"));
    }
  });

  test("an answer to an unknown question changes nothing", async () => {
    const saver = await (await newStore(name)).open();
    const app = sequence(saver, { ask: async () => ({ log: [(await ask("Ok?")).decision] }) });
    await app.invoke({ log: [] }, at("t"));
    const before = await app.getState(at("t"));
    const unknown = "0".repeat(32);
    expect(await errorOf(saver.answer(unknown, { type: "approve" }, eve))).toMatchObject({ code: "UNKNOWN_WAIT" });
    expect(await errorOf(app.invoke(new Command({ resume: { [unknown]: "yes" } }), at("t")))).toMatchObject({
      name: "UnknownInterruptError",
    });
    expect((await app.getState(at("t"))).config).toEqual(before.config);
    expect(await openWaits(saver)).toHaveLength(1);
  });

  test("with several questions open, an answer that names none is refused and all stay open", async () => {
    const saver = await (await newStore(name)).open();
    const app = parallel(saver, {
      a: async () => ({ log: [(await ask("A?")).decision] }),
      b: () => ({ log: [String(interrupt("B?"))] }),
    });
    await app.invoke({ log: [] }, at("t"));
    expect(await errorOf(app.invoke(new Command({ resume: "yes" }), at("t")))).toMatchObject({
      name: "UnknownInterruptError",
      reason: "ambiguous",
    });
    expect(await openWaits(saver)).toHaveLength(2);
  });

  test("an answer without a name goes to the one open question, and never to a later one", async () => {
    const saver = await (await newStore(name)).open();
    const app = sequence(saver, {
      files: () => {
        const file = interrupt("Delete the file?") as string;
        const database = interrupt("Delete the database?") as string;
        return { log: [file, database] };
      },
    });
    await app.invoke({ log: [] }, at("t"));
    await app.invoke(new Command({ resume: "yes" }), at("t"));
    for (let i = 0; i < 2; i += 1) await app.invoke(null, at("t"));
    const [open] = await openWaits(saver);
    expect(open?.value).toBe("Delete the database?");
    await saver.answer(open?.id as string, { type: "respond", value: "no" }, eve);
    expect((await app.invoke(null, at("t"))).log).toEqual(["yes", "no"]);
  });

  test("a plain interrupt is answered through the store, and the thread goes on without a Command", async () => {
    const store = await newStore(name);
    const saver = await store.open();
    const nodes = {
      a: () => ({ log: [JSON.stringify(interrupt({ what: "a" }))] }),
      b: () => ({
        log: [JSON.stringify(interrupt({ action_request: { action: "mail", args: { to: "bob" } }, config: {} }))],
      }),
      c: () => ({
        log: [JSON.stringify(interrupt({ actionRequests: [{ name: "pay", args: { cents: 1 } }], reviewConfigs: [] }))],
      }),
    };
    const app = sequence(saver, nodes);
    await app.invoke({ log: [] }, at("t"));
    const decide = async (decision: Parameters<typeof saver.answer>[1]) => {
      const [open] = await openWaits(saver);
      await saver.answer(open?.id as string, decision, eve);
      return app.invoke(null, at("t"));
    };
    await decide({ type: "approve" });
    await decide({ type: "edit", value: { to: "eve" } });
    const { log } = await decide({ type: "reject", comment: "no" });
    expect(log.map((line) => JSON.parse(line) as unknown)).toEqual([
      true,
      [{ type: "edit", args: { action: "mail", args: { to: "eve" } } }],
      { decisions: [{ type: "reject", message: "no" }] },
    ]);
  });

  test("effects around questions in a loop run once each, however often the node runs", async () => {
    const saver = await (await newStore(name)).open();
    const seen = { raw: 0, effects: 0 };
    const draft = effect("draft", { input: z.int(), run: (round) => `draft ${round}, ${++seen.effects}` });
    const app = sequence(saver, {
      review: async () => {
        for (let round = 1; ; round += 1) {
          seen.raw += 1;
          const text = await draft(round);
          const { approved } = await ask("Publish?", { details: text });
          if (approved) return { log: [text] };
        }
      },
    });
    await app.invoke({ log: [] }, at("t"));
    for (const type of ["reject", "reject", "approve"] as const) {
      const [open] = await openWaits(saver);
      await saver.answer(open?.id as string, { type }, eve);
      await app.invoke(null, at("t"));
    }
    expect((await app.getState(at("t"))).values).toEqual({ log: ["draft 3, 3"] });
    expect(seen.effects).toBe(3);
    expect(seen.raw).toBeGreaterThan(3);
  });

  test("an answer belongs to what was shown: other content under the same name is refused with both", async () => {
    const saver = await (await newStore(name)).open();
    let cents = 10;
    const app = sequence(saver, {
      pay: async () => ({ log: [String((await ask("Pay?", { details: { cents } })).approved)] }),
    });
    await app.invoke({ log: [] }, at("t"));
    const [open] = await openWaits(saver);
    await saver.answer(open?.id as string, { type: "approve" }, eve);
    cents = 1000;
    expect(await errorOf(app.invoke(null, at("t")))).toMatchObject({
      code: "QUESTION_CHANGED",
      details: { answered: { cents: 10 }, asked: { cents: 1000 } },
    });
    cents = 10;
    expect((await app.invoke(null, at("t"))).log).toEqual(["true"]);
  });

  test("an open question whose content changes is replaced, and an answer to the old one is refused", async () => {
    const saver = await (await newStore(name)).open();
    let cents = 10;
    const app = sequence(saver, {
      pay: async () => ({ log: [JSON.stringify((await ask("Pay?", { details: { cents } })).value)] }),
    });
    await app.invoke({ log: [] }, at("t"));
    const [before] = await openWaits(saver);
    cents = 20;
    await app.invoke(null, at("t"));
    const [after, ...others] = await openWaits(saver);
    expect(others).toEqual([]);
    expect(after?.details).toEqual({ cents: 20 });
    expect(await errorOf(saver.answer(before?.id as string, { type: "approve" }, eve))).toMatchObject({
      code: "ALREADY_ANSWERED",
      details: { status: "superseded" },
    });
    await saver.answer(after?.id as string, { type: "approve" }, eve);
    expect((await app.invoke(null, at("t"))).log).toEqual(['{"cents":20}']);
  });

  test("an answer given for another content than the question's is refused by its digest", async () => {
    const saver = await (await newStore(name)).open();
    const app = sequence(saver, { pay: async () => ({ log: [(await ask("Pay?", { details: 1 })).decision] }) });
    await app.invoke({ log: [] }, at("t"));
    const [open] = await openWaits(saver);
    expect(
      await errorOf(saver.answer(open?.id as string, { type: "approve" }, { by: "eve", digest: "other" })),
    ).toMatchObject({
      code: "WAIT_CHANGED",
    });
    expect(await openWaits(saver)).toHaveLength(1);
    await saver.answer(open?.id as string, { type: "approve" }, { by: "eve", digest: open?.digest as string });
  });

  test("an answer that does not fit the question's schema is refused before anything is recorded", async () => {
    const saver = await (await newStore(name)).open();
    const app = sequence(saver, {
      pay: async () => ({ log: [String((await ask("How much?", { answer: z.int().max(5) })).value)] }),
    });
    await app.invoke({ log: [] }, at("t"));
    const id = (await openWaits(saver))[0]?.id as string;
    for (const decision of [
      { type: "respond", value: "3" },
      { type: "respond", value: 9 },
      { type: "approve" },
      { type: "maybe" },
      null,
    ]) {
      expect(await errorOf(saver.answer(id, decision as never, eve))).toMatchObject({ code: "INVALID_ANSWER" });
    }
    expect(await errorOf(app.invoke(new Command({ resume: { [id]: 9 } }), at("t")))).toMatchObject({
      code: "INVALID_ANSWER",
    });
    expect(await openWaits(saver)).toHaveLength(1);
    expect((await app.invoke(new Command({ resume: { [id]: 4 } }), at("t"))).log).toEqual(["4"]);
  });

  test("an answer that only the code can refuse opens the question again, with the reason", async () => {
    const saver = await (await newStore(name)).open();
    const even = z.int().refine((value) => value % 2 === 0, "must be even");
    const app = sequence(saver, {
      pick: async () => ({ log: [String((await ask("Which?", { answer: even })).value)] }),
    });
    await app.invoke({ log: [] }, at("t"));
    const id = (await openWaits(saver))[0]?.id as string;
    await saver.answer(id, { type: "respond", value: 3 }, eve);
    await app.invoke(null, at("t"));
    const [again] = await openWaits(saver);
    expect(again).toMatchObject({ id, status: "open" });
    expect(again?.problem).toContain("must be even");
    await saver.answer(id, { type: "respond", value: 4 }, eve);
    expect((await app.invoke(null, at("t"))).log).toEqual(["4"]);
    expect((await saver.verifyDecisions({ thread: "t" })).checked).toBe(3);
  });

  test("new input on a paused thread is refused and drops nothing; said to supersede, it closes the question on record", async () => {
    const saver = await (await newStore(name)).open();
    const app = sequence(saver, {
      ask: async ({ log }) => ({ log: [`${log.length} ${(await ask("Ok?")).decision}`] }),
    });
    await app.invoke({ log: ["one"] }, at("t"));
    const [open] = await openWaits(saver);
    for (const durability of ["sync", "async", "exit"] as const) {
      const refused = await errorOf(app.invoke({ log: ["two"] }, at("t", { durability })));
      // Without durability the question itself cannot be kept: it is told so before the input's checkpoint is put.
      expect(refused?.code).toBe(durability === "exit" ? "EFFECT_NOT_DURABLE" : "THREAD_WAITING");
      expect((await openWaits(saver)).map(({ id }) => id)).toEqual([open?.id]);
      expect(await shownIds(app)).toEqual([open?.id]);
    }
    await app.invoke({ log: ["two"] }, { configurable: { thread_id: "t", on_paused: "supersede" } });
    const [closed] = await saver.waits({ id: open?.id as string });
    expect(closed).toMatchObject({ status: "superseded", decision: { type: "supersede", by: "input" } });
    const [next] = await openWaits(saver);
    await saver.answer(next?.id as string, { type: "approve" }, eve);
    expect((await app.invoke(null, at("t"))).log).toEqual(["one", "two", "2 approve"]);
  });

  test("an edit of the state closes the question, runs nothing, and continuing asks anew", async () => {
    const saver = await (await newStore(name)).open();
    let runs = 0;
    const app = sequence(saver, {
      ask: async () => {
        runs += 1;
        return { log: [(await ask("Ok?")).decision] };
      },
    });
    await app.invoke({ log: [] }, at("t"));
    const [open] = await openWaits(saver);
    await app.updateState(at("t"), { log: ["edited"] }, "__start__");
    expect(runs).toBe(1);
    expect((await saver.waits({ id: open?.id as string }))[0]).toMatchObject({
      status: "superseded",
      decision: { by: "update" },
    });
    await app.invoke(null, at("t"));
    const [again, ...others] = await openWaits(saver);
    expect(others).toEqual([]);
    expect(again?.id).not.toBe(open?.id);
  });

  test("a changed decision is found and named", async () => {
    const store = await newStore(name);
    const saver = await store.open();
    const app = sequence(saver, {
      a: async () => ({ log: [(await ask("A?")).decision] }),
      b: async () => ({ log: [(await ask("B?")).decision] }),
    });
    await app.invoke({ log: [] }, at("t"));
    for (let i = 0; i < 2; i += 1) {
      await saver.answer(
        (await openWaits(saver))[0]?.id as string,
        { type: "approve", comment: "x".repeat(2000) },
        eve,
      );
      await app.invoke(null, at("t"));
    }
    expect(await saver.verifyDecisions()).toEqual({ checked: 2, broken: [] });
    const exported: string[] = [];
    for await (const { seq, by, type, hash } of saver.decisions({ thread: "t" }))
      exported.push(`${seq} ${type} by ${by}, ${hash.length}`);
    expect(exported).toEqual(["1 approve by eve, 64", "2 approve by eve, 64"]);
    const { backend } = saver;
    const decisions = backend.decisions.bind(backend);
    // What a hand in the database would do to the first row.
    backend.decisions = async function* (query) {
      for await (const row of decisions(query))
        yield row.seq === 1 ? { ...row, body: row.body.replace("eve", "bob") } : row;
    };
    const { broken } = await saver.verifyDecisions({ thread: "t" });
    expect(broken.map(({ seq, thread }) => [thread, seq])).toEqual([["t", 1]]);
  });
});
