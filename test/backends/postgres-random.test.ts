/** Random groups of commits on Postgres and in memory: plans and the judging by rows answer and store as the contract's judges do. */

import fc from "fast-check";
import { memoryBackend } from "holdfast/checkpointers/memory";
import pg from "pg";
import { expect, inject, onTestFinished, test } from "vitest";
import { postgresBackend } from "../../checkpointers/postgres/backend.ts";
import { newSchema, quoted } from "../servers/schemas.ts";
import { play, randomDeletion, randomOp, runs } from "./random-commits.ts";
import { runScripts } from "./run-scripts.ts";

const wild = fc.oneof(
  { arbitrary: randomOp(fc.constantFrom(0, 0, 0, 0, 1, 2), { foreign: true }), weight: 9 },
  { arbitrary: randomDeletion, weight: 1 },
);
// Most of the first are judged by rows; of the others about half go the ordinary way of one statement.
const groups = fc.oneof(
  fc.array(fc.array(fc.array(wild, { maxLength: 5 }), { minLength: 1, maxLength: 4 }), { maxLength: 12 }),
  fc.array(
    fc.array(fc.array(randomOp(fc.constant(0), { foreign: true }), { maxLength: 2 }), { minLength: 1, maxLength: 2 }),
    {
      maxLength: 20,
    },
  ),
  runScripts(wild),
);

test("whatever is committed, Postgres answers in the words of the contract and keeps the same rows", async () => {
  const schema = await newSchema();
  const pool = new pg.Pool({ connectionString: inject("postgresUrl") });
  onTestFinished(() => pool.end());
  const postgres = await postgresBackend(pool, { schema });
  const { rows: tables } = await pool.query<{ name: string }>(
    `select tablename as name from pg_tables where schemaname = $1
      and tablename not in ('holdfast_meta', 'holdfast_owners')`,
    [schema],
  );
  const empty = tables.map(({ name }) => `delete from ${quoted(schema)}.${quoted(name)};`).join("");
  await fc.assert(
    fc.asyncProperty(groups, async (script) => {
      await pool.query(empty);
      expect(await play(postgres, script)).toEqual(await play(memoryBackend(), script));
    }),
    runs,
  );
  await postgres.close();
}, 300_000);
