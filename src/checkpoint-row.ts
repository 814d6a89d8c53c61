/**
 * The body of a checkpoint row and of a write row: LangGraph's checkpoint as text, and back.
 *
 * A checkpoint's body holds every channel's value in one of the forms of `values.ts`. A channel that did not change
 * carries its form over from the parent, so a row is complete: reading it never walks to older rows.
 */

import type { Checkpoint, CheckpointMetadata, PendingWrite } from "@langchain/langgraph-checkpoint";
import type { Op } from "./backend.ts";
import { HoldfastError } from "./errors.ts";
import { nodeOfPath, SPECIAL_WRITES } from "./langgraph.ts";
import { isPlainArray, type KnownList, type ListWriter, liveItems, planValue } from "./lists.ts";
import type { Encoded, WriteRow } from "./model.ts";
import { encoded, payload, type Serde, type Tree } from "./serde.ts";
import { type BlobCollector, inlineOrBlob } from "./values.ts";

/** How a channel's value stands in a row. */
export interface Form {
  readonly version: string | number;
  /** The value's JSON, or a reference, see `values.ts`. */
  readonly json: string;
  readonly known: KnownList | undefined;
  /** Characters of the whole value. */
  readonly size: number;
}

export type Forms = ReadonlyMap<string, Form>;

/** A checkpoint's row body, parsed. Values are still as stored. */
export interface ParsedBody {
  readonly v: number;
  readonly ts: string;
  readonly cv: Record<string, string | number>;
  readonly vs: Record<string, Record<string, string | number>>;
  readonly m: Tree;
  readonly ch: Record<string, Tree>;
  /** Of a root checkpoint on a branch that may have left effects behind. */
  readonly br?: 1;
}

/** Body text of a checkpoint. */
export function checkpointBody(
  serde: Serde,
  checkpoint: Checkpoint,
  metadata: CheckpointMetadata,
  forms: Forms,
  sink: BlobCollector,
  branched = false,
): Encoded {
  const meta = serde.stringify(serde.toTree(metadata, sink, () => "the checkpoint's metadata"));
  let ch = "";
  for (const [channel, form] of forms) ch += `${ch === "" ? "" : ","}${JSON.stringify(channel)}:${form.json}`;
  return encoded(
    `{"v":${JSON.stringify(checkpoint.v)},"ts":${JSON.stringify(checkpoint.ts)},"cv":${JSON.stringify(checkpoint.channel_versions)},` +
      `"vs":${JSON.stringify(checkpoint.versions_seen)},"m":${meta},"ch":{${ch}}${branched ? ',"br":1' : ""}}`,
  );
}

export function parseBody(
  serde: Serde,
  row: { readonly thread: string; readonly id: string; readonly body: Encoded },
): ParsedBody {
  try {
    return serde.parse(payload(row.body)) as unknown as ParsedBody;
  } catch (cause) {
    if (cause instanceof SyntaxError) {
      throw new HoldfastError(
        "CORRUPT_DATA",
        `Checkpoint ${row.id} of thread ${JSON.stringify(row.thread)} cannot be read: ${cause.message}.`,
        {
          cause,
          details: { thread: row.thread, checkpoint: row.id },
        },
      );
    }
    throw cause;
  }
}

/** The channels of a put: those to be encoded now, and those to be carried over from the parent. */
export interface ChannelSplit {
  readonly changed: readonly (readonly [channel: string, value: unknown, version: string | number])[];
  readonly carried: readonly (readonly [channel: string, version: string | number])[];
}

/**
 * LangGraph names the channels that changed in `newVersions`. A channel it does not name keeps the value it had in the
 * parent under the same version; one that changed and has no value was emptied. A copy (`__copy__`) names none and hangs
 * on the parent of what it copies, which has other values: all of its own are to be encoded.
 */
export function splitChannels(
  checkpoint: Checkpoint,
  newVersions: Record<string, string | number>,
  copy: boolean,
): ChannelSplit {
  const changed: [string, unknown, string | number][] = [];
  const carried: [string, string | number][] = [];
  const values = checkpoint.channel_values;
  for (const channel of Object.keys(checkpoint.channel_versions)) {
    const version = checkpoint.channel_versions[channel] as string | number;
    if (copy || Object.hasOwn(newVersions, channel)) {
      if (Object.hasOwn(values, channel)) changed.push([channel, values[channel], version]);
    } else carried.push([channel, version]);
  }
  // Raw savers' calls may name a new version that the checkpoint itself does not list.
  for (const channel of Object.keys(newVersions)) {
    if (!Object.hasOwn(checkpoint.channel_versions, channel) && Object.hasOwn(values, channel)) {
      changed.push([channel, values[channel], newVersions[channel] as string | number]);
    }
  }
  return { changed, carried };
}

/** Encodes one channel's value, given what this process knows of it. Synchronous: values change after `put` returns. */
export function draftChannel(
  serde: Serde,
  lists: ListWriter,
  thread: string,
  era: number,
  channel: string,
  value: unknown,
  candidates: readonly (KnownList | undefined)[],
  sink: BlobCollector,
): {
  readonly json: string;
  readonly ops: readonly Op[];
  readonly known: KnownList | undefined;
  readonly size: number;
} {
  const where = () => `channel ${JSON.stringify(channel)}`;
  if (isPlainArray(value)) {
    for (const known of candidates) {
      if (known === undefined) continue;
      const items = liveItems(serde, value, sink, where);
      const last = known === candidates[candidates.length - 1];
      // A list that a task wrote a moment ago counts only where the channel took it over whole.
      if (!last && (value.length !== known.length || lists.samePrefix(known, items) !== known.length)) continue;
      if (value.length === 0) break;
      const plan = lists.plan(thread, era, known, items);
      return { ...plan, size: plan.known.size };
    }
  }
  const before = sink.blobs.size;
  const tree = serde.toTree(value, sink, where);
  const plan = planValue(serde, lists, thread, era, tree, sink);
  let size = plan.known?.size ?? plan.json.length;
  let i = 0;
  for (const data of sink.blobs.values()) {
    if (i >= before) size += data.length;
    i += 1;
  }
  return { json: plan.json, ops: plan.ops, known: plan.known, size };
}

/** One row-to-be of a `putWrites` call. */
export interface WriteDraft {
  readonly slot: number | undefined;
  readonly body: Encoded;
}

/**
 * Encodes the writes of one call. A call whose writes are all special gives one replacing row per special channel; any
 * other call gives one row (S4).
 */
export function draftWrites(
  serde: Serde,
  writes: readonly PendingWrite[],
  task: string,
  path: string,
  sink: BlobCollector,
  asList: (channel: string, value: unknown, where: () => string) => string | undefined,
): readonly WriteDraft[] {
  const node = nodeOfPath(path);
  const entry = (idx: number, channel: string, value: unknown): string => {
    const where = () =>
      `channel ${JSON.stringify(channel)}, written by ${node === undefined ? `task ${task}` : `node ${JSON.stringify(node)} (task ${task})`}`;
    const json = asList(channel, value, where) ?? inlineOrBlob(serde.stringify(serde.toTree(value, sink, where)), sink);
    return `[${idx},${JSON.stringify(channel)},${json}]`;
  };
  if (writes.every(([channel]) => SPECIAL_WRITES.has(String(channel)))) {
    const bySlot = new Map<number, string>();
    for (const [channel, value] of writes) {
      const slot = SPECIAL_WRITES.get(String(channel)) as number;
      bySlot.set(slot, entry(slot, String(channel), value));
    }
    return [...bySlot].map(([slot, json]) => ({ slot, body: encoded(`[${json}]`) }));
  }
  let body = "";
  for (let i = 0; i < writes.length; i += 1) {
    const [channel, value] = writes[i] as PendingWrite;
    body += `${i === 0 ? "" : ","}${entry(SPECIAL_WRITES.get(String(channel)) ?? i, String(channel), value)}`;
  }
  return [{ slot: undefined, body: encoded(`[${body}]`) }];
}

/** A stored write, not yet revived. */
export interface StoredWrite {
  readonly task: string;
  readonly path: string;
  readonly idx: number;
  readonly channel: string;
  readonly value: Tree;
}

/** All writes of a checkpoint, one per (task, idx): a special row replaces, else the earliest row wins. */
export function mergeWrites(serde: Serde, rows: readonly WriteRow[]): StoredWrite[] {
  const merged: StoredWrite[] = [];
  const byTask = new Map<string, WriteRow[]>();
  for (const row of rows) {
    const same = byTask.get(row.task);
    if (same === undefined) byTask.set(row.task, [row]);
    else same.push(row);
  }
  for (const taskRows of byTask.values()) {
    taskRows.sort((a, b) => a.slot - b.slot);
    const taken = taskRows.length > 1 ? new Set<number>() : undefined;
    for (const row of taskRows) {
      for (const [idx, channel, value] of serde.parse(payload(row.body)) as unknown as [number, string, Tree][]) {
        if (taken?.has(idx)) continue;
        taken?.add(idx);
        merged.push({ task: row.task, path: row.path, idx, channel, value });
      }
    }
  }
  return merged;
}
