/**
 * Makes a schema ready: looks, and migrates under a lock where it is behind. A role that may only read and write rows can
 * open a schema that is up to date.
 */

import { HoldfastError } from "holdfast";
import type { Connections } from "./connections.ts";
import type { PgClient } from "./driver.ts";
import { BEGIN, isConnectionLost, sqlState, storageError } from "./failure.ts";
import { channelOf } from "./listener.ts";
import { FORMAT, migrations } from "./schema.ts";
import { quote } from "./text.ts";

/** Of the advisory lock that openers of an old or empty schema wait for; one for all schemas. */
const MIGRATION_LOCK = 4841563;

interface Format {
  /** The last migration applied; 0 where there is none. */
  readonly format: number;
  /** The last breaking one among them: code that does not know it must not touch the tables. */
  readonly needs: number;
}

/** @throws {HoldfastError} UNSUPPORTED_FORMAT for tables of a newer release, CANNOT_OPEN, STORAGE_FAILED */
export async function prepareSchema(connections: Connections, schema: string): Promise<void> {
  try {
    // A server that is starting is waited for; a wrong address is told at once.
    const found = await connections.retrying(() => connections.using((client) => readFormat(client, schema)), {
      isLost: (error) => sqlState(error) !== undefined && isConnectionLost(error),
    });
    checkFormat(connections.name, schema, found);
    if (found.format >= FORMAT) return;
    await connections.retrying(() => connections.using((client) => migrate(client, connections.name, schema)));
  } catch (error) {
    const state = sqlState((error as { cause?: unknown }).cause ?? error);
    if (state !== "42501" && state !== "3F000") throw error;
    throw new HoldfastError(
      "CANNOT_OPEN",
      `${connections.name}: the role may not make Holdfast's tables in schema ${JSON.stringify(schema)} ` +
        `(${(error as Error).message}). Open it once as a role that may create there, or grant it: see docs/postgres.md.`,
      { cause: error, details: { schema, sqlState: state } },
    );
  }
}

async function readFormat(client: PgClient, schema: string): Promise<Format> {
  const { rows: found } = await client.query(
    "select 1 from pg_tables where schemaname = $1 and tablename = 'holdfast_meta'",
    [schema],
  );
  if (found.length === 0) return { format: 0, needs: 0 };
  const { rows } = await client.query<{ key: string; value: number }>(
    `select key, value from ${quote(schema)}.holdfast_meta`,
  );
  const meta = new Map(rows.map(({ key, value }) => [key, value]));
  const number = (key: string): number => {
    const value = meta.get(key);
    if (value !== undefined) return value;
    throw new HoldfastError(
      "CORRUPT_DATA",
      `holdfast_meta in schema ${JSON.stringify(schema)} has no ${key}: restore a backup.`,
    );
  };
  return { format: number("format"), needs: number("needs") };
}

function checkFormat(name: string, schema: string, { format, needs }: Format): void {
  if (needs <= FORMAT) return;
  throw new HoldfastError(
    "UNSUPPORTED_FORMAT",
    `${name}, schema ${JSON.stringify(schema)}, was written by a newer release (format ${format}, which needs ${needs}; this ` +
      `release knows ${FORMAT}). Use that release or a newer one. Nothing was changed.`,
    { details: { schema, format, needs, known: FORMAT } },
  );
}

async function migrate(client: PgClient, name: string, schema: string): Promise<void> {
  const s = quote(schema);
  await client.query(BEGIN);
  try {
    // The lock dies with the transaction, so a pooler may stand in between. Nothing was looked at before it was taken.
    await client.query("select pg_advisory_xact_lock($1)", [MIGRATION_LOCK]);
    const { rows } = await client.query("select 1 from pg_namespace where nspname = $1", [schema]);
    if (rows.length === 0) await client.query(`create schema ${s}`);
    const found = await readFormat(client, schema);
    checkFormat(name, schema, found);
    if (found.format === 0) {
      await client.query(`create table ${s}.holdfast_meta (key text primary key, value integer not null)`);
    }
    let { needs } = found;
    for (const migration of migrations) {
      if (migration.number <= found.format) continue;
      await client.query(inSchema(migration.sql, schema));
      if (migration.breaking) needs = migration.number;
    }
    await client.query(
      `insert into ${s}.holdfast_meta (key, value) values ('format', $1), ('needs', $2)
        on conflict (key) do update set value = excluded.value`,
      [Math.max(FORMAT, found.format), needs],
    );
    await client.query("commit");
  } catch (error) {
    await client.query("rollback").catch(() => {});
    throw error;
  }
}

/** A migration for this schema. A name may hold anything, also what ends a quoted body. */
function inSchema(sql: string, schema: string): string {
  let tag = "$holdfast$";
  for (let n = 1; schema.includes(tag); n++) tag = `$holdfast${n}$`;
  return sql
    .replaceAll("$$", () => tag)
    .replaceAll("@channel", () => channelOf(schema))
    .replaceAll("@.", () => `${quote(schema)}.`);
}

/** An error of opening, in the library's words. */
export function openError(name: string, cause: unknown): HoldfastError {
  const error = storageError(name, cause);
  if (error.code !== "STORAGE_FAILED") return error;
  return new HoldfastError("CANNOT_OPEN", `Cannot open ${error.message}`, { cause, details: error.details ?? {} });
}
