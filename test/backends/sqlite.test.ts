import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Database } from "better-sqlite3";
import fc from "fast-check";
import { type Backend, channels } from "holdfast";
import { describeBackend } from "holdfast/testing";
import { expect, onTestFinished, test } from "vitest";
import { sqliteBackend } from "../../checkpointers/sqlite/backend.ts";
import { compareIds } from "../../checkpointers/ids.ts";
import {
  accept,
  blob,
  checkpoint,
  codes,
  collect,
  decision,
  decisionRow,
  deleteThread,
  headOf,
  ids,
  items,
  wait,
  waitRow,
  writes,
} from "../../src/testing/backend-rows.ts";
import { scratchDirectory } from "./scratch.ts";
import { sharedStore } from "./opened.ts";

await describeBackend("sqliteBackend(file)", async () => {
  const directory = await mkdtemp(join(tmpdir(), "holdfast-sqlite-"));
  const file = join(directory, "test.db");
  return sharedStore(
    () => sqliteBackend(file, { synchronous: "NORMAL" }),
    () => rm(directory, { recursive: true }),
  );
});

async function fresh(options?: Parameters<typeof sqliteBackend>[1]) {
  const file = join(await scratchDirectory(), "x.db");
  const backend = await sqliteBackend(file, { synchronous: "NORMAL", ...options });
  onTestFinished(() => backend.close());
  const transaction = <T>(body: (tx: Database) => { ops: Parameters<Backend["commit"]>[0][number]; value: T }) => {
    if (backend.transaction === undefined) throw new Error("SQLite has transactions");
    return backend.transaction((tx) => body(tx as Database));
  };
  return { file, backend, transaction };
}

test("each level of synchronous is set, and says what it keeps", async () => {
  const levels = [
    ["FULL", 2, "fsync"],
    ["NORMAL", 1, "os"],
    ["OFF", 0, "os"],
  ] as const;
  for (const [synchronous, level, durability] of levels) {
    const { backend, transaction } = await fresh({ synchronous });
    expect(backend.capabilities.durability).toBe(durability);
    const pragmas = await transaction((tx) => ({
      ops: [],
      value: ["synchronous", "journal_mode", "busy_timeout"].map((name) => tx.pragma(name, { simple: true })),
    }));
    expect(pragmas).toEqual([level, "wal", 0]);
  }
  expect((await fresh({ synchronous: undefined })).backend.capabilities.durability).toBe("fsync");
});

test("a group is one transaction, whatever is refused in it", async () => {
  const { backend } = await fresh();
  await accept(backend, checkpoint("1"));
  let transactions = 0;
  const count = () => {
    transactions += 1;
  };
  channels.commitInside.subscribe(count);
  onTestFinished(() => void channels.commitInside.unsubscribe(count));
  const group = [
    [checkpoint("2", { heads: ["1"] })],
    [blob("hash", "data"), checkpoint("3", { heads: ["1"] })],
    [writes([[0, "c", 1]])],
  ];
  expect(await codes(backend, group)).toEqual(["accepted", "HEAD_MOVED", "accepted"]);
  expect(transactions).toBe(1);
  expect((await backend.blobs("t", ["hash"])).size).toBe(0);
  expect(await headOf(backend)).toBe("2");
});

test("an id without UTF-8 refuses its commit and no other", async () => {
  const { backend } = await fresh();
  const group = [
    [checkpoint("1")],
    [checkpoint("2"), blob("hash", "data", { thread: "\ud800" })],
    [blob("hash", "data")],
  ];
  expect(await codes(backend, group)).toEqual(["accepted", "INVALID_ID", "accepted"]);
  expect(await headOf(backend)).toBe("1");
});

test("a full disk fails the commit with its cause, keeps what was there, and takes commits again when there is space", async () => {
  const { backend, transaction } = await fresh();
  await accept(backend, checkpoint("1"));
  const limit = (pages: number) => transaction((tx) => ({ ops: [], value: tx.pragma(`max_page_count = ${pages}`) }));
  await limit(30);
  const large = [blob("small", "data"), blob("large", "x".repeat(1_000_000)), checkpoint("2")];
  await expect(accept(backend, ...large)).rejects.toMatchObject({
    code: "STORAGE_FAILED",
    message: expect.stringContaining("disk is full"),
    cause: { code: "SQLITE_FULL" },
  });
  expect(await headOf(backend)).toBe("1");
  expect((await backend.blobs("t", ["small", "large"])).size).toBe(0);
  await accept(backend, blob("small", "data"));
  await limit(1_000_000);
  await accept(backend, ...large);
  expect(await headOf(backend)).toBe("2");
});

test("every string and every byte array comes back as it went in", async () => {
  const { backend } = await fresh();
  const values: Record<string, string | Uint8Array> = {
    empty: "",
    nul: "a\0b\0",
    emoji: "😀 é \uffff",
    "half a surrogate": "a\ud800b\udfff",
    backslashes: "\\u0000 \\\\-",
    large: "x😀\0".repeat(1_300_000),
    bytes: Uint8Array.of(0, 255, 216, 0),
    "no bytes": new Uint8Array(),
    "a part of a buffer": new Uint8Array(Uint8Array.of(9, 1, 2, 9).buffer, 1, 2),
    "many bytes": new Uint8Array(5_000_000).map((_, i) => i * 7),
  };
  const body = (name: string) => (typeof values[name] === "string" ? `json/1 ${values[name]}` : "json/1 0");
  for (const [name, value] of Object.entries(values)) {
    await accept(
      backend,
      blob(name, value),
      checkpoint(name, { body: body(name) }),
      items(name, 0, [1], { body: body(name) }),
    );
  }
  const found = await backend.blobs("t", Object.keys(values));
  for (const [name, value] of Object.entries(values)) {
    const blob = found.get(name);
    if (typeof value === "string") expect(blob === value).toBe(true);
    else expect(blob instanceof Uint8Array && Buffer.compare(blob, value) === 0).toBe(true);
    expect((await backend.load("t", "", name)).checkpoint?.body === body(name)).toBe(true);
    expect((await backend.items("t", name, 1)).rows[0]?.body === body(name)).toBe(true);
  }
});

test("lists of checkpoints are merged over namespaces, threads and kinds of ids, page after page", async () => {
  const uuid = fc.uuid();
  const id = fc.oneof(
    uuid,
    uuid.map((text) => text.slice(0, 20)),
    fc.string({ unit: fc.constantFrom("0", "f", "-", "z", "\uffff", "😀") }),
  );
  const rows = fc.array(fc.record({ id, thread: fc.constantFrom("a", "b"), ns: fc.constantFrom("", "x") }), {
    minLength: 300,
    maxLength: 400,
  });
  await fc.assert(
    fc.asyncProperty(rows, fc.option(id, { nil: undefined }), async (rows, before) => {
      const { backend } = await fresh({ synchronous: "OFF" });
      await accept(backend, ...rows.map((row) => checkpoint(row.id, row)));
      const distinct = [...new Map(rows.map((row) => [JSON.stringify(row), row])).values()];
      for (const query of [{}, { thread: "a" }, { ns: "x" }, { thread: "b", ns: "" }, { thread: "a", limit: 150 }]) {
        const { limit, ...place } = { limit: undefined, ...query };
        const expected = distinct
          .filter((row) => Object.entries(place).every(([name, value]) => row[name as "ns"] === value))
          .map((row) => row.id)
          .filter((id) => before === undefined || compareIds(id, before) < 0)
          .sort((a, b) => compareIds(b, a))
          .slice(0, limit);
        expect(await ids(backend.checkpoints({ ...query, before }))).toEqual(expected);
      }
      await backend.close();
    }),
    { numRuns: 10 },
  );
});

test("a list that is read half way holds nothing open: others write, and the log is written back whole", async () => {
  const { file, backend, transaction } = await fresh();
  const chain = Array.from({ length: 250 }, (_, i) =>
    checkpoint(String(1000 + i), { parent: i === 0 ? undefined : String(999 + i) }),
  );
  await accept(backend, ...chain);
  const other = await sqliteBackend(file);
  onTestFinished(() => other.close());
  for (const list of [backend.checkpoints({ thread: "t" }), backend.ancestors("t", "", "1249")]) {
    const iterator = list[Symbol.asyncIterator]();
    await iterator.next();
    await accept(other, checkpoint("0", { heads: undefined }), writes([[0, "c", 1]], { checkpoint: "1000" }));
    await other.transaction?.((tx) => ({
      ops: [],
      value: (tx as Database).exec("create table if not exists users (id)"),
    }));
    const rest = await collect({ [Symbol.asyncIterator]: () => iterator });
    expect(rest.filter((row) => row.id !== "0")).toHaveLength(249);
  }
  await transaction((tx) => ({ ops: [], value: tx.exec("insert into users values (1)") }));
});

test("ancestors show no row that was stored after the call, and a deletion meanwhile is an error, not a short history", async () => {
  const { backend } = await fresh();
  const chain = Array.from({ length: 250 }, (_, i) =>
    checkpoint(String(i), { parent: i === 0 ? undefined : String(i - 1) }),
  );
  await accept(backend, ...chain);
  const reading = backend.ancestors("t", "", "249")[Symbol.asyncIterator]();
  await reading.next();
  await accept(backend, writes([[0, "c", 1]], { checkpoint: "0" }));
  const rest = await collect({ [Symbol.asyncIterator]: () => reading });
  expect(rest.at(-1)).toMatchObject({ id: "0", writes: [] });

  const deleted = backend.ancestors("t", "", "249")[Symbol.asyncIterator]();
  await deleted.next();
  await accept(backend, deleteThread("t"));
  await expect(collect({ [Symbol.asyncIterator]: () => deleted })).rejects.toMatchObject({ code: "THREAD_DELETED" });
});

test("the id of a deleted thread is nowhere in the tables, and its next life begins in the next era", async () => {
  const { backend, transaction } = await fresh();
  const thread = "somebody@example.org";
  await accept(
    backend,
    checkpoint("1", { thread }),
    writes([[0, "c", 1]], { thread }),
    blob("hash", "data", { thread }),
    items("l", 0, [1], { thread }),
    wait(waitRow("w", { thread }), null),
    decision(decisionRow(1, { thread })),
  );
  await accept(backend, deleteThread(thread));
  const left = await transaction((tx) => {
    const tables = tx.prepare("select name from sqlite_schema where type = 'table'").pluck().all() as string[];
    return {
      ops: [],
      value: tables
        .map((name) => [name, tx.prepare(`select * from ${name}`).all()] as const)
        .filter(([, rows]) => rows.length > 0),
    };
  });
  expect(left.map(([name]) => name).sort()).toEqual(["holdfast_meta", "holdfast_threads"]);
  expect(JSON.stringify(left)).not.toContain("somebody");
  await accept(backend, checkpoint("1", { thread, era: 1 }));
  expect(await backend.load(thread, "", undefined)).toMatchObject({ era: 1, head: "1" });
});

test("a transaction commits the body's own statements and its operations together, or neither", async () => {
  const { backend, transaction } = await fresh();
  await transaction((tx) => ({ ops: [], value: tx.exec("create table users (name text)") }));
  const users = () => transaction((tx) => ({ ops: [], value: tx.prepare("select name from users").pluck().all() }));
  const insert = (tx: Database, name: string) => tx.prepare("insert into users values (?)").run(name);

  const value = await transaction((tx) => ({ ops: [checkpoint("1")], value: insert(tx, "Ada").changes }));
  expect(value).toBe(1);
  expect([await users(), await headOf(backend)]).toEqual([["Ada"], "1"]);

  const broken = new RangeError("by the body");
  const failures: [(tx: Database) => unknown, unknown][] = [
    [
      () => {
        throw broken;
      },
      broken,
    ],
    [() => ({ ops: [checkpoint("2", { heads: ["0"] })], value: 0 }), { code: "HEAD_MOVED" }],
    [() => ({ ops: [checkpoint("2")], value: Promise.reject(new Error("later")) }), { code: "INVALID_ARGUMENT" }],
    [async () => ({ ops: [checkpoint("2")], value: 0 }), { code: "INVALID_ARGUMENT" }],
    [
      (tx) => {
        tx.exec("rollback");
        return { ops: [checkpoint("2")], value: 0 };
      },
      { code: "INVALID_ARGUMENT" },
    ],
    [
      (tx) => {
        tx.exec("rollback; begin");
        return { ops: [checkpoint("2")], value: 0 };
      },
      { code: "INVALID_ARGUMENT" },
    ],
  ];
  for (const [body, error] of failures) {
    const attempt = transaction((tx) => {
      insert(tx, "Eve");
      return body(tx) as { ops: []; value: number };
    });
    if (error instanceof Error) await expect(attempt).rejects.toBe(error);
    else await expect(attempt).rejects.toMatchObject(error as object);
    expect([await users(), await headOf(backend)]).toEqual([["Ada"], "1"]);
  }
});

test("calls that a body starts, or that queue behind it, go on when its transaction has ended", async () => {
  const { backend, transaction } = await fresh();
  const started: Promise<unknown>[] = [];
  const body = transaction(() => {
    started.push(headOf(backend), accept(backend, checkpoint("2", { heads: ["1"] })));
    return { ops: [checkpoint("1")], value: 0 };
  });
  const failing = transaction(() => {
    throw new RangeError("by the second body");
  });
  await body;
  await expect(failing).rejects.toThrow(RangeError);
  expect(await Promise.all(started)).toEqual(["1", undefined]);
  expect(await headOf(backend)).toBe("2");
});

test("a closed backend answers CLOSED, and closing waits for what was begun", async () => {
  const { backend, transaction } = await fresh();
  const commit = accept(backend, checkpoint("1"));
  const closing = backend.close();
  await commit;
  await closing;
  await backend.close();
  for (const call of [
    () => accept(backend, checkpoint("2")),
    () => headOf(backend),
    () => transaction(() => ({ ops: [], value: 0 })),
  ]) {
    await expect(call()).rejects.toMatchObject({ code: "CLOSED" });
  }
  await expect(collect(backend.checkpoints({}))).rejects.toMatchObject({ code: "CLOSED" });
  await expect(backend.ownerAlive(backend.owner)).rejects.toMatchObject({ code: "CLOSED" });
});
