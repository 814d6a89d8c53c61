/** Columns of waits and decisions. */

import type { DecisionRow, WaitKind, WaitRow, WaitStatus } from "holdfast";
import { packId, unpackText } from "./text.ts";

/**
 * A wait's columns but for id, thread and body, as one JSON array: in the order of {@link waitFields}. Read as text, because an
 * application may have told pg to parse JSON in its own way.
 */
export const WAIT_COLUMNS = /* sql */ `jsonb_build_array(w.ns, w.checkpoint, w.task, w.kind, w.name, w.digest, w.status,
  w.opened_at, w.due, w.graph, w.assignee, w.owner, w.decision, w.holder, w.rev)`;

type Fields = readonly (string | number | null)[];

/** What {@link WAIT_COLUMNS} gives. */
export function waitFields(row: WaitRow): Fields {
  return [
    packId(row.ns),
    packId(row.checkpoint),
    packId(row.task),
    row.kind,
    packId(row.name),
    packId(row.digest),
    row.status,
    row.openedAt,
    row.due ?? null,
    optional(row.graph),
    optional(row.assignee),
    optional(row.owner),
    row.decision ?? null,
    optional(row.holder),
    row.rev,
  ];
}

export function readWait(id: string, thread: string, fields: Fields, body: string): WaitRow {
  const [
    ns,
    checkpoint,
    task,
    kind,
    name,
    digest,
    status,
    openedAt,
    due,
    graph,
    assignee,
    owner,
    decision,
    holder,
    rev,
  ] = fields;
  const text = (value: unknown) => unpackText(value as string);
  const maybe = (value: unknown) => (value === null ? undefined : text(value));
  return {
    id: unpackText(id),
    thread,
    ns: text(ns),
    checkpoint: text(checkpoint),
    task: text(task),
    kind: kind as WaitKind,
    name: text(name),
    digest: text(digest),
    status: status as WaitStatus,
    openedAt: openedAt as number,
    due: (due as number | null) ?? undefined,
    graph: maybe(graph),
    assignee: maybe(assignee),
    owner: maybe(owner),
    decision: (decision as number | null) ?? undefined,
    holder: maybe(holder),
    rev: rev as number,
    body: unpackText(body),
  };
}

export interface StoredDecision {
  readonly seq: number;
  readonly wait: string;
  readonly hash: string;
  readonly body: string;
}

export function readDecision(thread: string, { seq, wait, hash, body }: StoredDecision): DecisionRow {
  return { thread, seq, wait: unpackText(wait), hash: unpackText(hash), body: unpackText(body) };
}

function optional(text: string | undefined): string | null {
  return text === undefined ? null : packId(text);
}
