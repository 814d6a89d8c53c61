/** Runs in the order of the contract, by key, and those that may be claimed by when they are due. */

import { type DueRunsQuery, isEnded, RUN_MOVES, type RunQuery, type RunRow, type RunStatus } from "holdfast";
import { compareIds } from "../ids.ts";
import { insertInOrder, OrderedRows, removeInOrder } from "./ordered-rows.ts";

const STATUSES = Object.keys(RUN_MOVES) as RunStatus[];
const UNENDED = STATUSES.filter((status) => !isEnded(status));

type Place = NonNullable<RunQuery["after"]>;
type DueRow = RunRow & { readonly due: number };

/** Of one priority, by (due, id). */
interface Lane {
  readonly priority: number;
  readonly rows: DueRow[];
}

export class RunTable extends OrderedRows<RunStatus, Place, RunRow> {
  readonly #byKey = new Map<string, RunRow>();
  /** Queued and retrying ones: a poll looks at no others, and at none that is due later. The highest priority first. */
  #lanes: Lane[] = [];

  constructor() {
    super(STATUSES, (place) => place.createdAt);
  }

  withKey(key: string): RunRow | undefined {
    return this.#byKey.get(key);
  }

  /** Those of a thread that have not ended, in no particular order. */
  *unended(thread: string): Generator<RunRow> {
    for (const status of UNENDED) yield* this.ofThread(thread, status);
  }

  query({ key, ...query }: RunQuery): RunRow[] {
    const matches = matcher(query);
    if (key === undefined) return this.find(query, matches);
    const row = this.#byKey.get(key);
    if (row === undefined || (query.id ?? row.id) !== row.id) return [];
    return this.find({ ...query, id: row.id }, matches);
  }

  due({ dueBy, graphs, limit }: DueRunsQuery): RunRow[] {
    const found: RunRow[] = [];
    for (const { rows } of this.#lanes) {
      for (const row of rows) {
        if (found.length >= limit) return found;
        if (row.due > dueBy) break;
        if ((graphs?.includes(row.graph) ?? true) && this.#isFirst(row)) found.push(row);
      }
    }
    return found;
  }

  nextDue(graphs: readonly string[] | undefined): number | undefined {
    let next: number | undefined;
    for (const { rows } of this.#lanes) {
      const due = rows.find((row) => graphs?.includes(row.graph) ?? true)?.due;
      if (due !== undefined && (next === undefined || due < next)) next = due;
    }
    return next;
  }

  override set(row: RunRow): RunRow | undefined {
    const old = super.set(row);
    if (old !== undefined) this.#forget(old);
    if (row.key !== undefined) this.#byKey.set(row.key, row);
    if (isClaimable(row)) insertInOrder(this.#lane(row.priority), row, byDue);
    return old;
  }

  override deleteThread(thread: string): RunRow[] {
    const rows = super.deleteThread(thread);
    for (const row of rows) this.#forget(row);
    return rows;
  }

  #forget(row: RunRow): void {
    if (row.key !== undefined) this.#byKey.delete(row.key);
    if (!isClaimable(row)) return;
    const rows = this.#lane(row.priority);
    removeInOrder(rows, row, byDue);
    if (rows.length === 0) this.#lanes = this.#lanes.filter((lane) => lane.rows !== rows);
  }

  #lane(priority: number): DueRow[] {
    let at = 0;
    for (; at < this.#lanes.length; at++) {
      const lane = this.#lanes[at] as Lane;
      if (lane.priority === priority) return lane.rows;
      if (lane.priority < priority) break;
    }
    const rows: DueRow[] = [];
    this.#lanes.splice(at, 0, { priority, rows });
    return rows;
  }

  /** Whether it would be accepted as running; it is none yet. Looks at the first of each status. */
  #isFirst(row: RunRow): boolean {
    if (this.ofThread(row.thread, "running").length > 0) return false;
    return UNENDED.every((status) => {
      const first = this.ofThread(row.thread, status)[0];
      return first === undefined || this.compare(row, first) <= 0;
    });
  }
}

function isClaimable(row: RunRow): row is DueRow {
  return row.due !== undefined && (row.status === "queued" || row.status === "retrying");
}

function byDue(a: DueRow, b: DueRow): number {
  return a.due - b.due || compareIds(a.id, b.id);
}

const FIELDS = ["thread", "graph", "owner", "worker"] as const;

function matcher(query: RunQuery): (row: RunRow) => boolean {
  const asked = FIELDS.filter((field) => query[field] !== undefined);
  return (row) => asked.every((field) => row[field] === query[field]);
}
