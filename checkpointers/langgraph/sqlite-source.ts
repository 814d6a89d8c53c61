/** A database of `@langchain/langgraph-checkpoint-sqlite`, read in one transaction and never written to. */

import { resolve } from "node:path";
import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { type AdoptSource, HoldfastError, type SourceCheckpoint, type SourcePlace } from "holdfast";
import { openSqlite, type SqliteDatabase } from "../sqlite-driver.ts";
import { type OfficialReader, sqliteSaver } from "./official-savers.ts";

interface WriteRow {
  readonly task: string;
  readonly channel: string;
  readonly type: string | null;
  readonly value: Buffer;
}

/** @throws {HoldfastError} CANNOT_OPEN, FOREIGN_DATABASE, DRIVER_MISSING */
export async function langgraphSqlite(file: string): Promise<AdoptSource> {
  const path = resolve(file);
  const { name, open } = await sqliteSaver();
  const db = openReadonly(path);
  try {
    // The first read decides on the state that every later one sees, also while the application goes on writing.
    db.exec("begin");
    requireTables(db, path);
    return new SqliteSource(`langgraph-sqlite:${file}`, name, db, open(readingOnly(db)));
  } catch (error) {
    db.close();
    throw error;
  }
}

class SqliteSource implements AdoptSource {
  readonly name: string;
  readonly saver: string;
  readonly sharesValues = false;
  readonly #db: SqliteDatabase;
  readonly #official: OfficialReader;

  constructor(name: string, saver: string, db: SqliteDatabase, official: OfficialReader) {
    this.name = name;
    this.saver = saver;
    this.#db = db;
    this.#official = official;
  }

  async threads(): Promise<readonly string[]> {
    return this.#db.prepare("select distinct thread_id from checkpoints order by 1").pluck().all() as string[];
  }

  async places(thread: string): Promise<readonly SourcePlace[]> {
    const rows = this.#db
      .prepare(
        `select checkpoint_ns as ns, checkpoint_id as id, parent_checkpoint_id as parent,
           coalesce(length(checkpoint), 0) + coalesce(length(metadata), 0) + coalesce((
             select sum(length(w.value)) from writes w
             where w.thread_id = c.thread_id and w.checkpoint_ns = c.checkpoint_ns and w.checkpoint_id = c.checkpoint_id
           ), 0) as bytes
         from checkpoints c where thread_id = ? order by checkpoint_id desc, checkpoint_ns`,
      )
      .all(thread) as (Omit<SourcePlace, "parent"> & { parent: string | null })[];
    return rows.map((row) => ({ ...row, parent: row.parent || undefined }));
  }

  async read(thread: string, { ns, id }: SourcePlace): Promise<SourceCheckpoint> {
    const config = { configurable: { thread_id: thread, checkpoint_ns: ns, checkpoint_id: id } };
    const tuple = (await this.#official.getTuple(config)) as CheckpointTuple;
    return this.#withBytes(thread, ns, id, tuple);
  }

  async orphanWrites(): Promise<number> {
    const sql = `select count(*) from writes w where not exists (
      select 1 from checkpoints c
      where c.thread_id = w.thread_id and c.checkpoint_ns = w.checkpoint_ns and c.checkpoint_id = w.checkpoint_id)`;
    return this.#db.prepare(sql).pluck().get() as number;
  }

  async close(): Promise<void> {
    this.#db.close();
  }

  /** The official saver reads every write as text (`CAST(value AS TEXT)`), which is not what was stored where it is bytes. */
  #withBytes(thread: string, ns: string, id: string, tuple: CheckpointTuple): SourceCheckpoint {
    const rows = this.#db
      .prepare(
        `select task_id as task, channel, type, case when type = 'bytes' then value end as value
         from writes where thread_id = ? and checkpoint_ns = ? and checkpoint_id = ? order by task_id, idx`,
      )
      .all(thread, ns, id) as WriteRow[];
    const corrected: string[] = [];
    const pendingWrites = (tuple.pendingWrites ?? []).map((write, at): typeof write => {
      const row = rows[at];
      if (row?.type !== "bytes" || row.task !== write[0] || row.channel !== write[1]) return write;
      const value = new Uint8Array(row.value);
      if (Buffer.compare(value, write[2] as Uint8Array) === 0) return write;
      corrected.push(
        `checkpoint ${id}: ${this.saver} gives the bytes that task ${row.task} wrote to ${JSON.stringify(row.channel)} as text, ` +
          "which is not what was stored; they are taken from the table",
      );
      return [write[0], write[1], value];
    });
    return { tuple: { ...tuple, pendingWrites }, corrected };
  }
}

/** What the saver gets: its `setup` would create tables, and switch the journal of a file that is not ours. */
function readingOnly(db: SqliteDatabase): unknown {
  return { pragma: () => undefined, exec: () => undefined, prepare: (sql: string) => db.prepare(sql) };
}

function openReadonly(path: string): SqliteDatabase {
  try {
    return openSqlite(path, { readonly: true, fileMustExist: true });
  } catch (error) {
    throw cannotRead(path, error);
  }
}

function requireTables(db: SqliteDatabase, path: string): void {
  let names: string[];
  try {
    names = db.prepare("select name from sqlite_schema where type = 'table'").pluck().all() as string[];
  } catch (error) {
    throw cannotRead(path, error);
  }
  if (names.includes("checkpoints") && names.includes("writes")) return;
  throw new HoldfastError(
    "FOREIGN_DATABASE",
    `${path} is no database of LangGraph's SqliteSaver: it has no tables checkpoints and writes` +
      `${names.some((name) => name.startsWith("holdfast_")) ? ", but those of Holdfast: there is nothing to adopt" : ""}.`,
    { details: { path, tables: names } },
  );
}

function cannotRead(path: string, cause: unknown): HoldfastError {
  if (cause instanceof HoldfastError) return cause;
  const message = cause instanceof Error ? cause.message : String(cause);
  return new HoldfastError(
    "CANNOT_OPEN",
    `${path} cannot be read: ${message}. Name a file that LangGraph's SqliteSaver has made.`,
    { cause, details: { path } },
  );
}
