/**
 * Waits of a thread whose checkpoints another saver keeps: what a kill between the two stores has left is put right when the
 * thread is loaded. The official saver's pending writes say what the tasks have come to.
 */

import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { openPauses, openWaits } from "./adopt/open-waits.ts";
import type { ThreadTarget } from "./adopt/thread-target.ts";
import type { Op } from "./backend.ts";
import { INTERRUPT, SPECIAL_WRITES, TASK_ERROR } from "./langgraph.ts";
import type { WaitRow } from "./model.ts";
import type { Place } from "./place.ts";
import { type Interrupt, within } from "./thread-waits.ts";

/** Whether a task of the checkpoint has paused: otherwise there is nothing to put right. */
export const hasPauses = ({ pendingWrites = [] }: CheckpointTuple): boolean =>
  pendingWrites.some(([, channel]) => channel === INTERRUPT);

/**
 * Opens the waits of pauses that the ledger does not know, and ends answered ones that a task has gone on from. Pauses inside
 * subgraphs are opened when their task runs again.
 */
export async function followWaits(target: ThreadTarget, place: Place, tuple: CheckpointTuple): Promise<void> {
  const { backend } = target.target;
  const rows = await backend.waits({ thread: place.thread });
  const taken = rows.filter((row) => isTaken(row, place, tuple));
  await end(target, taken);
  if (place.ns !== "") return;
  const known = new Set(rows.map(({ id }) => id));
  const heads = new Map([["", { place: { ns: "", id: tuple.checkpoint.id, parent: undefined, bytes: 0 }, tuple }]]);
  if (openPauses(heads).pauses.some(({ interrupt }) => !known.has(String(interrupt.id))))
    await openWaits(target, heads);
}

/** The official saver has gone on from the checkpoint that the ledger took for the newest: nothing waits there any more. */
export async function endWaits(target: ThreadTarget, { thread, ns }: Place): Promise<void> {
  const rows = await target.target.backend.waits({ thread, status: ["open", "answered"] });
  await end(
    target,
    rows.filter((row) => within(row.ns, ns)),
  );
}

async function end({ target, thread, era }: ThreadTarget, rows: readonly WaitRow[]): Promise<void> {
  if (rows.length === 0) return;
  const ops = rows.map(({ id }): Op => ({ kind: "endWait", thread, era, id }));
  await target.queue.enqueue(ops, undefined, { urgent: true });
}

/** An answer that the task has used: it pauses for another question by now, or has ended. */
function isTaken(row: WaitRow, { ns }: Place, { checkpoint, pendingWrites = [] }: CheckpointTuple): boolean {
  if (row.kind !== "interrupt" || row.status !== "answered" || row.ns !== ns || row.checkpoint !== checkpoint.id)
    return false;
  const writes = pendingWrites.filter(([task]) => task === row.task);
  if (writes.some(([, channel]) => channel === TASK_ERROR)) return false;
  if (writes.some(([, channel]) => !SPECIAL_WRITES.has(channel))) return true;
  const pauses = writes.flatMap(([, channel, value]) => (channel === INTERRUPT ? (value as Interrupt[]) : []));
  return pauses.length > 0 && !pauses.some(({ id }) => id === row.id);
}
