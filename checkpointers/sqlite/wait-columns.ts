/** Columns of waits and decisions. */

import type { DecisionRow, WaitKind, WaitRow, WaitStatus } from "holdfast";
import { readText, storeText } from "./columns.ts";
import { wellFormed } from "../ids.ts";
import { type Packed, packDigest, packId, unpackDigest, unpackId } from "./ids.ts";

/** The columns of {@link WAIT_COLUMNS}, in order. */
export type StoredWait = [
  id: string,
  thread: Packed,
  ns: string,
  checkpoint: Packed,
  task: Packed,
  kind: string,
  name: string,
  digest: Packed,
  status: string,
  openedAt: number,
  due: number | null,
  graph: string | null,
  assignee: string | null,
  owner: string | null,
  decision: number | null,
  holder: Packed | null,
  rev: number,
  body: string | Buffer,
];

/** Of `holdfast_waits w`. The id is not packed: it is a part of the order, and of that of the indexes. */
export const WAIT_COLUMNS = /* sql */ `
  w.id, (select t.id from holdfast_threads t where t.no = w.thread_no), w.ns, w.checkpoint, w.task, w.kind, w.name,
  w.digest, w.status, w.opened_at, w.due, w.graph, w.assignee, w.owner, w.decision, w.holder, w.rev, w.body`;

/** The wait's columns after its id and thread number. */
export function storeWait(row: WaitRow): unknown[] {
  return [
    wellFormed(row.ns),
    packId(row.checkpoint),
    packId(row.task),
    row.kind,
    wellFormed(row.name),
    packDigest(row.digest),
    row.status,
    row.openedAt,
    row.due ?? null,
    optional(row.graph, wellFormed),
    optional(row.assignee, wellFormed),
    optional(row.owner, wellFormed),
    row.decision ?? null,
    optional(row.holder, packId),
    row.rev,
    storeText(row.body),
  ];
}

export function readWait(stored: StoredWait): WaitRow {
  const [id, thread, ns, checkpoint, task, kind, name, digest, status, openedAt, ...rest] = stored;
  const [due, graph, assignee, owner, decision, holder, rev, body] = rest;
  return {
    id,
    thread: unpackId(thread),
    ns,
    checkpoint: unpackId(checkpoint),
    task: unpackId(task),
    kind: kind as WaitKind,
    name,
    digest: unpackDigest(digest),
    status: status as WaitStatus,
    openedAt,
    due: due ?? undefined,
    graph: graph ?? undefined,
    assignee: assignee ?? undefined,
    owner: owner ?? undefined,
    decision: decision ?? undefined,
    holder: holder === null ? undefined : unpackId(holder),
    rev,
    body: readText(body),
  };
}

/** The columns of {@link DECISION_COLUMNS}, in order. */
export type StoredDecision = [seq: number, wait: string, hash: Packed, body: string | Buffer];

export const DECISION_COLUMNS = "seq, wait, hash, body";

/** The decision's columns after its thread number. */
export function storeDecision(row: DecisionRow): unknown[] {
  return [row.seq, wellFormed(row.wait), packDigest(row.hash), storeText(row.body)];
}

export function readDecision(thread: string, [seq, wait, hash, body]: StoredDecision): DecisionRow {
  return { thread, seq, wait, hash: unpackDigest(hash), body: readText(body) };
}

function optional<T>(text: string | undefined, pack: (text: string) => T): T | null {
  return text === undefined ? null : pack(text);
}
