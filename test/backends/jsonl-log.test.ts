/** What is in the files: torn tails, damage, other people's files, deletion, compaction. */

import { appendFileSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Backend, EffectRow, Op } from "holdfast";
import { expect, onTestFinished, test, vi } from "vitest";
import { type JsonlBackendOptions, jsonlBackend } from "../../checkpointers/jsonl/index.ts";
import {
  decision,
  decisionRow,
  endWait,
  move,
  moved,
  run,
  runRow,
  wait,
  waitRow,
} from "../../src/testing/backend-rows.ts";
import { shortFiles } from "./faulty-files.ts";
import { scratchDirectory } from "./scratch.ts";

async function open(directory: string, options?: JsonlBackendOptions): Promise<Backend> {
  const backend = await jsonlBackend(directory, options);
  onTestFinished(() => backend.close());
  return backend;
}

const checkpoint = (id: string, body = "json/1 {}", thread = "t"): Op => ({
  ...{ kind: "checkpoint", thread, era: 0, ns: "", id, parent: undefined, source: "loop", body, heads: undefined },
});

async function ids(backend: Backend): Promise<string[]> {
  const found: string[] = [];
  for await (const row of backend.checkpoints({})) found.push(row.id);
  return found.reverse();
}

/** A closed directory with a commit per id. */
async function directoryWith(...given: string[]): Promise<string> {
  const directory = await scratchDirectory();
  const backend = await jsonlBackend(directory);
  for (const id of given) await backend.commit([[checkpoint(id)]]);
  await backend.close();
  return directory;
}

const logOf = (directory: string) => join(directory, "log.jsonl");
const readLog = (directory: string) => readFileSync(logOf(directory));
/** The lines with their ends. */
const linesOf = (directory: string) =>
  readLog(directory)
    .toString("utf8")
    .split(/(?<=\n)/);

/** Warnings of this process from here to the end of the test. */
function warnings(): string[] {
  const seen: string[] = [];
  const spy = vi.spyOn(process, "emitWarning").mockImplementation((warning) => void seen.push(String(warning)));
  onTestFinished(() => spy.mockRestore());
  return seen;
}

test("a log can be read with the eyes and with any JSON tool", async () => {
  const directory = await directoryWith("1", "2");
  const [header, first, second, ...more] = linesOf(directory).map((line) => JSON.parse(line) as object);
  expect(header).toEqual({ format: "holdfast-jsonl", version: 3 });
  const row = { thread: "t", ns: "", id: "1", source: "loop", body: "json/1 {}" };
  expect(first).toMatchObject({
    line: 2,
    crc32: expect.stringMatching(/^[0-9a-f]{8}$/),
    changes: [{ kind: "checkpoint", row }],
  });
  expect(second).toMatchObject({ line: 3, changes: [{ kind: "checkpoint", row: { ...row, id: "2" } }] });
  expect(more).toEqual([]);
});

test("a log holds only what was stored: refused commits and blobs that are there already take no place", async () => {
  const directory = await scratchDirectory();
  const backend = await open(directory);
  const blob = { kind: "blob", thread: "t", era: 0, hash: "h", data: "large" } as const;
  await backend.commit([[blob]]);
  const before = readLog(directory);
  await backend.commit([[blob], [{ ...checkpoint("1"), heads: ["0"] } as Op]]);
  expect(readLog(directory)).toEqual(before);
});

test("a log cut at any byte of its last record loses that record and nothing else, before and after the next append", async () => {
  const whole = await directoryWith("1", "2", "3 😀é");
  const bytes = readLog(whole);
  const start = bytes.length - Buffer.byteLength(linesOf(whole).at(-1) ?? "");
  expect(start).toBeGreaterThan(100);
  for (let length = start + 1; length < bytes.length; length++) {
    const directory = await scratchDirectory();
    writeFileSync(logOf(directory), bytes.subarray(0, length));
    const seen = warnings();
    const backend = await jsonlBackend(directory, { fsync: false });
    expect(await ids(backend)).toEqual(["1", "2"]);
    expect(seen.filter((warning) => warning.includes(logOf(directory)))).toEqual([
      expect.stringContaining(`line 4, ${length - start} bytes`),
    ]);
    expect(readLog(directory), "nothing is changed before the first append").toEqual(bytes.subarray(0, length));
    await backend.commit([[checkpoint("4")]]);
    expect(await ids(backend)).toEqual(["1", "2", "4"]);
    await backend.close();
    const again = await jsonlBackend(directory, { fsync: false });
    expect(await ids(again)).toEqual(["1", "2", "4"]);
    await again.close();
    expect(seen).toHaveLength(1);
  }
});

test("a log cut at a record's border is whole", async () => {
  const directory = await directoryWith("1", "2");
  const seen = warnings();
  writeFileSync(logOf(directory), linesOf(directory).slice(0, 2).join(""));
  expect(await ids(await open(directory))).toEqual(["1"]);
  expect(seen).toEqual([]);
});

test("a last record that has its end but not its bytes is dropped whole", async () => {
  const whole = await directoryWith("1", "2");
  const lines = linesOf(whole);
  const start = Buffer.byteLength(lines.slice(0, 2).join(""));
  const bytes = readLog(whole);
  for (let at = start; at < bytes.length - 1; at++) {
    const directory = await scratchDirectory();
    const damaged = Buffer.from(bytes);
    damaged[at] = (damaged[at] ?? 0) === 0x30 ? 0x31 : 0x30;
    writeFileSync(logOf(directory), damaged);
    warnings();
    const backend = await jsonlBackend(directory, { fsync: false });
    expect(await ids(backend), `byte ${at}`).toEqual(["1"]);
    await backend.close();
  }
});

test("zeros after the last record, as a power cut may leave them, are dropped", async () => {
  const directory = await directoryWith("1", "2");
  appendFileSync(logOf(directory), Buffer.alloc(5000));
  const seen = warnings();
  const backend = await open(directory);
  expect(await ids(backend)).toEqual(["1", "2"]);
  await backend.commit([[checkpoint("3")]]);
  await backend.close();
  expect(await ids(await open(directory))).toEqual(["1", "2", "3"]);
  expect(seen).toHaveLength(1);
});

test("damage at any byte before the last record is refused with the file and the line, and nothing is changed", async () => {
  const whole = await directoryWith("1", "2", "3");
  const bytes = readLog(whole);
  const lines = linesOf(whole);
  const headerLength = lines[0]?.length ?? 0;
  const last = bytes.length - (lines.at(-1)?.length ?? 0);
  const directory = await scratchDirectory();
  for (let at = headerLength; at < last; at++) {
    const damaged = Buffer.from(bytes);
    damaged[at] = (damaged[at] ?? 0) ^ 1;
    writeFileSync(logOf(directory), damaged);
    const line = at < headerLength + (lines[1]?.length ?? 0) ? 2 : 3;
    await expect(jsonlBackend(directory), `byte ${at}`).rejects.toMatchObject({
      code: "CORRUPT_DATA",
      message: expect.stringContaining(`${logOf(directory)} is damaged at line ${line}`),
      details: { path: logOf(directory), line },
    });
    expect(readLog(directory)).toEqual(damaged);
  }
});

test.each([
  ["is missing", (lines: string[]) => [lines[0], lines[2], lines[3]], 2],
  ["is there twice", (lines: string[]) => [lines[0], lines[1], lines[1], lines[2], lines[3]], 3],
  ["stands in another place", (lines: string[]) => [lines[0], lines[2], lines[1], lines[3]], 2],
  ["is empty", (lines: string[]) => [lines[0], lines[1], "\n", lines[2], lines[3]], 3],
  ["is cut off and another follows", (lines: string[]) => [lines[0], lines[1]?.slice(0, 50), lines[2], lines[3]], 2],
])("a log in which a record %s is refused", async (_, change, line) => {
  const directory = await directoryWith("1", "2", "3");
  writeFileSync(logOf(directory), change(linesOf(directory)).join(""));
  await expect(jsonlBackend(directory)).rejects.toMatchObject({ code: "CORRUPT_DATA", details: { line } });
});

test("a line end that was overwritten is damage, also before the last record", async () => {
  const directory = await directoryWith("1", "2", "3");
  const bytes = readLog(directory);
  const end = Buffer.byteLength(linesOf(directory).slice(0, 3).join("")) - 1;
  for (const replaced of [0x0b, 0x20, 0x7d]) {
    bytes[end] = replaced;
    writeFileSync(logOf(directory), bytes);
    await expect(jsonlBackend(directory)).rejects.toMatchObject({ code: "CORRUPT_DATA", details: { line: 3 } });
  }
});

test("after a refusal the directory is not locked", async () => {
  const directory = await directoryWith("1", "2", "3");
  const lines = linesOf(directory);
  writeFileSync(logOf(directory), [lines[0], lines[2], lines[3]].join(""));
  await expect(jsonlBackend(directory)).rejects.toMatchObject({ code: "CORRUPT_DATA" });
  writeFileSync(logOf(directory), lines.join(""));
  expect(await ids(await open(directory))).toEqual(["1", "2", "3"]);
});

test("a log in a newer format is refused by its version and left alone", async () => {
  const directory = await scratchDirectory();
  const text = '{"format":"holdfast-jsonl","version":4,"new":true}\nwhatever follows\n';
  writeFileSync(logOf(directory), text);
  await expect(jsonlBackend(directory)).rejects.toMatchObject({ code: "UNSUPPORTED_FORMAT", details: { version: 4 } });
  expect(readLog(directory).toString()).toBe(text);
  expect(readdirSync(directory)).toEqual(["log.jsonl"]);
});

test.each([1, 2])(
  "a log of version %s is read as it is, and is of the present version as soon as something is stored",
  async (version) => {
    const directory = await directoryWith("1", "2");
    const before = readLog(directory).toString().replace('"version":3', `"version":${version}`);
    writeFileSync(logOf(directory), `${before}{"line":4,"by`);
    const seen = warnings();
    const backend = await open(directory);
    expect([await ids(backend), seen.length]).toEqual([["1", "2"], 1]);
    expect(readLog(directory).toString().startsWith(before), "only read: code that knows that version still can").toBe(
      true,
    );
    await backend.commit([[checkpoint("3")]]);
    await backend.close();
    expect(linesOf(directory)[0]).toBe('{"format":"holdfast-jsonl","version":3}\n');
    expect(await ids(await open(directory))).toEqual(["1", "2", "3"]);
  },
);

test.each([
  ["lines of another program", '{"event":"started"}\n{"event":"ended"}\n'],
  ["text", "hello\n"],
  ["text without a line end", "hello"],
  ["part of our header", '{"format":"holdfast-json'],
  ["null", "null\n"],
  ["bytes", Buffer.from(Array.from({ length: 5000 }, (_, at) => (at * 7) & 255))],
  ["one endless line", "x".repeat(3_000_000)],
])("a file with %s is refused as foreign, and nothing is put beside it", async (_, content) => {
  const directory = await scratchDirectory();
  writeFileSync(logOf(directory), content);
  await expect(jsonlBackend(directory)).rejects.toMatchObject({
    code: "FOREIGN_DATABASE",
    details: { path: logOf(directory) },
  });
  expect(readLog(directory).equals(Buffer.from(content))).toBe(true);
  expect(readdirSync(directory)).toEqual(["log.jsonl"]);
});

test("an empty file is as good as none", async () => {
  const directory = await scratchDirectory();
  writeFileSync(logOf(directory), "");
  const backend = await open(directory);
  await backend.commit([[checkpoint("1")]]);
  await backend.close();
  expect(await ids(await open(directory))).toEqual(["1"]);
});

test("a file where the directory should be, a directory where the log should be, and a place that cannot be written are CANNOT_OPEN", async () => {
  const directory = await scratchDirectory();
  const file = join(directory, "file");
  writeFileSync(file, "kept");
  await expect(jsonlBackend(file)).rejects.toMatchObject({ code: "CANNOT_OPEN", details: { directory: file } });
  await expect(jsonlBackend(join(file, "below"))).rejects.toMatchObject({ code: "CANNOT_OPEN" });
  expect(readFileSync(file, "utf8")).toBe("kept");
  mkdirSync(logOf(directory));
  await expect(jsonlBackend(directory)).rejects.toMatchObject({ code: "CANNOT_OPEN" });
  if (existsSync("/proc")) await expect(jsonlBackend("/proc/holdfast")).rejects.toMatchObject({ code: "CANNOT_OPEN" });
});

test("a second opener in the same process is refused with LOCKED, and gets the directory after the first has closed", async () => {
  const directory = await scratchDirectory();
  const first = await open(directory);
  await expect(jsonlBackend(directory)).rejects.toMatchObject({
    code: "LOCKED",
    retryable: true,
    message: expect.stringMatching(new RegExp(`${directory}.*SQLite`)),
  });
  await first.commit([[checkpoint("1")]]);
  await first.close();
  expect(await ids(await open(directory))).toEqual(["1"]);
});

test("one byte at a time is enough for writing and for reading", async () => {
  const directory = await scratchDirectory();
  const backend = await open(directory, { files: shortFiles(1), compactBytesMin: 0 });
  for (let at = 0; at < 5; at++) await backend.commit([[checkpoint("1", `json/1 "é😀 ${at}"`)]]);
  await backend.commit([[checkpoint("2", "json/1 2", "u")], [{ kind: "deleteThread", thread: "u" }]]);
  await backend.close();
  const again = await open(directory, { files: shortFiles(1) });
  expect((await again.load("t", "", "1")).checkpoint?.body).toBe('json/1 "é😀 4"');
  expect((await again.load("u", "", undefined)).era).toBe(1);
});

test("a deleted thread leaves its id in no file, as soon as the deletion is acknowledged", async () => {
  const directory = await scratchDirectory();
  const id = "thread-of-a-person";
  const effect = (rev: number, thread: string): Op => {
    const place = { ns: "", checkpoint: "1", task: "a", name: "charge", digest: "d", ordinal: -1 } as const;
    const row = { key: "k", thread, ...place, status: "done", rev, attempt: 1, owner: "o", body: "json/1 {}" } as const;
    return { kind: "effect", thread, era: 0, row, expect: rev === 0 ? null : rev - 1 };
  };
  const backend = await open(directory);
  await backend.commit([
    [checkpoint("1", "json/1 {}", id), checkpoint("1", "json/1 {}", "other")],
    [{ kind: "blob", thread: id, era: 0, hash: "h", data: "text" }, effect(0, id)],
    [{ kind: "items", thread: id, era: 0, list: "l", start: 0, count: 1, body: "json/1 [1]", base: undefined }],
    [wait(waitRow("w", { thread: id }), null), decision(decisionRow(1, { thread: id }))],
    [endWait("w", { thread: id }), effect(1, "other")],
    [run(runRow("r", { thread: id }), null)],
  ]);
  const places = () =>
    readdirSync(directory).filter((name) => name !== "lock" && readFileSync(join(directory, name)).includes(id));
  expect(places()).toEqual(["log.jsonl"]);
  // In one group with rows that are stored and deleted at once.
  const late = [checkpoint("2", "json/1 {}", id), wait(waitRow("late", { thread: id }), null)];
  late.push(run(runRow("late", { thread: id }), null), move(runRow("r", { thread: id }), "running"));
  await backend.commit([[...late, decision(decisionRow(2, { thread: id }))], [{ kind: "deleteThread", thread: id }]]);
  expect(places()).toEqual([]);
  await backend.close();
  expect(places()).toEqual([]);
  const again = await open(directory);
  expect([(await again.load(id, "", undefined)).era, (await again.load("other", "", undefined)).head]).toEqual([
    1,
    "1",
  ]);
  expect((await again.effects({ key: "k" }))[0]?.thread).toBe("other");
});

test("an effect that has passed to another thread leaves no trace of the first one when that is deleted", async () => {
  const directory = await scratchDirectory();
  const backend = await open(directory);
  const row = (thread: string, rev: number): EffectRow => ({
    ...{ key: "k", thread, ns: "", checkpoint: "1", task: "a", name: "charge", digest: "d", ordinal: -1, rev },
    ...{ status: "done", attempt: 1, owner: "o", body: "json/1 {}" },
  });
  await backend.commit([[{ kind: "effect", thread: "first-owner", era: 0, row: row("first-owner", 0), expect: null }]]);
  await backend.commit([[{ kind: "effect", thread: "next", era: 0, row: row("next", 1), expect: 0 }]]);
  await backend.commit([[{ kind: "deleteThread", thread: "first-owner" }]]);
  expect(readLog(directory).includes("first-owner")).toBe(false);
  expect(await backend.effects({ key: "k" })).toEqual([row("next", 1)]);
});

test("a log that is mostly outdated is written anew and loses nothing", async () => {
  const directory = await scratchDirectory();
  const backend = await open(directory, { compactBytesMin: 10_000 });
  await backend.commit([[checkpoint("kept", "json/1 1", "other"), { kind: "deleteThread", thread: "gone" }]]);
  const answered = waitRow("w", { status: "answered", rev: 1, decision: 2 });
  await backend.commit([[decision(decisionRow(1)), decision(decisionRow(2)), wait(waitRow("w"), null)]]);
  await backend.commit([[wait(answered, 0)], [run(runRow("r", { key: "k" }), null)]]);
  await backend.commit([[move(runRow("r", { key: "k" }), "running")]]);
  let largest = 0;
  for (let at = 0; at < 200; at++) {
    await backend.commit([[checkpoint("9"), checkpoint("5", `json/1 "${"x".repeat(1000)} ${at}"`)]]);
    largest = Math.max(largest, readLog(directory).length);
  }
  expect(largest).toBeLessThan(20_000);
  await backend.close();
  const again = await open(directory);
  expect([(await again.load("t", "", undefined)).head, (await again.load("gone", "", undefined)).era]).toEqual([
    "5",
    1,
  ]);
  expect((await again.load("t", "", "5")).checkpoint?.body).toContain(" 199");
  expect([await again.waits({}), await again.decision("t", undefined)]).toEqual([[answered], decisionRow(2)]);
  expect(await again.runs({ key: "k" })).toEqual([moved(runRow("r", { key: "k" }), "running")]);
  expect(await ids(again)).toEqual(["5", "9", "kept"]);
});

test("a log whose values take more bytes than characters is not written anew for ever", async () => {
  const directory = await scratchDirectory();
  const backend = await open(directory, { compactBytesMin: 0 });
  for (let at = 0; at < 20; at++) await backend.commit([[checkpoint(`${at}`, `json/1 "${"\u0001漢".repeat(200)}"`)]]);
  const lines = linesOf(directory).length;
  expect(lines, "the header and one line per commit: nothing was outdated, nothing rewritten").toBe(21);
});

test("a log that was left mostly outdated is written anew when it is opened, and keeps its heads", async () => {
  const directory = await scratchDirectory();
  const backend = await open(directory, { compactBytesMin: 1e9 });
  // The head will be the checkpoint that was stored first, and again last.
  await backend.commit([[checkpoint("1"), checkpoint("2")]]);
  for (let at = 0; at < 50; at++) await backend.commit([[checkpoint("1", `json/1 ${at}`)]]);
  await backend.close();
  expect(linesOf(directory)).toHaveLength(52);
  await (await open(directory, { compactBytesMin: 0 })).close();
  expect(linesOf(directory)).toHaveLength(2);
  const loaded = await (await open(directory)).load("t", "", undefined);
  expect([loaded.head, loaded.checkpoint?.body]).toEqual(["1", "json/1 49"]);
});

test("what an unfinished rewrite has left is removed when the directory is opened", async () => {
  const directory = await directoryWith("1");
  writeFileSync(join(directory, "log.jsonl.new"), "half of a log");
  const backend = await open(directory);
  expect(existsSync(join(directory, "log.jsonl.new"))).toBe(false);
  expect(await ids(backend)).toEqual(["1"]);
});

test("a closed directory can be copied and opened elsewhere", async () => {
  const directory = await directoryWith("1", "2");
  const copy = join(await scratchDirectory(), "copy");
  cpSync(directory, copy, { recursive: true });
  expect(await ids(await open(copy))).toEqual(["1", "2"]);
});
