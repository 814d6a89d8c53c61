/** What an adoption refuses, finds and leaves alone. */

import { readFileSync, statSync } from "node:fs";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import type { BaseCheckpointSaver, Checkpoint } from "@langchain/langgraph-checkpoint";
import Database from "better-sqlite3";
import { type AdoptSource, adopt, type SourceCheckpoint } from "holdfast";
import { openSource } from "holdfast/checkpointers";
import { describe, expect, onTestFinished, test } from "vitest";
import { at, plain, talk } from "./graphs.ts";
import { adopted, listed, officialSqlite, target } from "./official.ts";

const Any = Annotation.Root({ value: Annotation<unknown> });

/** A graph whose one node returns that value. */
const valued = (checkpointer: BaseCheckpointSaver, value: unknown) =>
  new StateGraph(Any)
    .addNode("give", () => ({ value }))
    .addEdge(START, "give")
    .compile({ checkpointer });

async function twoThreads() {
  const official = await officialSqlite();
  await plain(official.saver).invoke({ log: ["1"] }, at("one"));
  await plain(official.saver).invoke({ log: ["2"] }, at("two"));
  return { ...official, checkpointer: await target() };
}

describe("a thread of the same id in the target", () => {
  test("that holds something else is refused by name, and nothing is written for it", async () => {
    const { url, checkpointer } = await twoThreads();
    await plain(checkpointer).invoke({ log: ["mine"] }, at("one"));
    const before = await listed(checkpointer, "one");
    const report = await adopted({ url }, checkpointer);
    expect(report.complete).toBe(false);
    expect(report.threads.map(({ thread, status }) => [thread, status])).toEqual([
      ["one", "refused"],
      ["two", "adopted"],
    ]);
    expect(report.threads[0]?.differences[0]).toMatch(/^checkpoint [0-9a-f-]+ is not one of the source$/);
    expect(await listed(checkpointer, "one")).toEqual(before);
  });

  test("that has gone on since it was adopted is refused, and keeps what it has", async () => {
    const { url, checkpointer } = await twoThreads();
    await adopted({ url }, checkpointer);
    await plain(checkpointer).invoke({ log: ["more"] }, at("one"));
    const before = await listed(checkpointer, "one");
    const report = await adopted({ url }, checkpointer);
    expect(report.threads.map(({ status }) => status)).toEqual(["refused", "equal"]);
    expect(await listed(checkpointer, "one")).toEqual(before);
  });

  test("whose source has gone on since gets what is new", async () => {
    const { url, checkpointer, saver } = await twoThreads();
    await adopted({ url }, checkpointer);
    await plain(saver).invoke({ log: ["more"] }, at("one"));
    const report = await adopted({ url }, checkpointer);
    expect(report.threads.map(({ status }) => status)).toEqual(["adopted", "equal"]);
    const { log } = await plain(checkpointer).invoke({ log: ["new"] }, at("one"));
    expect(log).toEqual(["1", "a", "b", "c", "more", "a", "b", "c", "new", "a", "b", "c"]);
  });
});

/** A source that reads a checkpoint otherwise from its second reading on: what the proof must find. */
function unsteady(source: AdoptSource, change: (read: SourceCheckpoint) => void): AdoptSource {
  const seen = new Set<string>();
  return {
    name: source.name,
    saver: source.saver,
    sharesValues: source.sharesValues,
    threads: () => source.threads(),
    places: (thread) => source.places(thread),
    orphanWrites: () => source.orphanWrites(),
    close: () => source.close(),
    read: async (thread, place) => {
      const read = await source.read(thread, place);
      if (seen.has(place.id)) change(read);
      seen.add(place.id);
      return read;
    },
  };
}

describe("the proof after each thread names", () => {
  test.each<readonly [string, (read: SourceCheckpoint) => void, RegExp]>([
    ["a value", ({ tuple }) => (tuple.checkpoint.channel_values["log"] = ["other"]), /the value of channel "log"$/],
    ["a version", ({ tuple }) => (tuple.checkpoint.channel_versions["log"] = 77), /its channel_versions$/],
    ["what nodes have seen", ({ tuple }) => (tuple.checkpoint.versions_seen["a"] = { log: 77 }), /its versions_seen$/],
    ["metadata", ({ tuple }) => Object.assign(tuple.metadata ?? {}, { more: 1 }), /its metadata$/],
    ["a parent", ({ tuple }) => delete tuple.parentConfig, /its parent is [0-9a-f-]+ instead of undefined$/],
    ["a write", ({ tuple }) => tuple.pendingWrites?.splice(0, 1, ["t", "log", ["other"]]), /pending write \d+ \(task/],
    ["a missing write", ({ tuple }) => tuple.pendingWrites?.push(["t", "log", 1]), /is missing$/],
    ["a write too many", ({ tuple }) => tuple.pendingWrites?.pop(), /pending writes instead of/],
  ])("%s that does not read back equal", async (_what, change, expected) => {
    const { url, checkpointer } = await twoThreads();
    const source = await openSource(url);
    onTestFinished(() => source.close());
    const report = await adopt(unsteady(source, change), checkpointer);
    expect(report.complete).toBe(false);
    for (const { status, differences } of report.threads) {
      expect(status).toBe("different");
      expect(differences.some((line) => expected.test(line))).toBe(true);
    }
  });
});

describe("what the official saver has corrupted is named:", () => {
  test("a checkpoint that it cannot read is left out, and the one before becomes the newest", async () => {
    const { saver, url, checkpointer } = await twoThreads();
    await valued(saver, 17n)
      .invoke({ value: "fine" }, at("big"))
      .catch(() => {});
    await expect(valued(saver, 1).getState(at("big"))).rejects.toThrow();
    const report = await adopted({ url }, checkpointer);
    const [big, ...others] = report.threads;
    expect(others.map(({ status }) => status)).toEqual(["adopted", "adopted"]);
    expect(big).toMatchObject({
      thread: "big",
      status: "damaged",
      notes: [expect.stringContaining("unable to serialize")],
    });
    expect(big?.differences).toEqual([
      expect.stringMatching(/^checkpoint [0-9a-f-]+ cannot be read by SqliteSaver 1\.0\.4: /),
    ]);
    const head = await checkpointer.getTuple(at("big"));
    expect(head?.checkpoint.channel_values["value"]).toBe("fine");
  });

  test("bytes that it reads as text are taken over as they were stored", async () => {
    const { saver, url, checkpointer } = await twoThreads();
    const bytes = new Uint8Array([0xff, 0, 0x80, 7]);
    await valued(saver, bytes).invoke({ value: "fine" }, at("bytes"));
    const report = await adopted({ url }, checkpointer);
    const [thread] = report.threads;
    expect(thread).toMatchObject({ thread: "bytes", status: "adopted" });
    expect(thread?.notes).toEqual([expect.stringContaining("as text")]);
    const writes = (await listed(checkpointer, "bytes")).flatMap(({ pendingWrites = [] }) => pendingWrites);
    expect(writes.filter(([, channel]) => channel === "value").map(([, , value]) => value)).toContainEqual(bytes);
  });

  test("writes whose checkpoint was never stored are counted and left out", async () => {
    const { saver, url, checkpointer } = await twoThreads();
    const config = { configurable: { thread_id: "one", checkpoint_ns: "", checkpoint_id: "never" } };
    await saver.putWrites(config, [["log", ["lost"]]], "00000000-0000-4000-8000-000000000000");
    const report = await adopted({ url }, checkpointer);
    expect(report).toMatchObject({
      complete: true,
      notes: ["1 writes of checkpoints that were never stored are left out"],
    });
  });
});

describe("the source", () => {
  test("is not written to, whatever its journal is", async () => {
    const { saver, url, connection, checkpointer } = await twoThreads();
    (saver as unknown as { db: Database.Database }).db.pragma("journal_mode = delete");
    const before = readFileSync(connection);
    expect((await adopted({ url }, checkpointer)).complete).toBe(true);
    expect(readFileSync(connection).equals(before)).toBe(true);
  });

  test("is seen in one state: what is put after its opening comes with the next adoption", async () => {
    const { saver, url, checkpointer } = await twoThreads();
    const source = await openSource(url);
    onTestFinished(() => source.close());
    await plain(saver).invoke({ log: ["3"] }, at("three"));
    await plain(saver).invoke({ log: ["more"] }, at("one"));
    const first = await adopt(source, checkpointer);
    expect(first.threads.map(({ thread, status, checkpoints }) => [thread, status, checkpoints])).toEqual([
      ["one", "adopted", 5],
      ["two", "adopted", 5],
    ]);
    const second = await adopted({ url }, checkpointer);
    expect(second.threads.map(({ status, checkpoints }) => [status, checkpoints])).toEqual([
      ["adopted", 10],
      ["adopted", 5],
      ["equal", 5],
    ]);
  });

  test.each(["langgraph-sqlite:", "langgraph-mysql:x", "official.db", "langgraph-sqlite"])(
    "that is none is refused with what is possible: %s",
    async (url) => {
      await expect(openSource(url)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    },
  );
});

describe("checkpoints as no graph of today makes them:", () => {
  const checkpoint = (id: string, v: number): Checkpoint => ({
    v,
    id,
    ts: "2026-01-01T00:00:00.000Z",
    channel_values: { log: [id] },
    channel_versions: { log: 1 },
    versions_seen: {},
  });
  const metadata = { source: "loop" as const, step: 0, parents: {} };
  const config = (id?: string) => ({
    configurable: { thread_id: "t", checkpoint_ns: "", ...(id === undefined ? {} : { checkpoint_id: id }) },
  });

  test("a child whose clock was behind its parent's does not become the newest", async () => {
    const { saver, url } = await officialSqlite();
    await saver.put(config(), checkpoint("c", 4), metadata, {});
    await saver.put(config("c"), checkpoint("a", 4), metadata, {});
    await saver.put(config("a"), checkpoint("b", 4), metadata, {});
    const checkpointer = await target();
    expect((await adopted({ url }, checkpointer)).threads).toMatchObject([{ status: "adopted", checkpoints: 3 }]);
    expect((await checkpointer.getTuple(config()))?.checkpoint.id).toBe("c");
    expect((await adopted({ url }, checkpointer)).threads).toMatchObject([{ status: "equal" }]);
  });

  test("Sends that an old version kept with the parent are where the official saver shows them", async () => {
    const { saver, url } = await officialSqlite();
    await saver.put(config(), checkpoint("a", 3), metadata, {});
    const send = { node: "work", args: { item: "x" } };
    await saver.putWrites({ ...config("a") }, [["__pregel_tasks", send]], "00000000-0000-4000-8000-000000000001");
    const child = { ...checkpoint("b", 3), pending_sends: [] } as Checkpoint;
    await saver.put(config("a"), child, metadata, {});
    const checkpointer = await target();
    expect((await adopted({ url }, checkpointer)).threads).toMatchObject([{ status: "adopted", differences: [] }]);
    const [official, found] = await Promise.all([saver.getTuple(config()), checkpointer.getTuple(config())]);
    expect(found?.checkpoint.channel_values).toEqual(official?.checkpoint.channel_values);
    expect(found?.checkpoint.channel_values["__pregel_tasks"]).toEqual([send]);
  });

  test("a checkpoint whose parent was deleted keeps its parent's id", async () => {
    const { saver, url } = await officialSqlite();
    await saver.put(config("gone"), checkpoint("z", 4), metadata, {});
    const checkpointer = await target();
    expect((await adopted({ url }, checkpointer)).complete).toBe(true);
    expect((await checkpointer.getTuple(config()))?.parentConfig).toEqual(config("gone"));
  });
});

test("a list of 1000 messages that grew over 40 checkpoints is stored once", async () => {
  const { saver, url, connection } = await officialSqlite();
  await talk(saver).invoke({ pairs: 13, end: 1000 }, { ...at("talk"), recursionLimit: 500 });
  const checkpointer = await target();
  expect((await adopted({ url }, checkpointer)).complete).toBe(true);
  const { messages } = (await talk(checkpointer).getState(at("talk"))).values as { messages: unknown[] };
  expect(messages.length).toBeGreaterThanOrEqual(1000);
  await checkpointer.barrier();
  const text = JSON.stringify(messages).length;
  const file = checkpointer.backend.name.slice("sqlite:".length);
  const db = new Database(file, { readonly: true });
  onTestFinished(() => void db.close());
  const stored =
    (db.pragma("page_count", { simple: true }) as number) * (db.pragma("page_size", { simple: true }) as number);
  // Once as a list, and once as the writes of the turns.
  expect(stored / text).toBeLessThan(3.5);
  expect(statSync(connection).size / stored).toBeGreaterThan(4);
});
