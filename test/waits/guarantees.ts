/** Guarantees of waits that both the real library and the mutants are checked against. */

import { Command, interrupt } from "@langchain/langgraph";
import type { Backend, Checkpointer } from "holdfast";
import { expect } from "vitest";
import { at, errorOf, type Guarantee } from "../checkpointer/subject.ts";
import { openWaits, sequence } from "./graphs.ts";

const eve = { by: "eve" };

async function onlyOpen(saver: Checkpointer): Promise<string> {
  const [open, ...others] = await openWaits(saver);
  expect(others).toEqual([]);
  return open?.id as string;
}

export const firstDecisionStands: Guarantee = {
  name: "of two opposite answers at once from two openers one is recorded, and the other is told it",
  needs: "shared",
  check: async ({ open, library }) => {
    const [one, two] = [await open(), await open()];
    const app = sequence(one, { a: async () => ({ log: [(await library.ask("Ok?")).decision] }) });
    for (let round = 0; round < 10; round += 1) {
      const thread = `t${round}`;
      await app.invoke({ log: [] }, at(thread));
      const [wait] = await openWaits(one, thread);
      const id = wait?.id as string;
      const errors = await Promise.all([
        errorOf(one.answer(id, { type: "approve" }, eve)),
        errorOf(two.answer(id, { type: "reject" }, { by: "bob" })),
      ]);
      expect(errors.filter((error) => error === undefined)).toHaveLength(1);
      expect(errors.find((error) => error !== undefined)).toMatchObject({ code: "ALREADY_ANSWERED" });
    }
    expect((await one.verifyDecisions()).checked).toBe(10);
  },
};

export const answerBelongsToContent: Guarantee = {
  name: "an answer is not taken for another content under the same name",
  check: async ({ open, library }) => {
    const saver = await open();
    let cents = 10;
    const app = sequence(saver, {
      a: async () => ({ log: [JSON.stringify((await library.ask("Pay?", { details: { cents } })).value)] }),
    });
    await app.invoke({ log: [] }, at("t"));
    await saver.answer(await onlyOpen(saver), { type: "approve" }, eve);
    cents = 1000;
    expect(await errorOf(app.invoke(null, at("t")))).toMatchObject({ code: "QUESTION_CHANGED" });
    expect((await app.getState(at("t"))).values).toEqual({ log: [] });
  },
};

export const resumeIsNotKept: Guarantee = {
  name: "an answer without a name is recorded for the one open question, and is never there for a later one",
  check: async ({ open }) => {
    const saver = await open();
    const app = sequence(saver, {
      a: () => ({ log: [interrupt("first?") as string, interrupt("second?") as string] }),
    });
    await app.invoke({ log: [] }, at("t"));
    const first = await onlyOpen(saver);
    await app.invoke(new Command({ resume: "one" }), at("t"));
    await app.invoke(null, at("t"));
    expect(await onlyOpen(saver)).not.toBe(first);
    expect((await saver.waits({ id: first }))[0]).toMatchObject({ decision: { type: "respond", value: "one" } });
  },
};

export const usedDecisionIsConsumed: Guarantee = {
  name: "a decision that a run went on with is consumed: nobody takes the thread on for it again",
  check: async ({ open, library }) => {
    const saver = await open();
    const app = sequence(saver, {
      a: async () => ({ log: [(await library.ask("A?")).decision, String(interrupt("B?"))] }),
    });
    await app.invoke({ log: [] }, at("t"));
    for (let i = 0; i < 2; i += 1) {
      await saver.answer(await onlyOpen(saver), { type: "approve" }, eve);
      await app.invoke(null, at("t"));
      expect(await saver.waits({ status: ["answered"] })).toEqual([]);
    }
    expect((await app.getState(at("t"))).values).toEqual({ log: ["approve", "true"] });
  },
};

export const newInputIsRefused: Guarantee = {
  name: "new input on a paused thread drops nothing",
  check: async ({ open, library }) => {
    const saver = await open();
    const app = sequence(saver, { a: async () => ({ log: [(await library.ask("Ok?")).decision] }) });
    await app.invoke({ log: [] }, at("t"));
    const question = await onlyOpen(saver);
    expect(await errorOf(app.invoke({ log: ["new"] }, at("t")))).toMatchObject({ code: "THREAD_WAITING" });
    expect(await onlyOpen(saver)).toBe(question);
    await saver.answer(question, { type: "approve" }, eve);
    expect((await app.invoke(null, at("t"))).log).toEqual(["approve"]);
  },
};

export const lateAnswerLoses: Guarantee = {
  name: "an answer after the deadline is refused, also where nobody had recorded the deadline",
  check: async ({ open, library }) => {
    let now = 1_000_000;
    const saver = await open({ now: () => now });
    const app = sequence(saver, { a: async () => ({ log: [(await library.ask("Ok?", { deadline: 1000 })).by] }) });
    await app.invoke({ log: [] }, at("t"));
    const question = await onlyOpen(saver);
    now += 1000;
    expect(await errorOf(saver.answer(question, { type: "approve" }, eve))).toMatchObject({ code: "ALREADY_ANSWERED" });
    expect((await app.invoke(null, at("t"))).log).toEqual(["deadline"]);
  },
};

export const changedDecisionIsFound: Guarantee = {
  name: "a decision that was changed in the store is found and named",
  check: async ({ open, library }) => {
    const saver = await open();
    const app = sequence(saver, {
      a: async () => ({ log: [(await library.ask("A?")).decision, (await library.ask("B?")).decision] }),
    });
    await app.invoke({ log: [] }, at("t"));
    for (let i = 0; i < 2; i += 1) {
      await saver.answer(await onlyOpen(saver), { type: "reject" }, eve);
      await app.invoke(null, at("t"));
    }
    const { backend } = saver;
    const decisions = backend.decisions.bind(backend);
    backend.decisions = async function* (query) {
      for await (const row of decisions(query))
        yield row.seq === 1 ? { ...row, body: row.body.replace("eve", "bob") } : row;
    };
    expect((await saver.verifyDecisions()).broken.map(({ seq }) => seq)).toEqual([1]);
  },
};

export const waitStoredBeforePause: Guarantee = {
  name: "a question is acknowledged as stored before anybody is shown it",
  check: async ({ open, library }) => {
    let acknowledged = false;
    const slow = (backend: Backend): Backend =>
      new Proxy(backend, {
        get(target, property) {
          const value: unknown = Reflect.get(target, property);
          if (property !== "commit")
            return typeof value === "function" ? (value as (...args: unknown[]) => unknown).bind(target) : value;
          return async (group: Parameters<Backend["commit"]>[0]) => {
            const verdicts = await target.commit(group);
            for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
            if (group.some((commit) => commit.some((op) => op.kind === "wait"))) acknowledged = true;
            return verdicts;
          };
        },
      });
    const saver = await open({}, slow);
    const app = sequence(saver, { a: async () => ({ log: [(await library.ask("Ok?")).decision] }) });
    const shown: boolean[] = [];
    for await (const chunk of await app.stream({ log: [] }, at("t", { streamMode: "updates" }))) {
      if ("__interrupt__" in (chunk as object)) shown.push(acknowledged);
    }
    expect(shown).toEqual([true]);
  },
};

export const waitGuarantees: readonly Guarantee[] = [
  firstDecisionStands,
  answerBelongsToContent,
  resumeIsNotKept,
  usedDecisionIsConsumed,
  newInputIsRefused,
  lateAnswerLoses,
  changedDecisionIsFound,
  waitStoredBeforePause,
];
