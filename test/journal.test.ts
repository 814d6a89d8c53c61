/** The audit journal (S0.5): appended, sealed, reconciled, and never read for control. */

import { appendFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { interrupt } from "@langchain/langgraph";
import { type Checkpointer, effect, readJournal, run } from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { newStore } from "./backends-table.ts";
import { chain } from "./checkpointer/guarantees.ts";
import { at, errorOf } from "./checkpointer/subject.ts";

async function place() {
  const directory = await mkdtemp(join(tmpdir(), "holdfast-journal-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  const store = await newStore("sqlite");
  const path = join(directory, "actions.jsonl");
  return { path, open: () => store.open({ journal: path }) };
}

function job(saver: Checkpointer, seen: { bodies: number; fail: boolean }) {
  const pay = effect("pay", { input: z.string(), run: (to) => `receipt ${++seen.bodies} for ${to}` });
  return chain(saver, {
    a: async () => {
      const receipt = await pay("eve");
      if (seen.fail) throw new Error("crash");
      return { log: [receipt] };
    },
  });
}

const names = async (path: string) =>
  (await readJournal(path)).events.map(({ event, reconciled, status }) =>
    [event, status, reconciled ? "reconciled" : undefined].filter((part) => part !== undefined).join(" "),
  );

test("created, intent, outcome, resumed, finished stand in the journal in the order in which they happened", async () => {
  const { path, open } = await place();
  const seen = { bodies: 0, fail: true };
  const app = job(await open(), seen);
  await errorOf(run(app, { n: 1 }, at("t")));
  seen.fail = false;
  await run(app, null, at("t"));
  expect(await names(path)).toEqual(["created", "effect_intent", "effect_outcome done", "resumed", "finished"]);
  const { events, broken } = await readJournal(path);
  expect(broken).toBe(0);
  for (const event of events) expect(event).toMatchObject({ thread: "t", at: expect.stringMatching(/^\d{4}-/) });
});

test("a question is journalled, once for each of its ids", async () => {
  const { path, open } = await place();
  const app = chain(await open(), { ask: () => ({ log: [String(interrupt("ok?"))] }) });
  expect(await run(app, { n: 1 }, at("t"))).toMatchObject({
    status: "waiting",
    waits: [{ kind: "interrupt", value: "ok?" }],
  });
  expect((await names(path)).filter((name) => name === "question")).toHaveLength(1);
});

test("a torn last line is sealed, so only that record is lost, and broken lines are skipped and counted", async () => {
  const { path, open } = await place();
  const saver = await open();
  await run(job(saver, { bodies: 0, fail: false }), { n: 1 }, at("t"));
  await saver.close();
  const whole = await readFile(path, "utf8");
  await appendFile(path, '{"id":"torn","event":"fin');
  const again = await open();
  await run(job(again, { bodies: 0, fail: false }), { n: 1 }, at("u"));
  const { events, broken } = await readJournal(path);
  expect(broken).toBe(1);
  expect(events.filter(({ thread }) => thread === "t")).toHaveLength(whole.trim().split("\n").length);
  expect(events.filter(({ thread }) => thread === "u").map(({ event }) => event)).toContain("created");
  await appendFile(path, 'not json\n[1,2]\n{"no":"id"}\n');
  expect((await readJournal(path)).broken).toBe(4);
});

test("a journal that lost its end, was deleted, or is garbage is completed from the store, each event marked as reconciled and none twice", async () => {
  const { path, open } = await place();
  const saver = await open();
  const app = job(saver, { bodies: 0, fail: false });
  await run(app, { n: 1 }, at("t"));
  await saver.close();
  const lines = (await readFile(path, "utf8")).split("\n");
  const cases: readonly [string, string][] = [
    ["its last two events", `${lines.slice(0, -3).join("\n")}\n`],
    ["everything", ""],
    ["garbage", "\u0000\u0001 garbage \n{\n"],
  ];
  for (const [, content] of cases) {
    await writeFile(path, content);
    const seen = { bodies: 0, fail: false };
    const again = await open();
    expect((await run(job(again, seen), { n: 1 }, at("t"))).status).toBe("already_done");
    expect((await run(job(again, seen), null, at("t"))).status).toBe("already_done");
    await again.close();
    expect(seen.bodies).toBe(0);
    const { events } = await readJournal(path);
    const kinds = events.map(({ event }) => event).filter((event) => event !== "resumed");
    expect(kinds.toSorted()).toEqual(["created", "effect_intent", "effect_outcome", "finished"]);
    expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
    expect(events.some(({ reconciled }) => reconciled === true)).toBe(true);
  }
});

test("the journal is never read for control: one that claims more than the store knows changes nothing", async () => {
  const { path, open } = await place();
  const seen = { bodies: 0, fail: true };
  const saver = await open();
  await errorOf(run(job(saver, seen), { n: 1 }, at("t")));
  const key = (await saver.effects({ thread: "t" }))[0]?.key ?? "";
  await appendFile(path, `${JSON.stringify({ id: "finished:t:x", event: "finished", thread: "t", at: "now" })}\n`);
  await appendFile(
    path,
    `${JSON.stringify({ id: `effect_outcome:${key}:2:given-up`, event: "effect_outcome", thread: "t", key, status: "given-up" })}\n`,
  );
  seen.fail = false;
  expect(await run(job(saver, seen), null, at("t"))).toMatchObject({
    status: "finished",
    values: { log: ["receipt 1 for eve"] },
  });
  expect(seen.bodies).toBe(1);
});

test("a journal that cannot be written is a typed error that names the file, and what the store has stays", async () => {
  const store = await newStore("memory");
  const saver = await store.open({ journal: "/nonexistent/directory/actions.jsonl" });
  const seen = { bodies: 0, fail: false };
  const error = await errorOf(run(job(saver, seen), { n: 1 }, at("t")));
  // In async durability the node that runs meanwhile may be the first to be told.
  expect(error?.code).toMatch(/^(JOURNAL_FAILED|RUN_REFUSED)$/);
  expect(error?.message).toContain("/nonexistent/directory/actions.jsonl");
});
