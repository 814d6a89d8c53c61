/** Runs in SQLite: which index finds them, older files, and the clock. */

import { join } from "node:path";
import Database from "better-sqlite3";
import { type Backend, RUN_MOVES } from "holdfast";
import { expect, onTestFinished, test, vi } from "vitest";
import { sqliteBackend } from "../../checkpointers/sqlite/backend.ts";
import { aheadSql } from "../../checkpointers/sqlite/run-commit.ts";
import { runsSql } from "../../checkpointers/sqlite/run-reads.ts";
import { APPLICATION_ID, migrations } from "../../checkpointers/sqlite/schema.ts";
import * as rows from "../../src/testing/backend-rows.ts";
import { scratchDirectory } from "./scratch.ts";
import { planOf } from "./sqlite-plans.ts";

const { accept, run, runRow } = rows;

async function open(file: string): Promise<Backend> {
  const backend = await sqliteBackend(file, { synchronous: "NORMAL" });
  onTestFinished(() => backend.close());
  return backend;
}

const fresh = async () => open(join(await scratchDirectory(), "x.db"));

test("a page of runs comes in order from an index: nothing is sorted, and nothing is read that comes before the page", () => {
  for (const [sql, index] of [
    [runsSql.ofAll, "holdfast_runs_status (status=? AND (created_at,id)>(?,?))"],
    [runsSql.ofThread, "holdfast_runs_thread (thread_no=? AND status=? AND (created_at,id)>(?,?))"],
  ] as const) {
    const steps = planOf(sql);
    const expected = Object.keys(RUN_MOVES).map(() => `SEARCH r USING INDEX ${index}`);
    expect(steps.filter((step) => step.startsWith("SEARCH r"))).toEqual(expected);
    expect(steps.filter((step) => /SCAN|TEMP B-TREE/.test(step))).toEqual([]);
  }
});

test("a look at one run takes one step in an index", () => {
  const steps = (sql: string) => planOf(sql).filter((step) => !/SCALAR SUBQUERY|SEARCH t /.test(step));
  expect(steps(runsSql.byId)).toEqual(["SEARCH r USING INDEX sqlite_autoindex_holdfast_runs_1 (id=?)"]);
  expect(steps(runsSql.byKey)).toEqual(["SEARCH r USING INDEX holdfast_runs_key (key=?)"]);
});

test("a claim takes two steps to see what is ahead of the run, however many are", () => {
  const steps = (sql: string) => planOf(sql).filter((step) => !/SCALAR SUBQUERY|SEARCH t /.test(step));
  expect(steps(aheadSql.running)).toEqual(["SEARCH r USING INDEX holdfast_runs_running (thread_no=?)"]);
  expect(steps(aheadSql.before)).toEqual([
    "SEARCH r USING INDEX holdfast_runs_unended (thread_no=? AND (created_at,id)<(?,?))",
  ]);
});

test("a poll reads in the order of its answer what is due, with two steps for each to see what is ahead, and no more", () => {
  const steps = (sql: string) => planOf(sql).filter((step) => !/SCALAR SUBQUERY|SEARCH t /.test(step));
  expect(steps(runsSql.due)).toEqual([
    "SEARCH r USING INDEX holdfast_runs_due (graph=? AND priority=? AND due>? AND due<?)",
    "SEARCH o USING INDEX holdfast_runs_unended (thread_no=? AND created_at<?)",
    "SEARCH o USING COVERING INDEX holdfast_runs_running (thread_no=?)",
  ]);
  for (const [sql, how] of [
    [runsSql.nextDue, "(graph=? AND priority=? AND due>?)"],
    [runsSql.nextPriority, "(graph=? AND priority<?)"],
    [runsSql.nextGraph, "(graph>?)"],
  ] as const) {
    expect(steps(sql)).toEqual([`SEARCH r USING INDEX holdfast_runs_due ${how}`]);
  }
});

test("a file of format 2 is brought up to date with all that it holds, and code that knows format 2 only refuses it then", async () => {
  const file = join(await scratchDirectory(), "x.db");
  const db = new Database(file);
  for (const { sql } of migrations.slice(0, 2)) db.exec(sql);
  db.exec(`
    insert into holdfast_meta values ('format', 2), ('needs', 2);
    insert into holdfast_threads values (1, 't', 2);
    insert into holdfast_namespaces values (1, 1, '', '5');
    insert into holdfast_history values (1, 1, '5', 0, 0, null, 'loop', null, null, 'json/1 {}');
    insert into holdfast_decisions values (1, 1, 1, 'w', 'hash 1', 'json/1 {}');
    pragma application_id = ${APPLICATION_ID};
  `);
  db.close();
  await expect(sqliteBackend(file, { readonly: true })).rejects.toMatchObject({ code: "UNSUPPORTED_FORMAT" });
  const backend = await open(file);
  expect(await backend.load("t", "", undefined)).toMatchObject({ era: 2, head: "5" });
  expect(await rows.decisionsOf(backend, "t")).toEqual(["1"]);
  await accept(backend, run(runRow("r"), null, 2));
  expect(await backend.runs({})).toEqual([runRow("r")]);
  const reader = new Database(file, { readonly: true });
  onTestFinished(() => void reader.close());
  expect(reader.prepare("select key, value from holdfast_meta order by key").raw().all()).toEqual([
    ["format", migrations.length],
    ["needs", 3],
  ]);
});

test("the clock is SQLite's: one that this process has set wrong does no harm", async () => {
  const backend = await fresh();
  const before = Date.now();
  vi.useFakeTimers({ now: 5, toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  const now = await backend.now();
  expect(Date.now()).toBe(5);
  vi.useRealTimers();
  expect(Number.isInteger(now)).toBe(true);
  // Both ask the operating system, and SQLite cuts off what is less than a millisecond.
  expect(now).toBeGreaterThanOrEqual(before - 1);
  expect(now).toBeLessThanOrEqual(Date.now() + 1);
});
