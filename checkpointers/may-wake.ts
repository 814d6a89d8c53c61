/** Which rows others may be waiting for, see `Backend.watch`. */

import { isEnded, type Op } from "holdfast";
import type { Change } from "./memory/change.ts";

/** Whether a run may be due after it: itself, or the one that an ended one has kept back. `now`: asked only for runs. */
export function mayWake(change: Change | Op, now: () => number): boolean {
  if (change.kind === "wait") return change.row.status === "answered" && change.row.holder === undefined;
  if (change.kind !== "run") return false;
  const { status, due } = change.row;
  return isEnded(status) || (due !== undefined && due <= now());
}
