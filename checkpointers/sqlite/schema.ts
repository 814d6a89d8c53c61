/**
 * The tables, as numbered migrations. A migration that has been released is never edited: a change is a new entry.
 *
 * Every thread, namespace and list has a small number that its rows carry, so an id is stored once and not in each row.
 * Ids are packed where that loses nothing, see `ids.ts`, hence the `any` columns. Bodies are text as the codec made it.
 * Rows that may be larger than a kilobyte stand in rowid tables: in an index tree they would spill into overflow pages.
 *
 * - `history` holds checkpoints and the writes made on them in one table: they are stored together and read together,
 *   so a superstep touches two pages instead of four. `task` is the number 0 for the checkpoint itself; ids are never
 *   numbers.
 * - `blobs` finds what `data` holds. A hash is random, so the tree that it is looked up in should hold nothing else.
 * - `waits` are listed in order by status (an inbox), by owner and by thread, so these indexes hold the order. An id is a
 *   part of it and therefore not packed: packed ids would sort apart from others. Waits without an owner, and those that
 *   are never due or no longer open, are in no index for that.
 * - `runs` are listed as waits are. What has not ended is found in order by thread, what may be claimed by graph, priority and
 *   moment; that one run at most of a thread is running is a unique index, besides being judged.
 *
 * Measured and rejected, per superstep of one task (CPU, in units of the commit of one row; bytes of the file):
 * checkpoints and writes apart: 4.35 against 3.85, bytes equal; `history` without rowid: CPU equal, bytes 0.91, but 2.0
 * with bodies above 1 KB; pages of 8 KB: CPU 1.12, bytes 0.95; of 2 KB: CPU 0.92, bytes equal, one level more to read.
 * Per blob of 500 bytes: one table with a unique index 620 bytes, an index of the hash's first 6 bytes 607 and 1.3 times
 * the CPU; two tables 544 at 1.1 times. Many hashes in one statement: no faster than one statement each.
 * Of the 866 bytes of a wait with a body of 500, each of its ordered indexes takes 60, the one of what is due 7. With
 * 10,000 waits open, a page of 50 takes a seventieth of what reading and sorting the open ones takes.
 */

import type { Database } from "better-sqlite3";
import { HoldfastError } from "holdfast";

export interface Migration {
  readonly number: number;
  /** Whether code that does not know this migration must refuse the file. */
  readonly breaking: boolean;
  readonly sql: string;
}

/** Stands in the header of every file that is ours: "HOLD". */
export const APPLICATION_ID = 0x484f4c44;

export const migrations: readonly Migration[] = [
  {
    number: 1,
    breaking: true,
    sql: /* sql */ `
      create table holdfast_meta (
        key text primary key,
        value any not null
      ) strict, without rowid;

      -- A live thread, or (id = digest of the deleted id) what a deletion leaves. Numbers are never used again.
      create table holdfast_threads (
        no integer primary key,
        id any not null unique,
        era integer not null
      ) strict;

      create table holdfast_namespaces (
        no integer primary key,
        thread_no integer not null,
        ns text not null,
        head any,
        unique (thread_no, ns)
      ) strict;

      create table holdfast_history (
        no integer primary key,
        ns_no integer not null,
        checkpoint any not null,
        task any not null,
        slot integer not null,
        parent any,
        source text,
        path text,
        run any,
        body any not null,
        unique (ns_no, checkpoint, task, slot)
      ) strict;

      create table holdfast_lists (
        no integer primary key,
        thread_no integer not null,
        list any not null,
        base any,
        base_length integer,
        unique (thread_no, list)
      ) strict;

      create table holdfast_items (
        no integer primary key,
        list_no integer not null,
        start integer not null,
        count integer not null,
        body any not null,
        unique (list_no, start)
      ) strict;

      create table holdfast_blobs (
        thread_no integer not null,
        hash any not null,
        data_no integer not null,
        primary key (thread_no, hash)
      ) strict, without rowid;

      create table holdfast_data (
        no integer primary key,
        form integer not null,
        data any not null
      ) strict;

      -- thread_no = 0: the thread was deleted, the key was given by the user.
      create table holdfast_effects (
        no integer primary key,
        key any not null unique,
        thread_no integer not null,
        ns text not null,
        checkpoint any not null,
        task any not null,
        name text not null,
        digest any not null,
        ordinal integer not null,
        status text not null,
        rev integer not null,
        attempt integer not null,
        owner any not null,
        body any not null
      ) strict;
      create index holdfast_effects_task on holdfast_effects (thread_no, task);
      create index holdfast_effects_digest on holdfast_effects (thread_no, digest);
    `,
  },
  {
    number: 2,
    breaking: true,
    sql: /* sql */ `
      create table holdfast_waits (
        no integer primary key,
        id text not null unique,
        thread_no integer not null,
        ns text not null,
        checkpoint any not null,
        task any not null,
        kind text not null,
        name text not null,
        digest any not null,
        status text not null,
        opened_at real not null,
        due real,
        graph text,
        assignee text,
        owner text,
        decision integer,
        holder any,
        rev integer not null,
        body any not null
      ) strict;
      create index holdfast_waits_thread on holdfast_waits (thread_no, status, opened_at, id);
      create index holdfast_waits_status on holdfast_waits (status, opened_at, id);
      create index holdfast_waits_owner on holdfast_waits (owner, status, opened_at, id) where owner is not null;
      create index holdfast_waits_due on holdfast_waits (due) where status = 'open' and due is not null;

      create table holdfast_decisions (
        no integer primary key,
        thread_no integer not null,
        seq integer not null,
        wait text not null,
        hash any not null,
        body any not null,
        unique (thread_no, seq)
      ) strict;
    `,
  },
  {
    number: 3,
    breaking: true,
    sql: /* sql */ `
      create table holdfast_runs (
        no integer primary key,
        id text not null unique,
        thread_no integer not null,
        key text,
        created_at real not null,
        graph text not null,
        status text not null,
        rev integer not null,
        epoch integer not null,
        worker any,
        due real,
        priority integer not null,
        owner text,
        body any not null
      ) strict;
      create unique index holdfast_runs_key on holdfast_runs (key) where key is not null;
      create unique index holdfast_runs_running on holdfast_runs (thread_no) where status = 'running';
      create index holdfast_runs_unended on holdfast_runs (thread_no, created_at, id)
        where status in ('queued', 'running', 'waiting', 'retrying', 'parked');
      create index holdfast_runs_due on holdfast_runs (graph, priority, due, id)
        where status in ('queued', 'retrying') and due is not null;
      create index holdfast_runs_thread on holdfast_runs (thread_no, status, created_at, id);
      create index holdfast_runs_status on holdfast_runs (status, created_at, id);
    `,
  },
];

/** The format this code writes. */
export const FORMAT = (migrations.at(-1) as Migration).number;

/** What a file says of itself. */
export interface Format {
  /** The last migration applied. */
  readonly format: number;
  /** The last breaking one among them: code that does not know it must not touch the file. */
  readonly needs: number;
}

export function readFormat(db: Database): Format {
  const meta = new Map(db.prepare("select key, value from holdfast_meta").raw().all() as [string, unknown][]);
  const number = (key: string): number => {
    const value = meta.get(key);
    if (typeof value === "number") return value;
    throw new HoldfastError("CORRUPT_DATA", `${db.name} has no ${key} in holdfast_meta: restore a backup.`, {
      details: { path: db.name, key },
    });
  };
  return { format: number("format"), needs: number("needs") };
}

/** Applies the migrations after `from` (0 makes the tables) inside the transaction that is open. */
export function migrate(db: Database, from: number): void {
  let needs = from === 0 ? 0 : readFormat(db).needs;
  for (const migration of migrations) {
    if (migration.number <= from) continue;
    db.exec(migration.sql);
    if (migration.breaking) needs = migration.number;
  }
  db.pragma(`application_id = ${APPLICATION_ID}`);
  const put = db.prepare("insert or replace into holdfast_meta (key, value) values (?, cast(? as integer))");
  put.run("format", FORMAT);
  put.run("needs", needs);
}
