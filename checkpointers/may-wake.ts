/** Which rows others may be waiting for, see `Backend.watch`. */

import { isEnded, type RunRow, type WaitRow } from "holdfast";

type Changed = { readonly kind: "wait"; readonly row: WaitRow } | { readonly kind: "run"; readonly row: RunRow };

/** Whether a run may be due after it: itself, or the one that an ended one has kept back. `now`: asked only for runs. */
export function mayWake(change: Changed | { readonly kind: string }, now: () => number): boolean {
  if (isWait(change)) return change.row.status === "answered" && change.row.holder === undefined;
  if (!isRun(change)) return false;
  const { status, due } = change.row;
  return isEnded(status) || (due !== undefined && due <= now());
}

const isWait = (change: { readonly kind: string }): change is Changed & { kind: "wait" } => change.kind === "wait";
const isRun = (change: { readonly kind: string }): change is Changed & { kind: "run" } => change.kind === "run";
