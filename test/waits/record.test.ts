/** The record of decisions against a hand in the database file itself. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { ask, type Checkpointer } from "holdfast";
import { sqlite } from "holdfast/checkpointers/sqlite";
import { expect, onTestFinished, test } from "vitest";
import { at } from "../checkpointer/subject.ts";
import { openWaits, sequence } from "./graphs.ts";

test.each([
  ["edited", "update holdfast_decisions set body = replace(body, 'eve', 'bob') where seq = 2", [2]],
  [
    "moved to another question",
    "update holdfast_decisions set wait = (select wait from holdfast_decisions where seq = 3) where seq = 2",
    [2],
  ],
  ["taken out", "delete from holdfast_decisions where seq = 2", [3]],
])("a row of the decisions that was %s by hand is found and named, and no other", async (_, statement, named) => {
  const directory = await mkdtemp(join(tmpdir(), "holdfast-record-"));
  const file = join(directory, "test.db");
  let saver: Checkpointer = await sqlite(file, { synchronous: "OFF" });
  onTestFinished(async () => {
    await saver.close();
    await rm(directory, { recursive: true });
  });
  const node = async () => ({ log: [(await ask("Ok?")).decision] });
  const app = sequence(saver, { a: node, b: node, c: node });
  await app.invoke({ log: [] }, at("t"));
  for (let i = 0; i < 3; i += 1) {
    await saver.answer((await openWaits(saver))[0]?.id as string, { type: "approve", comment: `${i}` }, { by: "eve" });
    await app.invoke(null, at("t"));
  }
  expect(await saver.verifyDecisions()).toEqual({ checked: 3, broken: [] });
  await saver.close();
  const database = new Database(file);
  expect(database.prepare(statement).run().changes).toBe(1);
  database.close();
  saver = await sqlite(file, { synchronous: "OFF" });
  const { broken } = await saver.verifyDecisions();
  expect(broken.map(({ thread, seq }) => [thread, seq])).toEqual(named.map((seq) => ["t", seq]));
});
