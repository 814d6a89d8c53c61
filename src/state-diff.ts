/** `diff`: two states of threads, compared channel by channel. */

import type { Checkpointer } from "./checkpointer.ts";
import { type Change, changesOf } from "./diff.ts";
import { type Plain, plainOf } from "./diff-plain.ts";
import { HoldfastError } from "./errors.ts";
import type { ForkableGraph } from "./fork-draft.ts";
import { findNamespace, graphAt } from "./fork-place.ts";
import { lentSaver } from "./langgraph.ts";

/** A state: a checkpoint of a thread, or its head. */
export interface StatePlace {
  readonly thread: string;
  readonly checkpoint?: string;
}

export type ChannelDiff =
  | { readonly kind: "added" | "removed"; readonly value: Plain }
  | { readonly kind: "changed"; readonly changes: readonly Change[] };

/** Plain JSON. */
export interface StateDiff {
  readonly before: { readonly thread: string; readonly checkpoint: string };
  readonly after: { readonly thread: string; readonly checkpoint: string };
  /** Only channels that differ. */
  readonly channels: Readonly<Record<string, ChannelDiff>>;
}

/** @throws UNKNOWN_CHECKPOINT, INVALID_ARGUMENT, NOT_SUPPORTED */
export async function diffStates(
  app: ForkableGraph,
  saver: Checkpointer,
  before: StatePlace,
  after: StatePlace,
): Promise<StateDiff> {
  await saver.barrier();
  const [old, now] = [await stateAt(app, saver, before), await stateAt(app, saver, after)];
  const channels: Record<string, ChannelDiff> = {};
  for (const channel of new Set([...Object.keys(old.values), ...Object.keys(now.values)])) {
    if (!Object.hasOwn(old.values, channel)) channels[channel] = { kind: "added", value: plainOf(now.values[channel]) };
    else if (!Object.hasOwn(now.values, channel))
      channels[channel] = { kind: "removed", value: plainOf(old.values[channel]) };
    else {
      const changes = changesOf(old.values[channel], now.values[channel]);
      if (changes.length > 0) channels[channel] = { kind: "changed", changes };
    }
  }
  return { before: old.place, after: now.place, channels };
}

async function stateAt(app: ForkableGraph, saver: Checkpointer, place: StatePlace) {
  const { thread } = place;
  const checkpoint = place.checkpoint ?? (await saver.backend.load(thread, "", undefined)).head;
  const ns = checkpoint === undefined ? undefined : await findNamespace(saver.backend, thread, checkpoint);
  if (checkpoint === undefined || ns === undefined) throw unknownState(thread, checkpoint);
  const graph = await graphAt(app, ns);
  if (graph === undefined) {
    throw new HoldfastError(
      "NOT_SUPPORTED",
      `Checkpoint ${checkpoint} belongs to a graph that is not found among the subgraphs of the nodes (${ns}), so its state cannot be read.`,
      { details: { thread, checkpoint, ns } },
    );
  }
  const configurable = { thread_id: thread, checkpoint_ns: ns, checkpoint_id: checkpoint, ...lentSaver(saver) };
  const state = (await graph.getState({ configurable })) as { readonly values: unknown };
  // The functional API has one value and no channels.
  const { values } = state;
  const channels = typeof values === "object" && values !== null && !Array.isArray(values) ? values : { value: values };
  return { place: { thread, checkpoint }, values: channels as Readonly<Record<string, unknown>> };
}

/** @throws INVALID_ARGUMENT */
export function checkPlace(which: string, place: StatePlace | undefined): void {
  const { thread, checkpoint } = place ?? {};
  const text = (value: unknown) => typeof value === "string" && value !== "";
  if (text(thread) && (checkpoint === undefined || text(checkpoint))) return;
  throw new HoldfastError(
    "INVALID_ARGUMENT",
    `diff: ${which} is ${JSON.stringify(place)}; use { thread: "…", checkpoint: "…" }, or leave the checkpoint out for the newest state.`,
  );
}

function unknownState(thread: string, checkpoint: string | undefined): HoldfastError {
  return new HoldfastError(
    "UNKNOWN_CHECKPOINT",
    checkpoint === undefined
      ? `Thread ${JSON.stringify(thread)} has no checkpoints.`
      : `Thread ${JSON.stringify(thread)} has no checkpoint ${JSON.stringify(checkpoint)}. history(thread) lists them.`,
    { details: { thread, checkpoint } },
  );
}
