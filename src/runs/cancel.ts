/** A user's cancel: a stored fact that wins over whatever becomes of the run. */

import { HoldfastError } from "../errors.ts";
import { isEnded } from "../model.ts";
import type { RunLedger } from "./run-ledger.ts";
import type { RunRecord } from "./run-record.ts";

/** @throws UNKNOWN_RUN, RUN_ENDED */
export async function cancelRun(
  ledger: RunLedger,
  id: string,
  { by, reason }: { readonly by: string; readonly reason?: string | undefined },
): Promise<RunRecord> {
  for (;;) {
    const { row, notes, record } = await ledger.find(id);
    if (row.status === "cancelled") return record;
    if (isEnded(row.status)) throw ended(record);
    const lives = row.worker !== undefined && (await ledger.backend.ownerAlive(row.worker));
    if (notes.cancel !== undefined && lives) return record;
    const cancel = notes.cancel ?? { by, reason, at: await ledger.backend.now() };
    const told = { notes: { ...notes, cancel } };
    // A living worker ends it, so that nothing of the run goes on after it is called cancelled.
    const move = lives ? told : { ...told, status: "cancelled" as const, worker: undefined, due: undefined };
    const after = await ledger.move(row, move);
    if (after !== undefined) return (await ledger.read(after)).record;
  }
}

function ended({ id, status }: RunRecord): HoldfastError {
  return new HoldfastError("RUN_ENDED", `Run ${id} has ended as ${status}; there is nothing to cancel.`, {
    details: { id, status },
  });
}
