/** Waits in the order of the contract, and who is asked for them. */

import type { WaitQuery, WaitRow, WaitStatus } from "holdfast";
import { OrderedRows } from "./ordered-rows.ts";

const STATUSES: readonly WaitStatus[] = ["open", "answered", "consumed", "superseded"];

type Place = NonNullable<WaitQuery["after"]>;

export class WaitTable extends OrderedRows<WaitStatus, Place, WaitRow> {
  constructor() {
    super(STATUSES, (place) => place.openedAt);
  }

  /** Those of a thread that are open or answered. */
  active(thread: string): WaitRow[] {
    return [...this.ofThread(thread, "open"), ...this.ofThread(thread, "answered")];
  }

  query(query: WaitQuery): WaitRow[] {
    return this.find(query, matcher(query));
  }
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
