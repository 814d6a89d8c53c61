import { appendFile, readFile, stat } from "node:fs/promises";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { backup, openCheckpointer } from "holdfast/checkpointers";
import { jsonl } from "holdfast/checkpointers/jsonl";
import { sqlite } from "holdfast/checkpointers/sqlite";
import Database from "better-sqlite3";
import { describe, expect, onTestFinished, test } from "vitest";
import { at, plain } from "../adopt/graphs.ts";
import { listed } from "../adopt/official.ts";
import { scratchDirectory } from "./scratch.ts";

const makers = { sqlite: (path: string) => sqlite(path), jsonl: (path: string) => jsonl(path) };

describe.each(["sqlite", "jsonl"] as const)("a backup of %s", (scheme) => {
  async function used() {
    const directory = await scratchDirectory();
    const path = join(directory, "original");
    const checkpointer = await makers[scheme](path);
    onTestFinished(() => checkpointer.close());
    await plain(checkpointer).invoke({ log: ["begun"] }, at("first"));
    return { directory, path, checkpointer, copy: join(directory, "copy") };
  }

  test("of a database that is in use opens, and holds everything that was acknowledged before", async () => {
    const { path, copy, checkpointer } = await used();
    const seen: number[] = [];
    const done = await backup(`${scheme}:${path}`, copy, { onProgress: ({ copied }) => seen.push(copied) });
    expect(seen.length).toBeGreaterThan(0);
    await plain(checkpointer).invoke({ log: ["later"] }, at("second"));
    const opened = await openCheckpointer(done.url);
    onTestFinished(() => opened.close());
    expect(await listed(opened, "first")).toEqual(await listed(checkpointer, "first"));
    expect(await listed(opened, "second")).toEqual([]);
    const more = await plain(opened).invoke({ log: ["more"] }, at("first"));
    expect(more.log).toEqual(["begun", "a", "b", "c", "more", "a", "b", "c"]);
  });

  test("replaces nothing", async () => {
    const { path, copy } = await used();
    await appendFile(copy, "mine");
    await expect(backup(`${scheme}:${path}`, copy)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(await readFile(copy, "utf8")).toBe("mine");
  });

  test("of what is not there fails, and leaves nothing behind", async () => {
    const { directory, copy } = await used();
    await expect(backup(`${scheme}:${join(directory, "absent")}`, copy)).rejects.toMatchObject({ code: "CANNOT_OPEN" });
    expect(existsSync(copy)).toBe(false);
    expect(existsSync(join(directory, "absent"))).toBe(false);
  });
});

test("an SQLite backup is one state, and ends, while somebody writes between all of its turns", async () => {
  const directory = await scratchDirectory();
  const [path, copy] = [join(directory, "original"), join(directory, "copy")];
  const checkpointer = await sqlite(path);
  onTestFinished(() => checkpointer.close());
  const text = "x".repeat(200_000);
  for (let i = 0; i < 60; i += 1) await plain(checkpointer).invoke({ log: [`${text}${i}`] }, at(`before ${i}`));
  const other = new Database(path);
  onTestFinished(() => void other.close());
  other.exec("create table scribbled (turn integer)");
  let turns = 0;
  await backup(`sqlite:${path}`, copy, {
    onProgress: () => {
      turns += 1;
      other.prepare("insert into scribbled values (?)").run(turns);
    },
  });
  expect(turns).toBeGreaterThan(3);
  const copied = new Database(copy, { readonly: true });
  onTestFinished(() => void copied.close());
  expect(copied.pragma("integrity_check", { simple: true })).toBe("ok");
  expect(copied.prepare("select count(*) from scribbled").pluck().get()).toBe(0);
});

test("an SQLite backup leaves no log and no index beside the copy", async () => {
  const directory = await scratchDirectory();
  const checkpointer = await sqlite(join(directory, "original"));
  onTestFinished(() => checkpointer.close());
  const copy = join(directory, "copy");
  await backup(`sqlite:${join(directory, "original")}`, copy);
  expect([existsSync(`${copy}-wal`), existsSync(`${copy}-shm`)]).toEqual([false, false]);
});

test("a backup of another program's database is refused, and leaves nothing behind", async () => {
  const directory = await scratchDirectory();
  const other = new Database(join(directory, "other.db"));
  other.exec("create table cats (name)");
  other.close();
  const copy = join(directory, "copy");
  await expect(backup(`sqlite:${join(directory, "other.db")}`, copy)).rejects.toMatchObject({
    code: "FOREIGN_DATABASE",
  });
  expect(existsSync(copy)).toBe(false);
});

test("a JSONL backup ends with the last whole commit", async () => {
  const directory = await scratchDirectory();
  const original = join(directory, "original");
  const checkpointer = await jsonl(original);
  await plain(checkpointer).invoke({ log: ["begun"] }, at("first"));
  const whole = (await stat(join(original, "log.jsonl"))).size;
  await appendFile(join(original, "log.jsonl"), '{"line":99,"bytes":400,"crc32":"00000000","cha');
  const { bytes } = await backup(`jsonl:${original}`, join(directory, "copy"));
  expect(bytes).toBe(whole);
  expect(statSync(join(directory, "copy", "log.jsonl")).size).toBe(whole);
  await checkpointer.close();
});

test.each(["memory:", "postgres://localhost/x", "postgresql://localhost/x", "redis://localhost"])(
  "a backup of %s is refused with what to do instead",
  async (url) => {
    await expect(backup(url, "copy")).rejects.toMatchObject({ code: "NOT_SUPPORTED" });
  },
);
