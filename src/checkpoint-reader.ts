/** Reads stored checkpoints back into LangGraph's tuples. Every read builds fresh objects. */

import { isDeepStrictEqual } from "node:util";
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointPendingWrite,
  type CheckpointTuple,
  compareWritesSortKeys,
  type DeltaChannelHistory,
  maxChannelVersion,
  writesSortKey,
} from "@langchain/langgraph-checkpoint";
import type { Backend, StoredCheckpoint } from "./backend.ts";
import { mergeWrites, type ParsedBody, parseBody, type StoredWrite } from "./checkpoint-row.ts";
import { TASKS } from "./langgraph.ts";
import type { Encoded } from "./model.ts";
import { checkId, placeOf } from "./place.ts";
import type { Serde } from "./serde.ts";
import { ValueReader } from "./values.ts";

export interface ReadCheckpoint {
  readonly tuple: CheckpointTuple;
  readonly body: ParsedBody;
  readonly values: ValueReader;
}

export class CheckpointReader {
  readonly #backend: Backend;
  readonly #serde: Serde;

  constructor(backend: Backend, serde: Serde) {
    this.#backend = backend;
    this.#serde = serde;
  }

  /**
   * One stored checkpoint as LangGraph's tuple. `values` may be shared by the reads of one listing. With `only`, the values
   * of other channels are neither fetched nor made.
   */
  async read(
    stored: StoredCheckpoint,
    values = new ValueReader(this.#backend, this.#serde, stored.thread),
    only?: ReadonlySet<string>,
  ): Promise<ReadCheckpoint> {
    const body = parseBody(this.#serde, stored);
    const writes = this.#writesOf(stored);
    const wanted = Object.entries(body.ch).filter(([channel]) => only === undefined || only.has(channel));
    await values.fetch(rowTexts(stored), [...wanted.map(([, tree]) => tree), ...writes.map((write) => write.value)]);
    const channel_values: Record<string, unknown> = {};
    for (const [channel, tree] of wanted) {
      channel_values[channel] = values.revive(
        tree,
        () => `channel ${JSON.stringify(channel)} of checkpoint ${stored.id}`,
      );
    }
    const checkpoint: Checkpoint = {
      v: body.v,
      id: stored.id,
      ts: body.ts,
      channel_values,
      channel_versions: body.cv,
      versions_seen: body.vs,
    };
    if (body.v < 4 && stored.parent !== undefined) await this.#migrateSends(checkpoint, stored, values);
    const tuple: CheckpointTuple = {
      config: configOf(stored, stored.id),
      checkpoint,
      metadata: values.revive(body.m, () => `metadata of checkpoint ${stored.id}`) as CheckpointMetadata,
      pendingWrites: writes.map((write) => this.#pendingWrite(write, stored, values)),
    };
    if (stored.parent !== undefined) tuple.parentConfig = configOf(stored, stored.parent);
    return { tuple, body, values };
  }

  /** LangGraph's `list`: newest first by id, streamed; a limit without a filter is the store's own limit. */
  async *list(config: RunnableConfig, options: CheckpointListOptions): AsyncGenerator<CheckpointTuple> {
    const { thread_id, checkpoint_ns, checkpoint_id } = config.configurable ?? {};
    const { limit, filter } = options;
    if (limit !== undefined && limit <= 0) return;
    const before = options.before?.configurable?.["checkpoint_id"];
    const rows = this.#backend.checkpoints({
      thread: thread_id === undefined || thread_id === "" ? undefined : checkId("thread_id", String(thread_id)),
      ns: checkpoint_ns === undefined ? undefined : checkId("checkpoint_ns", String(checkpoint_ns)),
      id: checkpoint_id ? String(checkpoint_id) : undefined,
      before: before ? String(before) : undefined,
      limit: filter === undefined ? limit : undefined,
    });
    let values: { readonly thread: string; readonly reader: ValueReader } | undefined;
    let count = 0;
    for await (const stored of rows) {
      if (values?.thread !== stored.thread) {
        values = { thread: stored.thread, reader: new ValueReader(this.#backend, this.#serde, stored.thread) };
      }
      if (filter !== undefined && !(await this.#passes(stored, filter, values.reader))) continue;
      yield (await this.read(stored, values.reader)).tuple;
      count += 1;
      if (limit !== undefined && count >= limit) return;
    }
  }

  /** The writes to DeltaChannels along the parent chain, each channel back to its last stored value. */
  async deltaHistory(
    config: RunnableConfig,
    channels: readonly string[],
  ): Promise<Record<string, DeltaChannelHistory>> {
    const collected = new Map<string, CheckpointPendingWrite[]>(channels.map((channel) => [channel, []]));
    const seeds = new Map<string, unknown>();
    const remaining = new Set(channels);
    const { thread, ns, checkpoint } = placeOf(config);
    const id = checkpoint ?? (await this.#backend.load(thread, ns, undefined)).head;
    if (id !== undefined && channels.length > 0) {
      const values = new ValueReader(this.#backend, this.#serde, thread);
      for await (const stored of this.#backend.ancestors(thread, ns, id)) {
        if (stored.id === id) continue;
        await this.#collectDelta(stored, values, remaining, collected, seeds);
        if (remaining.size === 0) break;
      }
    }
    const history: Record<string, DeltaChannelHistory> = {};
    for (const channel of channels) {
      const writes = (collected.get(channel) ?? []).reverse() as DeltaChannelHistory["writes"];
      history[channel] = seeds.has(channel) ? { writes, seed: seeds.get(channel) } : { writes };
    }
    return history;
  }

  async #collectDelta(
    stored: StoredCheckpoint,
    values: ValueReader,
    remaining: Set<string>,
    collected: Map<string, CheckpointPendingWrite[]>,
    seeds: Map<string, unknown>,
  ): Promise<void> {
    const body = parseBody(this.#serde, stored);
    const writes = this.#writesOf(stored).filter((write) => remaining.has(write.channel));
    const seeded = [...remaining].filter((channel) => Object.hasOwn(body.ch, channel));
    await values.fetch(rowTexts(stored), [
      ...writes.map((write) => write.value),
      ...seeded.map((channel) => body.ch[channel]),
    ]);
    for (const write of writes.reverse()) collected.get(write.channel)?.push(this.#pendingWrite(write, stored, values));
    for (const channel of seeded) {
      seeds.set(
        channel,
        values.revive(body.ch[channel], () => `channel ${JSON.stringify(channel)} of checkpoint ${stored.id}`),
      );
      remaining.delete(channel);
    }
  }

  #writesOf(stored: StoredCheckpoint): StoredWrite[] {
    const writes = mergeWrites(this.#serde, stored.writes);
    if (writes.length > 1) {
      writes.sort((a, b) =>
        compareWritesSortKeys(writesSortKey(a.path, a.task, a.idx), writesSortKey(b.path, b.task, b.idx)),
      );
    }
    return writes;
  }

  #pendingWrite(write: StoredWrite, stored: StoredCheckpoint, values: ValueReader): CheckpointPendingWrite {
    const value = values.revive(
      write.value,
      () => `the write of task ${write.task} to ${JSON.stringify(write.channel)} on checkpoint ${stored.id}`,
    );
    return [write.task, write.channel, value];
  }

  async #passes(stored: StoredCheckpoint, filter: Record<string, unknown>, values: ValueReader): Promise<boolean> {
    const body = parseBody(this.#serde, stored);
    await values.fetch([stored.body], []);
    const metadata = values.revive(body.m, () => `metadata of checkpoint ${stored.id}`) as Record<string, unknown>;
    return Object.entries(filter).every(
      ([key, value]) => Object.hasOwn(metadata, key) && isDeepStrictEqual(metadata[key], value),
    );
  }

  /** Checkpoints of LangGraph before version 4 keep their Sends as writes of the parent. */
  async #migrateSends(checkpoint: Checkpoint, stored: StoredCheckpoint, values: ValueReader): Promise<void> {
    const parent = await this.#backend.load(stored.thread, stored.ns, stored.parent);
    if (parent.checkpoint === undefined) return;
    const from = { ...parent.checkpoint, writes: parent.writes };
    const sends = this.#writesOf(from).filter((write) => write.channel === TASKS);
    await values.fetch(
      rowTexts(from),
      sends.map((write) => write.value),
    );
    checkpoint.channel_values[TASKS] = sends.map((write) => this.#pendingWrite(write, from, values)[2]);
    const versions = Object.values(checkpoint.channel_versions);
    checkpoint.channel_versions[TASKS] = versions.length > 0 ? maxChannelVersion(...versions) : 1;
  }
}

function rowTexts(stored: StoredCheckpoint): Encoded[] {
  return [stored.body, ...stored.writes.map((row) => row.body)];
}

function configOf(stored: StoredCheckpoint, id: string): RunnableConfig {
  return { configurable: { thread_id: stored.thread, checkpoint_ns: stored.ns, checkpoint_id: id } };
}
