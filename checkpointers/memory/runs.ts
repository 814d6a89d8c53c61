/** Runs in the order of the contract, by key, and those that may be claimed by when they are due. */

import { type DueRunsQuery, isEnded, RUN_MOVES, type RunQuery, type RunRow, type RunStatus } from "holdfast";
import { compareIds } from "../ids.ts";
import { insertInOrder, OrderedRows, removeInOrder } from "./ordered-rows.ts";

const STATUSES = Object.keys(RUN_MOVES) as RunStatus[];
const UNENDED = STATUSES.filter((status) => !isEnded(status));

type Place = NonNullable<RunQuery["after"]>;
type DueRow = RunRow & { readonly due: number };

export class RunTable extends OrderedRows<RunStatus, Place, RunRow> {
  readonly #byKey = new Map<string, RunRow>();
  /** Queued and retrying ones by (due, id): a poll looks at no others, and at none that is due later. */
  readonly #due: DueRow[] = [];

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
    const found: DueRow[] = [];
    for (const row of this.#due) {
      if (row.due > dueBy) break;
      if ((graphs?.includes(row.graph) ?? true) && this.#isFirst(row)) found.push(row);
    }
    return found.sort((a, b) => b.priority - a.priority || byDue(a, b)).slice(0, Math.max(0, limit));
  }

  nextDue(graphs: readonly string[] | undefined): number | undefined {
    return this.#due.find((row) => graphs?.includes(row.graph) ?? true)?.due;
  }

  override set(row: RunRow): RunRow | undefined {
    const old = super.set(row);
    if (old !== undefined) this.#forget(old);
    if (row.key !== undefined) this.#byKey.set(row.key, row);
    if (isClaimable(row)) insertInOrder(this.#due, row, byDue);
    return old;
  }

  override deleteThread(thread: string): RunRow[] {
    const rows = super.deleteThread(thread);
    for (const row of rows) this.#forget(row);
    return rows;
  }

  #forget(row: RunRow): void {
    if (row.key !== undefined) this.#byKey.delete(row.key);
    if (isClaimable(row)) removeInOrder(this.#due, row, byDue);
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
