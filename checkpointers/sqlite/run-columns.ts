/** Columns of runs. */

import type { RunFacts, RunRow, RunStatus } from "holdfast";
import { wellFormed } from "../ids.ts";
import { readText, storeText } from "./columns.ts";
import { type Packed, packId, unpackId } from "./ids.ts";

/** The columns of {@link RUN_COLUMNS}, in order. */
export type StoredRun = [
  id: string,
  thread: Packed,
  graph: string,
  status: string,
  rev: number,
  epoch: number,
  worker: Packed | null,
  due: number | null,
  priority: number,
  key: string | null,
  owner: string | null,
  createdAt: number,
  body: string | Buffer,
];

/** Of `holdfast_runs r`. As with waits the id is a part of the order, and therefore not packed. */
export const RUN_COLUMNS = /* sql */ `
  r.id, (select t.id from holdfast_threads t where t.no = r.thread_no), r.graph, r.status, r.rev, r.epoch, r.worker,
  r.due, r.priority, r.key, r.owner, r.created_at, r.body`;

/** The columns of {@link FACT_COLUMNS}, in order. */
export type StoredFacts = [
  id: string,
  thread: Packed,
  key: string | null,
  createdAt: number,
  status: string,
  rev: number,
  epoch: number,
];

/** What a run is judged by, of `holdfast_runs r`. */
export const FACT_COLUMNS = /* sql */ `
  r.id, (select t.id from holdfast_threads t where t.no = r.thread_no), r.key, r.created_at, r.status, r.rev, r.epoch`;

export function readFacts([id, thread, key, createdAt, status, rev, epoch]: StoredFacts): RunFacts {
  return { id, thread: unpackId(thread), key: key ?? undefined, createdAt, status: status as RunStatus, rev, epoch };
}

/** The run's columns after its id, thread number, key and createdAt, which never change. */
export function storeRun(row: RunRow): unknown[] {
  return [
    wellFormed(row.graph),
    row.status,
    row.rev,
    row.epoch,
    row.worker === undefined ? null : packId(row.worker),
    row.due ?? null,
    row.priority,
    row.owner === undefined ? null : wellFormed(row.owner),
    storeText(row.body),
  ];
}

export function readRun(stored: StoredRun): RunRow {
  const [id, thread, graph, status, rev, epoch, worker, due, priority, key, owner, createdAt, body] = stored;
  return {
    id,
    thread: unpackId(thread),
    graph,
    status: status as RunStatus,
    rev,
    epoch,
    worker: worker === null ? undefined : unpackId(worker),
    due: due ?? undefined,
    priority,
    key: key ?? undefined,
    owner: owner ?? undefined,
    createdAt,
    body: readText(body),
  };
}
