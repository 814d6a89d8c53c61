/** Deadlines and timers that have come, recorded by whoever looks first. */

import type { WaitQuery } from "./backend.ts";
import { isHoldfastError } from "./errors.ts";
import type { WaitLedger } from "./wait-ledger.ts";

const PAGE = 100;
/** Somebody else was first, or the thread is gone. */
const OVERTAKEN = ["WAIT_CONFLICT", "DECISION_CONFLICT", "RUN_CONFLICT", "THREAD_DELETED"] as const;

export interface DueWaits {
  /** How many were recorded. */
  readonly decided: number;
  /** The earliest moment at which one is due that was looked at and is not due yet. */
  readonly next: number | undefined;
}

/**
 * Records what is due by now, and looks `aheadMs` further. A wait that cannot be recorded is reported and passed over.
 */
export async function decideDueWaits(
  ledger: WaitLedger,
  stopped: () => boolean,
  report: (error: unknown, context: { readonly thread?: string }) => void,
  aheadMs = 0,
): Promise<DueWaits> {
  const dueBy = ledger.now() + aheadMs;
  let decided = 0;
  let next = Number.POSITIVE_INFINITY;
  let after: WaitQuery["after"];
  for (;;) {
    const rows = await ledger.rows({ status: ["open"], dueBy, after, limit: PAGE });
    for (const row of rows) {
      if (stopped()) return { decided, next: undefined };
      if (row.due !== undefined && row.due > ledger.now()) {
        next = Math.min(next, row.due);
        continue;
      }
      try {
        if ((await ledger.decideDue(row)) !== undefined) decided += 1;
      } catch (error) {
        if (!OVERTAKEN.some((code) => isHoldfastError(error, code))) report(error, { thread: row.thread });
      }
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < PAGE) return { decided, next: Number.isFinite(next) ? next : undefined };
    after = { openedAt: last.openedAt, id: last.id };
  }
}
