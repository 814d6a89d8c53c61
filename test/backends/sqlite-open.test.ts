import { hash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import Database from "better-sqlite3";
import type { ErrorCode } from "holdfast";
import { sqlite } from "holdfast/checkpointers/sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { sqliteBackend } from "../../checkpointers/sqlite/backend.ts";
import { APPLICATION_ID, FORMAT, migrations } from "../../checkpointers/sqlite/schema.ts";
import { accept, blob, checkpoint, headOf } from "../../src/testing/backend-rows.ts";
import { compiled, runChild, scratchDirectory } from "./scratch.ts";

/** Opens a backend that is closed when the test is over. */
async function open(file: string, options?: Parameters<typeof sqliteBackend>[1]) {
  const backend = await sqliteBackend(file, options);
  onTestFinished(() => backend.close());
  return backend;
}

/** Every file below a directory with a digest of its bytes; of the index of a log only that it is there. */
function contents(directory: string): string[] {
  const names = readdirSync(directory, { recursive: true, encoding: "utf8" }).sort();
  const files = names.filter((name) => statSync(join(directory, name)).isFile());
  return files.map((name) =>
    name.endsWith("-shm") ? name : `${name} ${hash("sha256", readFileSync(join(directory, name)))}`,
  );
}

/** Keeps a child from its own end, which would write the log back: its input stays open. */
const untilKilled = "process.stdin.resume();";

/** Makes a database in a child that is killed, so that all it holds is still in its log. */
async function madeAndKilled(file: string, statements: string): Promise<void> {
  const child = runChild(`
    import Database from "better-sqlite3";
    const db = new Database(${JSON.stringify(file)});
    db.pragma("journal_mode = wal");
    ${statements}
    console.log("made");
    ${untilKilled}`);
  await child.line();
  await child.signal("SIGKILL");
}

function made(file: string, sql: string): void {
  const db = new Database(file);
  db.exec(sql);
  db.close();
}

const official = `create table checkpoints (thread_id text, checkpoint blob); create table writes (thread_id text, value blob)`;

interface BadFile {
  readonly name: string;
  readonly code: ErrorCode;
  /** What the message must say. */
  readonly says: RegExp;
  readonly make: (file: string, directory: string) => void | Promise<void>;
}

const badFiles: BadFile[] = [
  {
    name: "a file of the official SqliteSaver",
    code: "FOREIGN_DATABASE",
    says: /LangGraph's SqliteSaver.*another file name/,
    make: (file) => {
      const saver = SqliteSaver.fromConnString(file);
      (saver as unknown as { setup(): void }).setup();
      saver.db.close();
    },
  },
  {
    name: "a file of the official SqliteSaver that is open in this process",
    code: "FOREIGN_DATABASE",
    says: /LangGraph's SqliteSaver/,
    make: (file) => {
      const saver = SqliteSaver.fromConnString(file);
      (saver as unknown as { setup(): void }).setup();
      onTestFinished(() => void saver.db.close());
    },
  },
  {
    name: "a file of the official SqliteSaver that was killed before its log was written back",
    code: "FOREIGN_DATABASE",
    says: /its contents in the log|SqliteSaver/,
    make: (file) => madeAndKilled(file, `db.exec(${JSON.stringify(official)});`),
  },
  {
    name: "a database of another program",
    code: "FOREIGN_DATABASE",
    says: /another program \(customers, orders\)/,
    make: (file) => made(file, "create table orders (id); create table customers (id)"),
  },
  {
    name: "a large database of another program",
    code: "FOREIGN_DATABASE",
    says: /another program \(t0, t1, t10, t11, t12 and 35 more\)/,
    make: (file) => {
      const tables = Array.from({ length: 40 }, (_, i) => `create table t${i} (x);`);
      made(file, `begin; ${tables.join("")} insert into t0 values (zeroblob(3000000)); commit`);
    },
  },
  {
    name: "a database that bears another program's mark",
    code: "FOREIGN_DATABASE",
    says: /another program/,
    make: (file) => made(file, "pragma application_id = 7; create view v as select 1"),
  },
  {
    name: "a text file",
    code: "FOREIGN_DATABASE",
    says: /no SQLite database/,
    make: (file) => writeFileSync(file, "hello"),
  },
  {
    name: "a long file that is no database",
    code: "FOREIGN_DATABASE",
    says: /no SQLite database/,
    make: (file) => writeFileSync(file, "x".repeat(10_000)),
  },
  { name: "a directory", code: "CANNOT_OPEN", says: /is a directory/, make: (file) => void mkdirSync(file) },
  {
    name: "a file below a file",
    code: "CANNOT_OPEN",
    says: /not a directory|ENOTDIR/,
    make: (_, directory) => writeFileSync(join(directory, "file"), ""),
  },
  { name: "a directory that does not exist", code: "CANNOT_OPEN", says: /does not exist. Create it/, make: () => {} },
  {
    name: "a newer format",
    code: "UNSUPPORTED_FORMAT",
    says: new RegExp(`needs a version of holdfast that knows format ${FORMAT + 2}; this one knows ${FORMAT}.`),
    make: async (file) => {
      await (await sqliteBackend(file)).close();
      made(file, `update holdfast_meta set value = ${FORMAT + 2}`);
    },
  },
];

const inPlace: Record<string, string> = {
  "a file below a file": "file/x.db",
  "a directory that does not exist": "none/x.db",
};

describe("nothing is written where a file cannot be used:", () => {
  for (const { name, code, says, make } of badFiles) {
    test(name, async () => {
      const directory = await scratchDirectory();
      const file = join(directory, inPlace[name] ?? "x.db");
      await make(file, directory);
      const before = contents(directory);
      const error = await sqliteBackend(file).catch((error) => error);
      expect(error).toMatchObject({ code, message: expect.stringMatching(says) });
      expect(error.message).toContain(file);
      expect(contents(directory)).toEqual(before);
    });
  }
});

test("opening a file that is open in this process already releases none of its locks", async () => {
  const file = join(await scratchDirectory(), "x.db");
  const backend = await open(file);
  await accept(backend, checkpoint("1"));
  const before = locksOf(file);
  await (await sqliteBackend(file)).close();
  expect(locksOf(file)).toEqual(before);
  if (process.platform === "linux") expect(before).toHaveLength(1);
});

/** The POSIX locks on a file, as Linux lists them. */
function locksOf(file: string): string[] {
  if (!existsSync("/proc/locks")) return [];
  const locks = readFileSync("/proc/locks", "utf8").split("\n");
  return locks.filter((line) => line.includes(`:${statSync(file).ino} `)).map((line) => line.replace(/^\d+: /, ""));
}

/** As a user who is not allowed everything: root is no such user. */
async function unprivileged<T>(body: () => Promise<T>): Promise<T> {
  if (process.geteuid?.() !== 0) return body();
  process.seteuid?.(65_534);
  try {
    return await body();
  } finally {
    process.seteuid?.(0);
  }
}

test("a file or directory that cannot be written is refused at open, and can be read with readonly", async () => {
  const directory = await scratchDirectory();
  const file = join(directory, "x.db");
  const backend = await sqliteBackend(file);
  await accept(backend, checkpoint("1"));
  await backend.close();
  chmodSync(file, 0o444);
  chmodSync(directory, 0o777);
  await unprivileged(async () => {
    await expect(sqliteBackend(file)).rejects.toMatchObject({ code: "CANNOT_OPEN" });
    chmodSyncAsOwner(file, 0o644);
    chmodSyncAsOwner(directory, 0o555);
    await expect(sqliteBackend(join(directory, "new.db"))).rejects.toMatchObject({ code: "CANNOT_OPEN" });
  });
  chmodSync(directory, 0o755);
  const reader = await open(file, { readonly: true });
  expect(await headOf(reader)).toBe("1");
  await expect(accept(reader, checkpoint("2"))).rejects.toMatchObject({ code: "NOT_SUPPORTED" });
});

function chmodSyncAsOwner(path: string, mode: number): void {
  const euid = process.geteuid?.() ?? 0;
  const wasDropped = euid !== 0 && process.getuid?.() === 0;
  if (wasDropped) process.seteuid?.(0);
  chmodSync(path, mode);
  if (wasDropped) process.seteuid?.(euid);
}

const badOptions: [options: object, says: RegExp][] = [
  [{ synchronos: "FULL" }, /no option "synchronos".*Did you mean synchronous/],
  [{ busyTimeout: 5 }, /Did you mean busyTimeoutMs/],
  [{ readOnly: true }, /Did you mean readonly/],
  [{ anything: 1 }, /Its options are synchronous, busyTimeoutMs, leaseMs, readonly/],
  [{ synchronous: "full" }, /Did you mean "FULL"/],
  [{ synchronous: 1 }, /must be "FULL", "NORMAL" or "OFF"/],
  [{ busyTimeoutMs: -1 }, /busyTimeoutMs is -1/],
  [{ busyTimeoutMs: "5" }, /busyTimeoutMs is "5"/],
  [{ readonly: 1 }, /readonly is 1/],
];

test.each(badOptions)("the options %j are refused, and the message helps", async (options, says) => {
  const directory = await scratchDirectory();
  const refusal = { code: "INVALID_ARGUMENT", message: expect.stringMatching(says) };
  await expect(sqliteBackend(join(directory, "x.db"), options)).rejects.toMatchObject(refusal);
  await expect(sqlite(join(directory, "x.db"), options)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  expect(readdirSync(directory)).toEqual([]);
});

test.each([":memory:", "", "file:x.db", " x.db", "x.db\n", "a\0b"])("%j names no file", async (file) => {
  await expect(sqliteBackend(file)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
});

test("an empty file becomes a database", async () => {
  const file = join(await scratchDirectory(), "x.db");
  writeFileSync(file, "");
  await accept(await open(file), checkpoint("1"));
});

test("a database that another program has left empty becomes ours", async () => {
  const file = join(await scratchDirectory(), "x.db");
  made(file, "pragma journal_mode = wal; vacuum");
  expect(statSync(file).size).toBeGreaterThan(0);
  await accept(await open(file), checkpoint("1"));
});

test("a newer format that this code may read and write is opened", async () => {
  const file = join(await scratchDirectory(), "x.db");
  await (await sqliteBackend(file)).close();
  made(
    file,
    `update holdfast_meta set value = ${FORMAT + 1} where key = 'format'; alter table holdfast_blobs add column later any`,
  );
  await accept(await open(file), checkpoint("1"), blob("abcd", "data"));
});

test("the file bears our mark as soon as it has tables, also while the rest is only in the log", async () => {
  const file = join(await scratchDirectory(), "x.db");
  const child = runChild(`
    import { sqliteBackend } from ${JSON.stringify(compiled("checkpointers/sqlite/backend.ts"))};
    const backend = await sqliteBackend(${JSON.stringify(file)});
    await backend.commit([[${JSON.stringify(checkpoint("1"))}]]);
    console.log("stored");
    ${untilKilled}`);
  await child.line();
  await child.signal("SIGKILL");
  expect(statSync(`${file}-wal`).size).toBeGreaterThan(0);
  expect(readFileSync(file).readUInt32BE(68)).toBe(APPLICATION_ID);
  expect(await headOf(await open(file))).toBe("1");
});

test("a file is the same by every path that leads to it, so owners know each other", async () => {
  const directory = await scratchDirectory();
  mkdirSync(join(directory, "real"));
  symlinkSync(join(directory, "real"), join(directory, "link"));
  symlinkSync(join(directory, "real", "x.db"), join(directory, "other.db"));
  const backends = [];
  for (const path of ["other.db", "link/x.db", "real/x.db"]) backends.push(await open(join(directory, path)));
  for (const one of backends) for (const other of backends) expect(await one.ownerAlive(other.owner)).toBe(true);
});

test("the tables of each format are those that were released", async () => {
  const file = join(await scratchDirectory(), "x.db");
  const backend = await open(file, { synchronous: "NORMAL" });
  const schema = await backend.transaction?.((tx) => {
    const sql = (tx as Database.Database)
      .prepare("select sql from sqlite_schema where sql is not null order by name")
      .pluck();
    return { ops: [], value: sql.all().join(";\n") };
  });
  expect(migrations.map(({ number }) => number)).toEqual(Array.from({ length: FORMAT }, (_, i) => i + 1));
  await expect(`${schema}\n`.replaceAll(/^ {6}/gm, "")).toMatchFileSnapshot("sqlite-schema.sql");
});
