/** Columns of runs. */

import { RUN_MOVES, type RunRow, type RunStatus } from "holdfast";
import { packId, unpackText } from "./text.ts";

export const STATUSES = Object.keys(RUN_MOVES) as RunStatus[];

/** Those that may be claimed, and those that have not ended, as the partial indexes name them. */
export const CLAIMABLE = "'queued', 'retrying'";
export const UNENDED = "'queued', 'running', 'waiting', 'retrying', 'parked'";

/** Which statuses a run may have before it has this one. */
export function statusesBefore(status: RunStatus): RunStatus[] {
  return STATUSES.filter((before) => RUN_MOVES[before].includes(status));
}

/**
 * A run's columns but for id, thread and body, as one JSON array: in the order of {@link runFields}. Read as text, because an
 * application may have told pg to parse JSON in its own way.
 */
export const RUN_COLUMNS = /* sql */ `jsonb_build_array(r.graph, r.status, r.rev, r.epoch, r.worker, r.due, r.priority, r.key,
  r.owner, r.created_at)`;

type Fields = readonly (string | number | null)[];

/** What {@link RUN_COLUMNS} gives. */
export function runFields(row: RunRow): Fields {
  return [
    packId(row.graph),
    row.status,
    row.rev,
    row.epoch,
    optional(row.worker),
    row.due ?? null,
    row.priority,
    optional(row.key),
    optional(row.owner),
    row.createdAt,
  ];
}

export function readRun(id: string, thread: string, fields: Fields, body: string): RunRow {
  const [graph, status, rev, epoch, worker, due, priority, key, owner, createdAt] = fields;
  const maybe = (value: unknown) => (value === null ? undefined : unpackText(value as string));
  return {
    id: unpackText(id),
    thread,
    graph: unpackText(graph as string),
    status: status as RunStatus,
    rev: rev as number,
    epoch: epoch as number,
    worker: maybe(worker),
    due: (due as number | null) ?? undefined,
    priority: priority as number,
    key: maybe(key),
    owner: maybe(owner),
    createdAt: createdAt as number,
    body: unpackText(body),
  };
}

function optional(text: string | undefined): string | null {
  return text === undefined ? null : packId(text);
}
