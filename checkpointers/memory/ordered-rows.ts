/**
 * Rows by id, and in the order of the contract: by (moment, id) within each status, for the whole store and for each thread.
 * So a list reads the rows of its page and not all that were ever stored.
 */

import { compareIds } from "../ids.ts";

/** What the rows of a table have in common. */
interface Listed<S extends string> {
  readonly id: string;
  readonly thread: string;
  readonly status: S;
}

/** What every query of such rows may ask for; `P` is a place in the order. */
interface Listing<S extends string, P> {
  readonly id?: string | undefined;
  readonly thread?: string | undefined;
  readonly status?: readonly S[] | undefined;
  readonly after?: P | undefined;
  readonly limit?: number | undefined;
}

type Compare<P> = (a: P, b: P) => number;

export class OrderedRows<S extends string, P extends { readonly id: string }, R extends P & Listed<S>> {
  readonly #byId = new Map<string, R>();
  readonly #all: Order<S, P, R>;
  /** Of each thread that has any. */
  readonly #byThread = new Map<string, Order<S, P, R>>();
  readonly #statuses: readonly S[];
  readonly #momentOf: (place: P) => number;

  constructor(statuses: readonly S[], momentOf: (place: P) => number) {
    this.#statuses = statuses;
    this.#momentOf = momentOf;
    this.#all = this.#newOrder();
  }

  get(id: string): R | undefined {
    return this.#byId.get(id);
  }

  values(): Iterable<R> {
    return this.#byId.values();
  }

  /** A thread's rows of one status, in order. Do not change the table while using them. */
  ofThread(thread: string, status: S): readonly R[] {
    return this.#byThread.get(thread)?.rows[status] ?? [];
  }

  /** Negative where `a` comes before `b`. */
  compare(a: P, b: P): number {
    return this.#momentOf(a) - this.#momentOf(b) || compareIds(a.id, b.id);
  }

  /** The rows that match, of those that have the query's status and place. */
  find(query: Listing<S, P>, matches: (row: R) => boolean): R[] {
    const found: R[] = [];
    const limit = query.limit ?? Number.POSITIVE_INFINITY;
    if (limit <= 0) return found;
    for (const row of this.#inOrder(query)) {
      if (!matches(row)) continue;
      found.push(row);
      if (found.length >= limit) break;
    }
    return found;
  }

  /** Stores the row in place of the one with its id, which is returned. */
  set(row: R): R | undefined {
    const old = this.#byId.get(row.id);
    if (old !== undefined) this.#remove(old);
    this.#byId.set(row.id, row);
    this.#all.add(row);
    let own = this.#byThread.get(row.thread);
    if (own === undefined) {
      own = this.#newOrder();
      this.#byThread.set(row.thread, own);
    }
    own.add(row);
    return old;
  }

  /** Removes a thread's rows and returns them. */
  deleteThread(thread: string): R[] {
    const rows = this.#statuses.flatMap((status) => this.ofThread(thread, status));
    for (const row of rows) this.#remove(row);
    this.#byThread.delete(thread);
    return rows;
  }

  #newOrder(): Order<S, P, R> {
    return new Order(this.#statuses, (a, b) => this.compare(a, b));
  }

  #inOrder(query: Listing<S, P>): Iterable<R> {
    const { id, thread, status = this.#statuses, after } = query;
    if (id !== undefined) {
      const row = this.#byId.get(id);
      if (row === undefined || !status.includes(row.status)) return [];
      return after === undefined || this.compare(row, after) > 0 ? [row] : [];
    }
    const order = thread === undefined ? this.#all : this.#byThread.get(thread);
    return order?.from(status, after) ?? [];
  }

  #remove(row: R): void {
    this.#byId.delete(row.id);
    this.#all.remove(row);
    this.#byThread.get(row.thread)?.remove(row);
  }
}

/** Rows in order, apart by status. Mostly appended to: what is stored later comes later. */
class Order<S extends string, P, R extends P & Listed<S>> {
  readonly rows: Readonly<Record<S, R[]>>;
  readonly #compare: Compare<P>;

  constructor(statuses: readonly S[], compare: Compare<P>) {
    this.rows = Object.fromEntries(statuses.map((status) => [status, [] as R[]])) as Record<S, R[]>;
    this.#compare = compare;
  }

  add(row: R): void {
    insertInOrder(this.rows[row.status], row, this.#compare);
  }

  remove(row: R): void {
    removeInOrder(this.rows[row.status], row, this.#compare);
  }

  /** The rows of several statuses after a place, merged. Do not change the order while iterating. */
  *from(statuses: readonly S[], after: P | undefined): Generator<R> {
    const sources = [...new Set(statuses)].map((status) => {
      const rows = this.rows[status] ?? [];
      return { rows, at: after === undefined ? 0 : firstAfter(rows, after, this.#compare) };
    });
    for (;;) {
      let first: (typeof sources)[number] | undefined;
      let row: R | undefined;
      for (const source of sources) {
        const next = source.rows[source.at];
        if (next === undefined || (row !== undefined && this.#compare(row, next) <= 0)) continue;
        first = source;
        row = next;
      }
      if (first === undefined || row === undefined) return;
      first.at += 1;
      yield row;
    }
  }
}

export function insertInOrder<P, R extends P>(rows: R[], row: R, compare: Compare<P>): void {
  rows.splice(firstAfter(rows, row, compare), 0, row);
}

export function removeInOrder<P, R extends P>(rows: R[], row: R, compare: Compare<P>): void {
  const at = firstAfter(rows, row, compare) - 1;
  if (rows[at] === row) rows.splice(at, 1);
}

/** Where the rows begin that come after a place. */
function firstAfter<P, R extends P>(rows: readonly R[], place: P, compare: Compare<P>): number {
  const last = rows.at(-1);
  if (last === undefined || compare(last, place) <= 0) return rows.length;
  let low = 0;
  let high = rows.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compare(rows[middle] as R, place) <= 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
