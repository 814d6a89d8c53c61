/**
 * The tables and functions, as numbered migrations. A migration that has been released is never edited: a change is a
 * new entry, and a changed function has a new name, so that older processes go on beside newer ones.
 *
 * Threads and namespaces have small numbers that their rows carry. Ids are text in the collation "C", so that their order
 * is the contract's and psql shows them. What a commit stores stands in one function: one round trip, one transaction,
 * and plans that each connection keeps, without prepared statements that a pooler could lose.
 */

import { COMMIT_FUNCTION } from "./commit-function.ts";
import { DUE_FUNCTIONS } from "./due-functions.ts";
import { LOAD_FUNCTION } from "./load-function.ts";
import { CLAIMABLE, UNENDED } from "./run-columns.ts";

export interface Migration {
  readonly number: number;
  /** Whether code that does not know this migration must refuse the database. */
  readonly breaking: boolean;
  /** `@` stands for the quoted schema, `@channel` for what is listened to, see {@link channelOf}. */
  readonly sql: string;
}

const TABLES = /* sql */ `
  create table @.holdfast_threads (
    no bigint generated always as identity primary key,
    id text collate "C" not null unique,
    era integer not null
  );

  -- What a deletion leaves: no id, only its digest.
  create table @.holdfast_tombstones (
    digest text collate "C" primary key,
    era integer not null
  );

  create table @.holdfast_namespaces (
    no bigint generated always as identity primary key,
    thread_no bigint not null,
    ns text collate "C" not null,
    head text collate "C",
    unique (thread_no, ns)
  ) with (fillfactor = 70);

  create table @.holdfast_checkpoints (
    ns_no bigint not null,
    id text collate "C" not null,
    parent text collate "C",
    source text not null,
    body text not null,
    primary key (ns_no, id)
  );

  create table @.holdfast_writes (
    ns_no bigint not null,
    checkpoint text collate "C" not null,
    task text collate "C" not null,
    slot smallint not null,
    no bigint generated always as identity,
    path text collate "C" not null,
    run text collate "C",
    body text not null,
    primary key (ns_no, checkpoint, task, slot)
  );

  create table @.holdfast_lists (
    thread_no bigint not null,
    list text collate "C" not null,
    base text collate "C" not null,
    base_length integer not null,
    primary key (thread_no, list)
  );

  create table @.holdfast_items (
    thread_no bigint not null,
    list text collate "C" not null,
    start integer not null,
    count integer not null,
    body text not null,
    primary key (thread_no, list, start)
  );

  -- Either text or bytes.
  create table @.holdfast_blobs (
    thread_no bigint not null,
    hash text collate "C" not null,
    text text,
    bytes bytea,
    primary key (thread_no, hash)
  );

  -- thread_no is null: the thread was deleted, the key was given by the user. Or the thread is "".
  create table @.holdfast_effects (
    key text collate "C" primary key,
    thread_no bigint,
    ns text collate "C" not null,
    checkpoint text collate "C" not null,
    task text collate "C" not null,
    name text collate "C" not null,
    digest text collate "C" not null,
    ordinal integer not null,
    status text not null,
    rev integer not null,
    attempt integer not null,
    owner text collate "C" not null,
    body text not null
  );
  create index holdfast_effects_task on @.holdfast_effects (thread_no, task);
  create index holdfast_effects_digest on @.holdfast_effects (thread_no, digest);

  create table @.holdfast_waits (
    id text collate "C" primary key,
    thread_no bigint not null,
    ns text collate "C" not null,
    checkpoint text collate "C" not null,
    task text collate "C" not null,
    kind text not null,
    name text collate "C" not null,
    digest text collate "C" not null,
    status text not null,
    opened_at double precision not null,
    due double precision,
    graph text collate "C",
    assignee text collate "C",
    owner text collate "C",
    decision integer,
    holder text collate "C",
    rev integer not null,
    body text not null
  );
  create index holdfast_waits_thread on @.holdfast_waits (thread_no, status, opened_at, id);
  create index holdfast_waits_status on @.holdfast_waits (status, opened_at, id);
  create index holdfast_waits_owner on @.holdfast_waits (owner, status, opened_at, id) where owner is not null;
  create index holdfast_waits_due on @.holdfast_waits (due) where status = 'open' and due is not null;

  create table @.holdfast_decisions (
    thread_no bigint not null,
    seq integer not null,
    wait text collate "C" not null,
    hash text collate "C" not null,
    body text not null,
    primary key (thread_no, seq)
  );

  -- is_next: the first one of its thread that has not ended, and no other one of the thread is running. So a run can be
  -- claimed if it is next and due, and those that are kept back by another one are in no index that a worker looks at.
  create table @.holdfast_runs (
    id text collate "C" primary key,
    thread_no bigint not null,
    graph text collate "C" not null,
    status text not null,
    rev integer not null,
    epoch double precision not null,
    worker text collate "C",
    due double precision,
    priority double precision not null,
    key text collate "C",
    owner text collate "C",
    created_at double precision not null,
    is_next boolean not null,
    body text not null
  );
  -- Each index for one question. Those over all threads say so (which holds for every row): where statistics make the two seem
  -- alike, Postgres would otherwise read all runs of a status to find those of a thread.
  create unique index holdfast_runs_key on @.holdfast_runs (key) where key is not null;
  create index holdfast_runs_thread on @.holdfast_runs (thread_no, status, created_at, id);
  create index holdfast_runs_status on @.holdfast_runs (status, created_at, id) where thread_no > 0;
  create index holdfast_runs_owner on @.holdfast_runs (owner, status, created_at, id)
    where owner is not null and thread_no > 0;
  create index holdfast_runs_unended on @.holdfast_runs (thread_no, created_at, id) where status in (${UNENDED});
  create index holdfast_runs_next on @.holdfast_runs (thread_no) where is_next;
  create index holdfast_runs_claim on @.holdfast_runs (graph, priority, due, id)
    where is_next and status in (${CLAIMABLE});
  create index holdfast_runs_due on @.holdfast_runs (graph, due) where status in (${CLAIMABLE}) and due is not null;

  -- Who has the database open, and until when that is certain by the server's clock; group_no is the owner's last commit.
  create table @.holdfast_owners (
    id text collate "C" primary key,
    until timestamptz not null,
    group_no bigint not null
  ) with (fillfactor = 10);

  create function @.holdfast_delete_thread_1(thread text, thread_digest text, next_era integer) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
  declare
    thread_number bigint;
  begin
    delete from @.holdfast_threads t where t.id = thread returning t.no into thread_number;
    insert into @.holdfast_tombstones (digest, era) values (thread_digest, next_era)
      on conflict (digest) do update set era = excluded.era;
    -- Effects of the thread "" have no thread_no, as those with a given key whose thread was deleted.
    if thread = '' then
      delete from @.holdfast_effects e where e.thread_no is null and e.ordinal <> -1;
    end if;
    if thread_number is null then
      return;
    end if;
    delete from @.holdfast_checkpoints
      where ns_no in (select n.no from @.holdfast_namespaces n where n.thread_no = thread_number);
    delete from @.holdfast_writes
      where ns_no in (select n.no from @.holdfast_namespaces n where n.thread_no = thread_number);
    delete from @.holdfast_namespaces n where n.thread_no = thread_number;
    delete from @.holdfast_lists l where l.thread_no = thread_number;
    delete from @.holdfast_items i where i.thread_no = thread_number;
    delete from @.holdfast_blobs b where b.thread_no = thread_number;
    delete from @.holdfast_effects e where e.thread_no = thread_number and e.ordinal <> -1;
    update @.holdfast_effects e set thread_no = null where e.thread_no = thread_number;
    delete from @.holdfast_waits w where w.thread_no = thread_number;
    delete from @.holdfast_decisions d where d.thread_no = thread_number;
    delete from @.holdfast_runs r where r.thread_no = thread_number;
  end $$;
`;

export const migrations: readonly Migration[] = [
  { number: 1, breaking: true, sql: `${TABLES}${COMMIT_FUNCTION}${LOAD_FUNCTION}${DUE_FUNCTIONS}` },
];

/** The format this code writes. */
export const FORMAT = (migrations.at(-1) as Migration).number;
