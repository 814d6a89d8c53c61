/**
 * Which process goes on with a thread: the one that holds its answered waits.
 *
 * - T1 All answered waits that nobody holds are taken in one commit, or none: of two processes that see overlapping sets
 *   one is refused. One that sees a wait in another living process's hands takes nothing.
 * - T2 Whoever holds looks again after each run: an answer that another process left to it is found then.
 * - T3 A hold ends with the wait (consumed, superseded, opened again), with `release`, or with its process.
 */

import { eraOf, type Op } from "../backend.ts";
import { isHoldfastError } from "../errors.ts";
import type { WaitRow } from "../model.ts";
import type { WaitLedger } from "../wait-ledger.ts";

/** The thread's answered waits, held by this process; undefined where another living process has one of them. */
export async function holdAnswered(ledger: WaitLedger, thread: string): Promise<readonly WaitRow[] | undefined> {
  const { owner } = ledger.backend;
  for (;;) {
    const rows = await ledger.rows({ thread, status: ["answered"] });
    if (await heldElsewhere(ledger, rows)) return undefined;
    const free = rows.filter(({ holder }) => holder !== owner);
    if (await changeHolder(ledger, thread, free, owner)) return rows;
  }
}

export async function release(ledger: WaitLedger, thread: string): Promise<void> {
  const rows = await ledger.rows({ thread, status: ["answered"] });
  const ours = rows.filter(({ holder }) => holder === ledger.backend.owner);
  // Refused where somebody has changed one meanwhile; then it is not held any more, or its next change ends it.
  await changeHolder(ledger, thread, ours, undefined);
}

/** Whether another process that may be alive holds one of the waits. */
export async function heldElsewhere({ backend }: WaitLedger, rows: readonly WaitRow[]): Promise<boolean> {
  const others = new Set(rows.map(({ holder }) => holder).filter((holder) => holder !== backend.owner));
  for (const other of others) if (other !== undefined && (await backend.ownerAlive(other))) return true;
  return false;
}

/** False where one of the waits was changed meanwhile; nothing is changed then. */
async function changeHolder(
  ledger: WaitLedger,
  thread: string,
  rows: readonly WaitRow[],
  holder: string | undefined,
): Promise<boolean> {
  if (rows.length === 0) return true;
  const era = await eraOf(ledger.backend, thread);
  const ops = rows.map(
    (row): Op => ({ kind: "wait", thread, era, row: { ...row, holder, rev: row.rev + 1 }, expect: row.rev }),
  );
  try {
    await ledger.commit(ops);
    return true;
  } catch (error) {
    if (isHoldfastError(error, "WAIT_CONFLICT") || isHoldfastError(error, "THREAD_DELETED")) return false;
    throw error;
  }
}
