/** Postgres: commits that are very large, that meet in one row, and servers that are set in unusual ways. */

import { memoryBackend } from "holdfast/checkpointers/memory";
import pg from "pg";
import { expect, inject, onTestFinished, test, vi } from "vitest";
import { postgresBackend } from "../../checkpointers/postgres/backend.ts";
import { threadDigest } from "../../checkpointers/memory/change.ts";
import { planGroup } from "../../checkpointers/postgres/plan.ts";
import { statement } from "../../checkpointers/postgres/statement.ts";
import type { Commit } from "../../src/backend.ts";
import * as rows from "../../src/testing/backend-rows.ts";
import { newSchema, query, quoted } from "../servers/schemas.ts";

const url = inject("postgresUrl");

async function fresh(config: pg.PoolConfig = {}) {
  const schema = await newSchema();
  const pool = new pg.Pool({ connectionString: url, ...config });
  const backend = await postgresBackend(pool, { schema });
  onTestFinished(async () => {
    await backend.close();
    await pool.end();
  });
  return { schema, backend };
}

/** Stores a commit in a transaction that stays open; call the answer to commit it. */
async function heldCommit(schema: string, commit: Commit): Promise<() => Promise<void>> {
  const client = new pg.Client(url);
  await client.connect();
  const plan = planGroup([commit]);
  if (plan === undefined) throw new Error("no plan");
  await client.query("begin");
  await client.query(...statement(schema, plan.parts, plan));
  return async () => {
    await client.query("commit");
    await client.end();
  };
}

/** Resolves when some session of the schema's statements waits for another one. */
async function waitsForLock(schema: string): Promise<void> {
  const blocked = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and position($1 in query) > 0`;
  for (;;) if ((await query(blocked, [quoted(schema)])).length > 0) return;
}

const refused = [rows.checkpoint("x", { heads: ["nothing"] })];

test("an id that no index can hold refuses its commit also where nothing else is wrong", async () => {
  const { backend } = await fresh();
  const long = Array.from({ length: 3000 }, (_, n) => String.fromCodePoint(0x4e00 + ((n * 7919) % 20_000))).join("");
  expect(await rows.codes(backend, [[rows.checkpoint("1")], [rows.checkpoint(long)]])).toEqual([
    "accepted",
    "INVALID_ID",
  ]);
  expect(await rows.codes(backend, [[rows.checkpoint(long)]])).toEqual(["INVALID_ID"]);
  await expect(backend.transaction?.(() => ({ ops: [rows.checkpoint(long)], value: 1 }))).rejects.toMatchObject({
    code: "INVALID_ID",
  });
});

test("a commit of more bodies than a statement has parameters is stored", async () => {
  const { backend } = await fresh();
  const many = Array.from({ length: 66_000 }, (_, n) =>
    rows.blob(`${n}`, n % 2 === 0 ? `"\\ ${n}` : new Uint8Array([n % 256])),
  );
  await rows.accept(backend, ...many);
  const found = await backend.blobs("t", ["65998", "65999"]);
  expect([...found].sort()).toEqual([
    ["65998", '"\\ 65998'],
    ["65999", new Uint8Array([65_999 % 256])],
  ]);
});

test("an effect that another thread's commit stores between judging and storing is not replaced", async () => {
  const { schema, backend } = await fresh();
  const key = (owner: string, thread: string) => rows.effect(rows.effectRow("k", { owner, thread, ordinal: -1 }), null);
  const theirs = await heldCommit(schema, [key("theirs", "u")]);
  const ours = rows.codes(backend, [[key("ours", "t")], refused]);
  await waitsForLock(schema);
  await theirs();
  expect(await ours).toEqual(["EFFECT_CONFLICT", "HEAD_MOVED"]);
  expect((await backend.effects({ key: "k" })).map(({ owner }) => owner)).toEqual(["theirs"]);
});

test("a transaction whose effect another commit stores meanwhile is judged anew, and the body is called once", async () => {
  const { schema, backend } = await fresh();
  const key = (owner: string, thread: string) => rows.effect(rows.effectRow("k", { owner, thread, ordinal: -1 }), null);
  const theirs = await heldCommit(schema, [key("theirs", "u")]);
  let calls = 0;
  const ours = backend.transaction?.(() => {
    calls += 1;
    return { ops: [key("ours", "t")], value: 1 };
  });
  const expected = expect(ours).rejects.toMatchObject({ code: "EFFECT_CONFLICT" });
  await waitsForLock(schema);
  await theirs();
  await expected;
  expect(calls).toBe(1);
  expect((await backend.effects({ key: "k" })).map(({ owner }) => owner)).toEqual(["theirs"]);
});

test("a wait that another thread's commit opens between judging and storing refuses the commit", async () => {
  const { schema, backend } = await fresh();
  const open = (thread: string) => rows.wait(rows.waitRow("w", { thread }), null);
  const theirs = await heldCommit(schema, [open("u")]);
  const ours = rows.codes(backend, [[open("t")], refused]);
  await waitsForLock(schema);
  await theirs();
  expect(await ours).toEqual(["WAIT_CONFLICT", "HEAD_MOVED"]);
});

test.each(["id", "key"])(
  "a run that another thread's commit starts between judging and storing refuses the commit, by %s",
  async (by) => {
    const { schema, backend } = await fresh();
    const start = (thread: string) =>
      rows.run(rows.runRow(by === "id" ? "r" : `of ${thread}`, { thread, ...(by === "key" && { key: "k" }) }), null);
    const theirs = await heldCommit(schema, [start("u")]);
    const ours = rows.codes(backend, [[start("t")], refused]);
    await waitsForLock(schema);
    await theirs();
    expect(await ours).toEqual(["RUN_CONFLICT", "HEAD_MOVED"]);
    expect((await backend.runs({})).map(({ thread }) => thread)).toEqual(["u"]);
  },
);

test("a run whose key no index can hold, and fences and revisions that are no such numbers, are refused and nothing else", async () => {
  const { backend } = await fresh();
  const long = Array.from({ length: 3000 }, (_, n) => String.fromCodePoint(0x4e00 + ((n * 7919) % 20_000))).join("");
  const own = rows.runRow("r", { status: "running", epoch: 2 ** 53 });
  const group = [
    [rows.run(own, null)],
    [rows.run(rows.runRow("long", { key: long }), null)],
    ...[Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53 - 1].map((epoch) => [rows.fence("r", epoch)]),
    ...[-1, 0.5, 2 ** 31, 1e300].map((rev) => [rows.run(rows.moved(own, "queued"), rev)]),
    [rows.run(rows.runRow("\ud800"), null)],
    [rows.fence("\ud800", 1)],
  ];
  const expected = [
    ...["accepted", "INVALID_ID", "RUN_LOST", "RUN_LOST", "RUN_LOST"],
    ...["RUN_CONFLICT", "RUN_CONFLICT", "RUN_CONFLICT", "RUN_CONFLICT", "INVALID_ID", "INVALID_ID"],
  ];
  expect(await rows.codes(backend, group)).toEqual(expected);
  for (const [at, commit] of group.slice(1).entries()) {
    expect(await rows.codes(backend, [commit])).toEqual([expected[at + 1]]);
  }
  await rows.accept(backend, rows.fence("r", 2 ** 53));
});

test("a role whose transactions have one snapshot is judged on what is there all the same", async () => {
  const { schema, backend } = await fresh({ options: "-c default_transaction_isolation=serializable" });
  await rows.accept(backend, rows.blob("before", "x"));
  const client = new pg.Client(url);
  await client.connect();
  await client.query("begin");
  const plan = planGroup([[rows.blob("lock", "x")]]);
  if (plan === undefined) throw new Error("no plan");
  await client.query(...statement(schema, plan.parts, plan));
  const ours = rows.codes(backend, [[rows.blob("after", "x")]]);
  await waitsForLock(schema);
  await client.query(`select ${quoted(schema)}.holdfast_delete_thread_1('t', $1, 1)`, [threadDigest("t")]);
  await client.query("commit");
  await client.end();
  expect(await ours).toEqual(["THREAD_DELETED"]);
  expect(await rows.codes(backend, [[rows.blob("after", "x", { era: 1 })]])).toEqual(["accepted"]);
  expect([...(await backend.blobs("t", ["before", "after"])).keys()]).toEqual(["after"]);
});

test("functions of the application do not stand in for those of Postgres", async () => {
  const schema = await newSchema();
  const evil = await newSchema();
  await query(`create schema ${quoted(evil)}`);
  await query(`create function ${quoted(evil)}.jsonb_array_length(jsonb) returns integer language sql as 'select 0'`);
  await query(
    `create function ${quoted(evil)}.hashtextextended(text, integer) returns bigint language sql as 'select 1/0::bigint'`,
  );
  const pool = new pg.Pool({
    connectionString: url,
    options: `-c search_path=${quoted(evil).replaceAll(" ", "\\ ")},pg_catalog`,
  });
  const backend = await postgresBackend(pool, { schema });
  onTestFinished(async () => {
    await backend.close();
    await pool.end();
  });
  await rows.accept(backend, rows.blob("h", "x"), rows.items("l", 0, [1]));
  expect(await rows.codes(backend, [[rows.items("l", 0, [2])]])).toEqual(["LIST_CONFLICT"]);
});

test("a server that stops just after close() does not end the process", async () => {
  const ended = vi.spyOn(pg.Pool.prototype, "end");
  onTestFinished(() => ended.mockRestore());
  const backend = await postgresBackend(url, { schema: await newSchema() });
  await backend.close();
  const pool = ended.mock.contexts[0] as pg.Pool;
  // As pg does for a connection that is being ended.
  expect(() => pool.emit("error", new Error("terminating connection"), {} as pg.PoolClient)).not.toThrow();
});

test("a task's regular call is judged by its special writes too, stored or in the same group", async () => {
  const { backend } = await fresh();
  const memory = memoryBackend();
  const special = (task: string) => rows.writes([[-1, "__error__", "x"]], { task, slot: -1 });
  const regular = (task: string) =>
    rows.writes(
      [
        [-1, "__error__", "y"],
        [0, "c", 1],
      ],
      { task },
    );
  const odd = (task: string) => rows.writes([[0, "c", 1]], { task, slot: -3 });
  const other = (task: string) => rows.writes([[0, "c", 2]], { task, run: "run 2" });
  const found: unknown[] = [];
  for (const one of [backend, memory]) {
    const codes: string[] = [];
    for (const group of [
      [[special("a")]],
      [[regular("a")]],
      [[odd("b")]],
      [[other("b")]],
      [[special("c")], [regular("c")]],
      [[odd("d"), other("d")]],
      [[rows.checkpoint("1")]],
    ]) {
      codes.push(...(await rows.codes(one, group)));
    }
    const { writes } = await one.load("t", "", "1");
    found.push({ codes, writes: writes.map(({ task, slot, body }) => `${task} ${slot} ${body}`).sort() });
  }
  expect(found[0]).toEqual(found[1]);
  expect(found[1]).toMatchObject({ codes: expect.arrayContaining(["WRITE_CONFLICT"]) });
});

test("an application that parses JSON and large integers in its own way gets the same waits and lists", async () => {
  const own = (oid: number) =>
    oid === pg.types.builtins.JSONB ? String : oid === pg.types.builtins.INT8 ? BigInt : undefined;
  const getTypeParser = ((oid: number, format?: "text") => own(oid) ?? pg.types.getTypeParser(oid, format)) as never;
  const { backend } = await fresh({ types: { getTypeParser } });
  const wait = rows.waitRow("w", { due: 5 });
  await rows.accept(backend, rows.wait(wait, null), rows.checkpoint("1"), rows.writes([[0, "c", 1]]));
  expect(await rows.codes(backend, [[rows.wait({ ...wait, rev: wait.rev + 1 }, wait.rev)], refused])).toEqual([
    "accepted",
    "HEAD_MOVED",
  ]);
  expect(await backend.waits({ thread: "t" })).toEqual([{ ...wait, rev: wait.rev + 1 }]);
  expect((await rows.collect(backend.ancestors("t", "", "1"))).map(({ writes }) => writes.length)).toEqual([1]);
});
