CREATE TABLE holdfast_blobs (
  thread_no integer not null,
  hash any not null,
  data_no integer not null,
  primary key (thread_no, hash)
) strict, without rowid;
CREATE TABLE holdfast_data (
  no integer primary key,
  form integer not null,
  data any not null
) strict;
CREATE TABLE holdfast_decisions (
  no integer primary key,
  thread_no integer not null,
  seq integer not null,
  wait text not null,
  hash any not null,
  body any not null,
  unique (thread_no, seq)
) strict;
CREATE TABLE holdfast_effects (
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
CREATE INDEX holdfast_effects_digest on holdfast_effects (thread_no, digest);
CREATE INDEX holdfast_effects_task on holdfast_effects (thread_no, task);
CREATE TABLE holdfast_history (
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
CREATE TABLE holdfast_items (
  no integer primary key,
  list_no integer not null,
  start integer not null,
  count integer not null,
  body any not null,
  unique (list_no, start)
) strict;
CREATE TABLE holdfast_lists (
  no integer primary key,
  thread_no integer not null,
  list any not null,
  base any,
  base_length integer,
  unique (thread_no, list)
) strict;
CREATE TABLE holdfast_meta (
  key text primary key,
  value any not null
) strict, without rowid;
CREATE TABLE holdfast_namespaces (
  no integer primary key,
  thread_no integer not null,
  ns text not null,
  head any,
  unique (thread_no, ns)
) strict;
CREATE TABLE holdfast_runs (
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
CREATE INDEX holdfast_runs_due on holdfast_runs (graph, priority, due, id)
  where status in ('queued', 'retrying') and due is not null;
CREATE UNIQUE INDEX holdfast_runs_key on holdfast_runs (key) where key is not null;
CREATE UNIQUE INDEX holdfast_runs_running on holdfast_runs (thread_no) where status = 'running';
CREATE INDEX holdfast_runs_status on holdfast_runs (status, created_at, id);
CREATE INDEX holdfast_runs_thread on holdfast_runs (thread_no, status, created_at, id);
CREATE INDEX holdfast_runs_unended on holdfast_runs (thread_no, created_at, id)
  where status in ('queued', 'running', 'waiting', 'retrying', 'parked');
CREATE TABLE holdfast_threads (
  no integer primary key,
  id any not null unique,
  era integer not null
) strict;
CREATE TABLE holdfast_waits (
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
CREATE INDEX holdfast_waits_due on holdfast_waits (due) where status = 'open' and due is not null;
CREATE INDEX holdfast_waits_owner on holdfast_waits (owner, status, opened_at, id) where owner is not null;
CREATE INDEX holdfast_waits_status on holdfast_waits (status, opened_at, id);
CREATE INDEX holdfast_waits_thread on holdfast_waits (thread_no, status, opened_at, id)
