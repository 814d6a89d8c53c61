/** Deadlines and timers that have come, recorded by whoever looks first. */

import type { WaitQuery } from "./backend.ts";
import { isHoldfastError } from "./errors.ts";
import type { WaitLedger } from "./wait-ledger.ts";

const PAGE = 100;
/** Somebody else was first, or the thread is gone. */
const OVERTAKEN = ["WAIT_CONFLICT", "DECISION_CONFLICT", "RUN_CONFLICT", "THREAD_DELETED"] as const;

/** Resolves with how many were recorded. One that cannot be recorded is reported and passed over. */
export async function decideDueWaits(
  ledger: WaitLedger,
  stopped: () => boolean,
  report: (error: unknown, context: { readonly thread?: string }) => void,
): Promise<number> {
  let decided = 0;
  let after: WaitQuery["after"];
  for (;;) {
    const rows = await ledger.rows({ status: ["open"], dueBy: ledger.now(), after, limit: PAGE });
    for (const row of rows) {
      if (stopped()) return decided;
      try {
        if ((await ledger.decideDue(row)) !== undefined) decided += 1;
      } catch (error) {
        if (!OVERTAKEN.some((code) => isHoldfastError(error, code))) report(error, { thread: row.thread });
      }
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < PAGE) return decided;
    after = { openedAt: last.openedAt, id: last.id };
  }
}
