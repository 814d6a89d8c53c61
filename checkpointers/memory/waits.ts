/**
 * Waits by id, and in the order of the contract: by (openedAt, id) within each status, for the whole store and for each
 * thread. So an inbox reads the rows of its page and not all that were ever answered.
 */

import type { WaitQuery, WaitRow, WaitStatus } from "holdfast";
import { compareIds } from "../ids.ts";

const STATUSES: readonly WaitStatus[] = ["open", "answered", "consumed", "superseded"];

type Place = NonNullable<WaitQuery["after"]>;

export class WaitTable {
  readonly #byId = new Map<string, WaitRow>();
  readonly #all = new Order();
  /** Of each thread that has any. */
  readonly #byThread = new Map<string, Order>();

  get(id: string): WaitRow | undefined {
    return this.#byId.get(id);
  }

  values(): Iterable<WaitRow> {
    return this.#byId.values();
  }

  /** Those of a thread that are open or answered. */
  active(thread: string): WaitRow[] {
    const order = this.#byThread.get(thread);
    return order === undefined ? [] : [...order.rows.open, ...order.rows.answered];
  }

  query(query: WaitQuery): WaitRow[] {
    const found: WaitRow[] = [];
    const limit = query.limit ?? Number.POSITIVE_INFINITY;
    if (limit <= 0) return found;
    const matches = matcher(query);
    for (const row of this.#inOrder(query)) {
      if (!matches(row)) continue;
      found.push(row);
      if (found.length >= limit) break;
    }
    return found;
  }

  /** Stores the row in place of the one with its id, which is returned. */
  set(row: WaitRow): WaitRow | undefined {
    const old = this.#byId.get(row.id);
    if (old !== undefined) this.#remove(old);
    this.#byId.set(row.id, row);
    this.#all.add(row);
    let own = this.#byThread.get(row.thread);
    if (own === undefined) {
      own = new Order();
      this.#byThread.set(row.thread, own);
    }
    own.add(row);
    return old;
  }

  /** Removes a thread's waits and returns them. */
  deleteThread(thread: string): WaitRow[] {
    const order = this.#byThread.get(thread);
    if (order === undefined) return [];
    const rows = STATUSES.flatMap((status) => order.rows[status]);
    for (const row of rows) this.#remove(row);
    this.#byThread.delete(thread);
    return rows;
  }

  /** The rows that have the query's status and place, and more. */
  #inOrder(query: WaitQuery): Iterable<WaitRow> {
    const { id, thread, status = STATUSES, after } = query;
    if (id !== undefined) {
      const row = this.#byId.get(id);
      if (row === undefined || !status.includes(row.status)) return [];
      return after === undefined || compare(row, after) > 0 ? [row] : [];
    }
    const order = thread === undefined ? this.#all : this.#byThread.get(thread);
    return order?.from(status, after) ?? [];
  }

  #remove(row: WaitRow): void {
    this.#byId.delete(row.id);
    this.#all.remove(row);
    this.#byThread.get(row.thread)?.remove(row);
  }
}

/** Rows in order, apart by status. Mostly appended to: what is opened later comes later. */
class Order {
  readonly rows: Readonly<Record<WaitStatus, WaitRow[]>> = { open: [], answered: [], consumed: [], superseded: [] };

  add(row: WaitRow): void {
    const rows = this.rows[row.status];
    rows.splice(firstAfter(rows, row), 0, row);
  }

  remove(row: WaitRow): void {
    const rows = this.rows[row.status];
    const at = firstAfter(rows, row) - 1;
    if (rows[at] === row) rows.splice(at, 1);
  }

  /** The rows of several statuses after a place, merged. Do not change the order while iterating. */
  *from(statuses: readonly WaitStatus[], after: Place | undefined): Generator<WaitRow> {
    const sources = [...new Set(statuses)].map((status) => {
      const rows = this.rows[status] ?? [];
      return { rows, at: after === undefined ? 0 : firstAfter(rows, after) };
    });
    for (;;) {
      let first: (typeof sources)[number] | undefined;
      let row: WaitRow | undefined;
      for (const source of sources) {
        const next = source.rows[source.at];
        if (next === undefined || (row !== undefined && compare(row, next) <= 0)) continue;
        first = source;
        row = next;
      }
      if (first === undefined || row === undefined) return;
      first.at += 1;
      yield row;
    }
  }
}

function compare(a: Place, b: Place): number {
  return a.openedAt - b.openedAt || compareIds(a.id, b.id);
}

/** Where the rows begin that come after a place. */
function firstAfter(rows: readonly WaitRow[], place: Place): number {
  const last = rows.at(-1);
  if (last === undefined || compare(last, place) <= 0) return rows.length;
  let low = 0;
  let high = rows.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compare(rows[middle] as WaitRow, place) <= 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

const FIELDS = ["thread", "task", "name", "graph", "assignee", "owner"] as const;

/** Asks for what the query gives besides status and place, and for nothing else: it may pass over ten thousand rows. */
function matcher(query: WaitQuery): (row: WaitRow) => boolean {
  const { kind, dueBy } = query;
  const tests: ((row: WaitRow) => boolean)[] = FIELDS.filter((field) => query[field] !== undefined).map(
    (field) => (row) => row[field] === query[field],
  );
  if (kind !== undefined) tests.push((row) => kind.includes(row.kind));
  if (dueBy !== undefined) tests.push((row) => row.due !== undefined && row.due <= dueBy);
  return (row) => tests.every((test) => test(row));
}
