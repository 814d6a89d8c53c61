import { execFile } from "node:child_process";
import { Command } from "@langchain/langgraph";
import type { Checkpointer } from "holdfast";
import { describe, expect, test } from "vitest";
import { compiled } from "../backends/scratch.ts";
import { asking, at, delta, fanOut, fill, nested, plain, talk } from "./graphs.ts";
import { adopted, listed, type Official, officialPostgres, officialSqlite, target } from "./official.ts";

const officials: readonly (readonly [string, () => Promise<Official>])[] = [
  ["SqliteSaver", officialSqlite],
  ["PostgresSaver", officialPostgres],
];

/** An official database with threads of every kind, and a target that has adopted it. */
async function adoptedThreads(open: () => Promise<Official>) {
  const official = await open();
  await fill(official.saver);
  const checkpointer = await target();
  const report = await adopted(official, checkpointer);
  return { ...official, checkpointer, report };
}

const openWaits = async (checkpointer: Checkpointer, thread: string) =>
  (await checkpointer.waits({ thread, status: ["open"] })).map(({ value, ns }) => ({ value, ns: ns.split(":")[0] }));

describe.each(officials)("threads of the official %s", (_name, open) => {
  test("are taken over with every checkpoint, write and parent, in all namespaces", async () => {
    const { saver, checkpointer, report } = await adoptedThreads(open);
    expect(report.threads.filter(({ status }) => status !== "adopted")).toEqual([]);
    expect(report.complete).toBe(true);
    for (const { thread } of report.threads) {
      const config = { configurable: { thread_id: thread } };
      const [expected, found] = [await listed(saver, thread), await listed(checkpointer, thread)];
      expect(found.map(({ checkpoint }) => checkpoint)).toEqual(expected.map(({ checkpoint }) => checkpoint));
      expect(found.map(({ metadata }) => metadata)).toEqual(expected.map(({ metadata }) => metadata));
      expect(found.map(({ parentConfig }) => parentConfig)).toEqual(expected.map(({ parentConfig }) => parentConfig));
      const heads = await Promise.all([saver.getTuple(config), checkpointer.getTuple(config)]);
      expect(heads[1]?.checkpoint.id).toBe(heads[0]?.checkpoint.id);
      if (thread === "second question") continue;
      expect(found.map(({ pendingWrites }) => pendingWrites)).toEqual(
        expected.map(({ pendingWrites }) => pendingWrites),
      );
    }
  });

  test("show the state and history that they had", async () => {
    const { saver, checkpointer } = await adoptedThreads(open);
    const apps = {
      plain,
      branches: plain,
      sends: fanOut,
      failed: fanOut,
      "first question": asking,
      "questions in a subgraph": nested,
      delta,
      talk,
    } as const;
    for (const [thread, app] of Object.entries(apps)) {
      const states = async (over: typeof saver) => {
        const all: unknown[] = [];
        for await (const { values, next, tasks, metadata } of app(over).getStateHistory(at(thread), { limit: 20 }))
          all.push({ values, next, tasks, metadata });
        return all;
      };
      expect({ thread, states: await states(checkpointer) }).toEqual({ thread, states: await states(saver) });
    }
  });

  test("go on: new input, a node that failed, Sends that had finished are not run again", async () => {
    const { checkpointer } = await adoptedThreads(open);
    const again = await plain(checkpointer).invoke({ log: ["third"] }, at("plain"));
    expect(again.log).toEqual(["begun", "a", "b", "c", "again", "a", "b", "c", "third", "a", "b", "c"]);
    const mended = await fanOut(checkpointer).invoke(null, at("failed"));
    expect([...mended.log].sort()).toEqual(["begun", "did x", "did y", "did z"]);
    const more = await delta(checkpointer).invoke({ items: ["new"] }, at("delta"));
    expect(more.items).toHaveLength(10);
  });

  test("that were killed in the middle of a superstep go on with what was stored of it", async () => {
    const official = await open();
    const { kind, connection, schema = "" } = official;
    const program = compiled("bundled/test/adopt/programs/die-in-superstep.ts");
    const signal = await new Promise((resolve) => {
      execFile(process.execPath, [program, kind, connection, schema], (error) => resolve(error?.signal));
    });
    expect(signal).toBe("SIGKILL");
    const checkpointer = await target();
    const report = await adopted(official, checkpointer);
    expect(report.threads).toMatchObject([{ thread: "killed", status: "adopted", differences: [] }]);
    const ran: string[] = [];
    const note = (item: string) => () => ran.push(item);
    const app = fanOut(checkpointer, { x: note("x"), y: note("y"), z: note("z") });
    const done = await app.invoke(null, at("killed"));
    expect(ran).toEqual(["y"]);
    expect([...done.log].sort()).toEqual(["begun", "did x", "did y", "did z"]);
  });

  test("are waits where they were paused, and take their answers from a resume or from a person", async () => {
    const { checkpointer, report } = await adoptedThreads(open);
    expect(report.totals.waits).toBe(4);
    expect(await openWaits(checkpointer, "first question")).toEqual([{ value: { question: "how many?" }, ns: "" }]);
    await asking(checkpointer).invoke(new Command({ resume: "two" }), at("first question"));
    expect(await openWaits(checkpointer, "first question")).toEqual([{ value: { question: "which colour?" }, ns: "" }]);
    const [wait] = await checkpointer.waits({ thread: "second question", status: ["open"] });
    expect(wait?.value).toEqual({ question: "which colour?" });
    await checkpointer.answer(String(wait?.id), { type: "respond", value: "blue" }, { by: "ann" });
    const done = await asking(checkpointer).invoke(null, at("second question"));
    expect(done.answer).toBe("three blue");
    expect(await checkpointer.waits({ thread: "answered" })).toEqual([]);
  });

  test("keep an open question open when they go on without an answer", async () => {
    const { checkpointer } = await adoptedThreads(open);
    const still = await asking(checkpointer).invoke(null, at("second question"));
    expect(still).toHaveProperty("__interrupt__");
    expect(await openWaits(checkpointer, "second question")).toEqual([
      { value: { question: "which colour?" }, ns: "" },
    ]);
  });

  test("take an answer inside a subgraph, each question by its id", async () => {
    const { checkpointer } = await adoptedThreads(open);
    const thread = "questions in a subgraph";
    expect(await openWaits(checkpointer, thread)).toEqual(
      expect.arrayContaining([
        { value: "ship it?", ns: "inner" },
        { value: "pay it?", ns: "" },
      ]),
    );
    const waits = await checkpointer.waits({ thread, status: ["open"] });
    const resume = Object.fromEntries(waits.map(({ id, value }) => [id, `${String(value)} yes`]));
    const done = await nested(checkpointer).invoke(new Command({ resume }), at(thread));
    expect(done.answer).toBe("pay it? yes");
    expect(done.log).toEqual(expect.arrayContaining(["inner ship it? yes", "end"]));
    expect((await checkpointer.waits({ thread })).map(({ status }) => status)).toEqual(["consumed", "consumed"]);
  });

  test("can be travelled in: a fork of an old checkpoint leaves the branches as they were", async () => {
    const { checkpointer } = await adoptedThreads(open);
    const app = plain(checkpointer);
    const before = await listed(checkpointer, "branches");
    const old = before.find(({ metadata }) => metadata?.step === 1);
    const forked = await app.invoke(null, at("branches", old?.checkpoint.id));
    expect(forked.log).toEqual(["begun", "a", "b", "c"]);
    const after = await listed(checkpointer, "branches");
    const ids = new Set(before.map(({ checkpoint }) => checkpoint.id));
    expect(after.filter(({ checkpoint }) => ids.has(checkpoint.id))).toEqual(before);
  });
});
