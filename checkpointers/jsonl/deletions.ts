/** What a log must hold after a group of commits that deletes threads. */

import { afterDeletion, type Change } from "../memory/change.ts";

/**
 * The acknowledged state and the group's changes as one sequence, without what the group's deletions remove: no line
 * of it bears the id of a deleted thread, also not of rows that the group itself stored before deleting them.
 */
export function* withoutDeleted(live: Iterable<Change>, group: readonly Change[]): Generator<Change> {
  const lastDeletion = new Map<string, number>();
  for (const [at, change] of group.entries()) if (change.kind === "delete") lastDeletion.set(change.thread, at);
  const deletedAfter = (thread: string, at: number) => (lastDeletion.get(thread) ?? -1) > at;
  for (const change of live) yield* survivor(change, (thread) => deletedAfter(thread, -1));
  for (const [at, change] of group.entries()) yield* survivor(change, (thread) => deletedAfter(thread, at));
}

function* survivor(change: Change, isDeleted: (thread: string) => boolean): Generator<Change> {
  switch (change.kind) {
    case "checkpoint":
    case "wait":
    case "decision":
    case "run":
      if (!isDeleted(change.row.thread)) yield change;
      return;
    case "effect": {
      const row = isDeleted(change.row.thread) ? afterDeletion(change.row) : change.row;
      if (row !== undefined) yield { kind: "effect", row };
      return;
    }
    case "writes":
    case "items":
    case "blob":
      if (!isDeleted(change.thread)) yield change;
      return;
    case "delete":
      yield { kind: "era", digest: change.digest, era: change.era };
      return;
    case "era":
      yield change;
      return;
    default: {
      const never: never = change;
      return never;
    }
  }
}
