/**
 * Stores a planned fork in one commit: the checkpoints, what they refer to, the effects that a new thread takes along, and
 * the end of the waits of the head that is left. Either all of it is there or none.
 */

import type { Op } from "./backend.ts";
import { checkpointBody, draftChannel, type Form, type Forms } from "./checkpoint-row.ts";
import type { Checkpointer } from "./checkpointer.ts";
import { copiedEffects } from "./fork-effects.ts";
import type { ForkPlan, Placement } from "./fork-plan.ts";
import { KnownState } from "./known-state.ts";
import type { BlobCollector } from "./values.ts";

/** @throws HEAD_MOVED, WAIT_CONFLICT, DECISION_CONFLICT where the thread has changed since it was planned; THREAD_DELETED */
export async function storeFork(saver: Checkpointer, plan: ForkPlan): Promise<void> {
  const { request, place, placements } = plan;
  const { backend, waitLedger } = saver;
  const thread = request.to ?? request.thread;
  const target = request.to === undefined ? place.root : await backend.load(thread, "", undefined);
  const blobs = waitLedger.blobs();
  const ops: Op[] = [];
  for (const placement of placements) {
    const heads = placement.ns === "" ? [request.to === undefined ? (place.root.head ?? null) : null] : undefined;
    ops.push(...(await checkpointOps(saver, thread, target.era, request.thread, placement, heads, blobs)));
  }
  if (request.to === undefined) ops.push(...(await supersededWaits(saver, plan)));
  else ops.push(...(await copiedEffects(saver, plan, request.to, target.era)));
  await waitLedger.commit([...blobs.ops(thread, target.era), ...ops]);
  if (request.to !== undefined) await saver.journal?.created(thread, target.era);
}

async function checkpointOps(
  saver: Checkpointer,
  thread: string,
  era: number,
  source: string,
  placement: Placement,
  heads: readonly (string | null)[] | undefined,
  blobs: BlobCollector,
): Promise<Op[]> {
  const { backend, effectLedger } = saver;
  const { serde } = effectLedger;
  const { ns, checkpoint, metadata, from, parent } = placement;
  // Lists are continued by new lists, never extended in place: the saver believes that it knows where its lists end.
  const known = new KnownState(backend, serde);
  const before: Forms = thread === source ? await known.fetchForms(thread, from.ns, from.id) : new Map();
  for (const { known: list } of before.values()) if (list !== undefined) known.lists.forget(list.list);
  const forms = new Map<string, Form>();
  const ops: Op[] = [];
  for (const [channel, version] of Object.entries(checkpoint.channel_versions)) {
    if (!Object.hasOwn(checkpoint.channel_values, channel)) continue;
    const old = before.get(channel);
    if (old?.version === version) {
      forms.set(channel, old);
      continue;
    }
    const value = checkpoint.channel_values[channel];
    const made = draftChannel(serde, known.lists, thread, era, channel, value, [old?.known], blobs);
    ops.push(...made.ops);
    forms.set(channel, { version, json: made.json, known: made.known, size: made.size });
  }
  ops.push({
    kind: "checkpoint",
    thread,
    era,
    ns,
    id: checkpoint.id,
    parent,
    source: placement.source,
    body: checkpointBody(serde, checkpoint, metadata, forms, blobs, ns === ""),
    heads,
  });
  return ops;
}

/** Nothing of the head that is left goes on to wait. */
async function supersededWaits({ backend, waitLedger }: Checkpointer, { request, place }: ForkPlan): Promise<Op[]> {
  const { thread, kind } = request;
  const rows = await backend.waits({ thread, status: ["open", "answered"] });
  return waitLedger.supersede(rows, { by: kind, via: "fork" }, await waitLedger.chainEnd(thread), place.root.era).ops;
}
