/** A torn last line is dropped whole and nothing is glued to it; a mutant that leaves its rest in place is caught. */

import { mkdtemp, rm, stat, truncate } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { chain } from "../checkpointer/guarantees.ts";
import { at } from "../checkpointer/subject.ts";
import { type Library, mutate } from "./mutate.ts";

/** Cuts the last record, a long one, then appends shorter ones, and reads everything again. */
async function tornLineIsDropped(library: Library): Promise<void> {
  const parent = await mkdtemp(join(tmpdir(), "holdfast-torn-"));
  onTestFinished(() => rm(parent, { recursive: true }));
  const directory = join(parent, "log");
  const open = () => library.jsonl.jsonl(directory, { fsync: false });
  const build = (saver: Awaited<ReturnType<typeof open>>) => chain(saver, { a: ({ n }) => ({ log: [`a${n}`] }) });

  const first = await open();
  await build(first).invoke({ n: 1 }, at("kept"));
  const before = (await stat(join(directory, "log.jsonl"))).size;
  await build(first).updateState(at("torn"), { log: ["long ".repeat(4000)] }, "a");
  await first.close();
  const after = (await stat(join(directory, "log.jsonl"))).size;
  expect(after - before).toBeGreaterThan(15_000);
  await truncate(join(directory, "log.jsonl"), after - 10);

  const second = await open();
  expect((await build(second).getState(at("torn"))).metadata).toBeUndefined();
  await build(second).invoke({ n: 2 }, at("next"));
  await second.close();

  const third = await open();
  const log = async (thread: string) => (await build(third).getState(at(thread))).values.log;
  const found = [await log("kept"), await log("next")];
  await third.close();
  expect(found).toEqual([["a1"], ["a2"]]);
}

test("a torn last line is dropped whole, and what is appended then is read back", async () => {
  await tornLineIsDropped(await mutate());
});

test("caught: the rest of a torn line is left in place and glued to what is appended", async () => {
  const broken = await mutate(
    {
      file: "checkpointers/jsonl/log.ts",
      from: 'this.#repair = read.torn === undefined ? "none" : "truncate";',
      to: 'this.#repair = "none";',
    },
    {
      file: "checkpointers/jsonl/read-log.ts",
      from: "return { version, end, lines, torn };",
      to: "return { version, end: end + (torn?.bytes ?? 0), lines, torn };",
    },
  );
  const failure = await tornLineIsDropped(broken).then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(failure).toBeDefined();
});
