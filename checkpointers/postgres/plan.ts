/**
 * What `holdfast_commit_1` is given: rows in short, and what they assume.
 *
 * - {@link planGroup} translates a whole group on the assumption that nothing refuses any of it, which is nearly always so.
 *   Where an operation depends on another one of the group in a way that the function does not follow, or an id has no UTF-8,
 *   there is no plan.
 * - {@link planChanges} translates changes that were judged under the locks of their threads: it assumes no more than that
 *   what no lock holds because it was not there has not been stored meanwhile.
 */

import { type Commit, isHoldfastError, type Op } from "holdfast";
import type { Change } from "../memory/change.ts";
import { ANY, NONE, type Plan, Planner, UNPLANNABLE } from "./planner.ts";
import { packId } from "./text.ts";

export type ChangeOf<K extends Change["kind"]> = Extract<Change, { kind: K }>;

/** The plan of a group; undefined where it must be judged row by row. */
export function planGroup(group: readonly Commit[]): Plan | undefined {
  const planner = new Planner();
  try {
    for (const commit of group) for (const op of commit) planOp(planner, op);
    return planner.plan();
  } catch (error) {
    if (error === UNPLANNABLE || isHoldfastError(error, "INVALID_ID")) return undefined;
    throw error;
  }
}

/** @throws {HoldfastError} INVALID_ID where an id of the commit has no UTF-8 */
export function assertIds(commit: Commit): void {
  for (const op of commit) {
    packId(op.thread);
    if (op.kind === "deleteThread") continue;
    try {
      // A planner of its own for each: nothing of another operation stands in the way.
      planOp(new Planner(), op);
    } catch (error) {
      if (error !== UNPLANNABLE) throw error;
    }
  }
}

function planOp(planner: Planner, op: Op): void {
  if (op.kind === "deleteThread") throw UNPLANNABLE;
  const thread = planner.thread(op.thread, op.era);
  switch (op.kind) {
    case "checkpoint":
      planner.checkpoint(thread, op, op.heads);
      return;
    case "writes":
      if (op.slot === undefined) planner.newWrites(thread, op);
      else planner.specialWrite(thread, op.ns, { ...op, slot: op.slot });
      return;
    case "items":
      planner.items(thread, op, op.base);
      return;
    case "blob":
      planner.blob(thread, op.hash, op.data);
      return;
    case "effect":
      planner.effect(op.row, op.expect ?? NONE, op.row.thread === "" ? null : planner.thread(op.row.thread, op.era));
      return;
    case "wait":
      planner.wait(thread, op.row, op.expect ?? NONE);
      return;
    case "endWait":
      planner.endWait(thread, op.id);
      return;
    case "decision":
      planner.decision(thread, op.row);
      return;
    case "run":
      planner.run(thread, op.row, op.expect);
      return;
    case "fence":
      planner.fence(thread, op.run, op.epoch);
      return;
    default: {
      const never: never = op;
      return never;
    }
  }
}

/**
 * The plan of changes without a deletion; `eraOf` as they were judged. `isNew` says of an effect or a run that nobody has it
 * locked, because it was not there: another thread's commit may have stored it meanwhile, so it must still be missing.
 */
export function planChanges(
  changes: readonly Change[],
  eraOf: (thread: string) => number,
  isNew: (change: ChangeOf<"effect" | "run">) => boolean,
): Plan {
  const planner = new Planner();
  const thread = (id: string) => planner.thread(id, eraOf(id));
  for (const change of changes) {
    switch (change.kind) {
      case "checkpoint":
        planner.checkpoint(thread(change.row.thread), change.row, undefined);
        break;
      case "writes":
        planner.writes(thread(change.thread), change.ns, change.row);
        break;
      case "items":
        planner.items(thread(change.thread), change.row, change.base);
        break;
      case "blob":
        planner.blob(thread(change.thread), change.hash, change.data);
        break;
      case "effect":
        planner.effect(
          change.row,
          isNew(change) ? NONE : ANY,
          change.row.thread === "" ? null : thread(change.row.thread),
          true,
        );
        break;
      case "wait":
        planner.wait(thread(change.row.thread), change.row, ANY);
        break;
      case "decision":
        planner.decision(thread(change.row.thread), change.row);
        break;
      case "run":
        planner.judgedRun(thread(change.row.thread), change.row, isNew(change) ? NONE : ANY);
        break;
      case "delete":
      case "era":
        throw new TypeError("a deletion is no part of a plan");
      default: {
        const never: never = change;
        return never;
      }
    }
  }
  return planner.plan();
}
