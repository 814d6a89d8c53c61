/** Waits and decisions in SQLite: which index finds them, older files, and random queries against a plain model. */

import { join } from "node:path";
import Database from "better-sqlite3";
import fc from "fast-check";
import type { Backend, WaitQuery, WaitRow } from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { memoryBackend } from "../../checkpointers/memory/index.ts";
import { sqliteBackend } from "../../checkpointers/sqlite/backend.ts";
import { compareIds } from "../../checkpointers/ids.ts";
import { APPLICATION_ID, migrations } from "../../checkpointers/sqlite/schema.ts";
import { waitsSql } from "../../checkpointers/sqlite/wait-reads.ts";
import * as rows from "../../src/testing/backend-rows.ts";
import { scratchDirectory } from "./scratch.ts";
import { planOf } from "./sqlite-plans.ts";

const { accept, decision, decisionRow, wait, waitRow } = rows;

async function open(file: string): Promise<Backend> {
  const backend = await sqliteBackend(file, { synchronous: "NORMAL" });
  onTestFinished(() => backend.close());
  return backend;
}

const fresh = async () => open(join(await scratchDirectory(), "x.db"));

test("a page of waits comes in order from an index: nothing is sorted, and nothing is read that comes before the page", () => {
  for (const [sql, index] of [
    [waitsSql.ofAll, "holdfast_waits_status (status=? AND (opened_at,id)>(?,?))"],
    [waitsSql.ofOwner, "holdfast_waits_owner (owner=? AND status=? AND (opened_at,id)>(?,?))"],
    [waitsSql.ofThread, "holdfast_waits_thread (thread_no=? AND status=? AND (opened_at,id)>(?,?))"],
  ] as const) {
    const steps = planOf(sql);
    expect(steps.filter((step) => step.startsWith("SEARCH w"))).toEqual(Array(4).fill(`SEARCH w USING INDEX ${index}`));
    expect(steps.filter((step) => /SCAN|TEMP B-TREE/.test(step))).toEqual([]);
  }
});

test("a load and a look at one wait take one step in an index, and what is due is found without what is not", () => {
  const steps = (sql: string) => planOf(sql).filter((step) => !/SCALAR SUBQUERY|SEARCH t /.test(step));
  expect(steps(waitsSql.active)).toEqual(["SEARCH w USING INDEX holdfast_waits_thread (thread_no=? AND status=?)"]);
  expect(steps(waitsSql.byId)).toEqual(["SEARCH w USING INDEX sqlite_autoindex_holdfast_waits_1 (id=?)"]);
  expect(steps(waitsSql.due)).toEqual([
    "SEARCH w USING INDEX holdfast_waits_due (due<?)",
    "USE TEMP B-TREE FOR ORDER BY",
  ]);
});

test("a file of format 1 is brought up to date with all that it holds, and code that knows format 1 only refuses it then", async () => {
  const file = join(await scratchDirectory(), "x.db");
  const db = new Database(file);
  db.exec(migrations[0]?.sql ?? "");
  db.exec(`
    insert into holdfast_meta values ('format', 1), ('needs', 1);
    insert into holdfast_threads values (1, 't', 2), (2, 'u', 0);
    insert into holdfast_namespaces values (1, 1, '', '5');
    insert into holdfast_history values (1, 1, '5', 0, 0, null, 'loop', null, null, 'json/1 {}');
    pragma application_id = ${APPLICATION_ID};
  `);
  db.close();
  await expect(sqliteBackend(file, { readonly: true })).rejects.toMatchObject({ code: "UNSUPPORTED_FORMAT" });
  const backend = await open(file);
  expect(await backend.load("t", "", undefined)).toMatchObject({ era: 2, head: "5", waits: [] });
  await accept(backend, wait(waitRow("w"), null, 2), decision(decisionRow(1), 2));
  expect((await backend.load("t", "", undefined)).waits).toEqual([waitRow("w")]);
  const reader = new Database(file, { readonly: true });
  onTestFinished(() => void reader.close());
  expect(reader.prepare("select key, value from holdfast_meta order by key").raw().all()).toEqual([
    ["format", migrations.length],
    ["needs", migrations.findLast(({ breaking }) => breaking)?.number],
  ]);
});

test("a deletion while a chain is read ends it, and none of the thread's next life is taken for the rest", async () => {
  const backend = await fresh();
  const chain = (length: number, thread: string, era = 0) =>
    Array.from({ length }, (_, at) => decision(decisionRow(at + 1, { thread }), era));
  await accept(backend, ...chain(150, "t"), ...chain(2, "u"));
  const seen: string[] = [];
  for await (const row of backend.decisions({})) {
    if (seen.length === 0) await accept(backend, rows.deleteThread("t"), ...chain(150, "t", 1));
    seen.push(`${row.thread} ${row.seq}`);
  }
  expect([seen.length, seen.slice(99)]).toEqual([102, ["t 100", "u 1", "u 2"]]);
});

test("chains of more threads than are read at once come whole and in order", async () => {
  const backend = await fresh();
  const threads = Array.from({ length: 1203 }, (_, at) => `t${`${at}`.padStart(4, "0")}`);
  const opposite = [...threads].reverse();
  await backend.commit(opposite.map((thread) => [decision(decisionRow(1, { thread })), wait(waitRow(thread), null)]));
  const seen: string[] = [];
  for await (const row of backend.decisions({})) seen.push(row.thread);
  expect(seen).toEqual(threads);
});

const id = fc.oneof(
  fc.uuid(),
  fc.stringMatching(/^[0-9a-f]{32}$/),
  fc.string({ unit: fc.constantFrom("0", "f", "-", "z", "\uffff", "😀"), maxLength: 3 }),
);
const few = fc.constantFrom("a", "b", "");
const maybe = fc.option(few, { nil: undefined });
const moment = fc.integer({ min: -2, max: 4 });
const status = fc.constantFrom("open", "answered", "consumed", "superseded");
const kind = fc.constantFrom("question", "interrupt", "event");

const anyWait = fc
  .record({
    ...{ id, thread: few, task: few, name: few, kind, status, openedAt: moment },
    ...{ graph: maybe, assignee: maybe, owner: maybe, due: fc.option(moment, { nil: undefined }) },
  })
  .map(({ id, ...fields }) => waitRow(id, fields as Partial<WaitRow>));

const anyQuery = fc.record(
  {
    ...{ id, thread: few, task: few, name: few, graph: few, assignee: few, owner: few, dueBy: moment },
    ...{ status: fc.subarray(["open", "answered", "consumed", "superseded"]), kind: fc.array(kind, { maxLength: 2 }) },
    ...{ after: fc.record({ openedAt: moment, id }), limit: fc.nat(20) },
  },
  { requiredKeys: [] },
) as fc.Arbitrary<WaitQuery>;

const inOrder = (a: { openedAt: number; id: string }, b: { openedAt: number; id: string }) =>
  a.openedAt - b.openedAt || compareIds(a.id, b.id);

/** What the contract says in words. */
function expected(all: readonly WaitRow[], query: WaitQuery): WaitRow[] {
  const { status, kind, dueBy, after, limit, ...fields } = query;
  return all
    .filter((row) => Object.entries(fields).every(([name, value]) => row[name as keyof WaitRow] === value))
    .filter((row) => status?.includes(row.status) ?? true)
    .filter((row) => kind?.includes(row.kind) ?? true)
    .filter((row) => dueBy === undefined || (row.due !== undefined && row.due <= dueBy))
    .filter((row) => after === undefined || inOrder(row, after) > 0)
    .sort(inOrder)
    .slice(0, limit);
}

test.each([
  ["SQLite", fresh],
  ["memory", async () => memoryBackend()],
] as const)(
  "%s finds by any query exactly the waits that match, in order, also after they changed",
  async (_, make) => {
    const history = fc.array(anyWait, { minLength: 40, maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(history, fc.array(anyQuery, { minLength: 30, maxLength: 30 }), async (history, queries) => {
        const backend = await make();
        const model = new Map<string, WaitRow>();
        for (const row of history) {
          const old = model.get(row.id);
          const next = old === undefined ? row : { ...row, thread: old.thread, rev: old.rev + 1 };
          await accept(backend, wait(next, old?.rev ?? null));
          model.set(next.id, next);
        }
        const all = [...model.values()];
        for (const query of queries) expect(await backend.waits(query)).toEqual(expected(all, query));
        for (const thread of ["a", "b", ""]) {
          const { waits } = await backend.load(thread, "", undefined);
          const active = expected(all, { thread, status: ["open", "answered"] });
          expect([...waits].sort(inOrder)).toEqual(active);
        }
        await backend.close();
      }),
      { numRuns: 40 },
    );
  },
);
