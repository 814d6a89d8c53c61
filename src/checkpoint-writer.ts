/**
 * Puts of checkpoints and task writes: what each becomes as one commit, and what is known of the newest state so that
 * unchanged channels and list prefixes are not written again.
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import type { ChannelVersions, Checkpoint, CheckpointMetadata, PendingWrite } from "@langchain/langgraph-checkpoint";
import { type Backend, eraOf, type Op } from "./backend.ts";
import {
  type ChannelSplit,
  checkpointBody,
  draftChannel,
  draftWrites,
  type Form,
  type Forms,
  splitChannels,
} from "./checkpoint-row.ts";
import { type CommitQueue, MAX_WAITING } from "./commit-queue.ts";
import { HoldfastError, isHoldfastError } from "./errors.ts";
import type { Journal } from "./journal.ts";
import type { KnownState } from "./known-state.ts";
import { branchAfter, withPolicy } from "./fork-mark.ts";
import { durabilityOf, type GraphConfig, INTERRUPT, isHandlerPath, NULL_TASK_ID, withoutMarks } from "./langgraph.ts";
import { isPlainArray, liveItems } from "./lists.ts";
import type { Place } from "./place.ts";
import { RunThread, runOf } from "./run-state.ts";
import type { Serde, Tree } from "./serde.ts";
import { SizeWatch } from "./size-watch.ts";
import type { Write } from "./thread-waits.ts";
import { BlobCollector, listReference } from "./values.ts";
import { waitsOfPut, waitsOfWrites } from "./wait-commits.ts";
import type { WaitLedger } from "./wait-ledger.ts";

/** What the writer shares with the checkpointer around it. */
export interface WriterParts {
  readonly backend: Backend;
  readonly serde: Serde;
  readonly queue: CommitQueue;
  readonly known: KnownState;
  readonly waits: WaitLedger;
  /** String → hash of recent blobs. */
  readonly memo: Map<string, string>;
  readonly journal: Journal | undefined;
}

export class CheckpointWriter {
  readonly #backend: Backend;
  readonly #serde: Serde;
  readonly #queue: CommitQueue;
  readonly #known: KnownState;
  readonly #waits: WaitLedger;
  readonly #memo: Map<string, string>;
  readonly #journal: Journal | undefined;
  readonly #sizes = new SizeWatch();

  constructor(parts: WriterParts) {
    this.#backend = parts.backend;
    this.#serde = parts.serde;
    this.#queue = parts.queue;
    this.#known = parts.known;
    this.#waits = parts.waits;
    this.#memo = parts.memo;
    this.#journal = parts.journal;
  }

  /** `thread`: what the run, or the last look from outside, knows of the thread; undefined for a raw put. */
  put(
    config: RunnableConfig,
    place: Place,
    thread: RunThread | undefined,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    try {
      const sink = new BlobCollector(this.#memo);
      const copy = metadata.source === "fork" && runOf(config as GraphConfig) === undefined;
      const split = splitChannels(checkpoint, newVersions as Record<string, string | number>, copy);
      const parent = this.#known.forms(place.thread, place.ns, place.checkpoint, split);
      if (thread !== undefined && parent !== undefined) {
        thread.assertMayWrite();
        return this.#queuePut(config, place, thread, checkpoint, metadata, split, parent, sink);
      }
      // The parent, or the thread's era, is not known here: capture the values now, look the rest up.
      const captured = split.changed.map(([channel, value, version]) => {
        const tree = this.#serde.toTree(value, sink, () => `channel ${JSON.stringify(channel)}`);
        return [channel, new Captured(tree), version] as const;
      });
      return this.#putCold(config, place, thread, checkpoint, metadata, { ...split, changed: captured }, sink).catch(
        (error: unknown) => this.putFailed(config, error),
      );
    } catch (error) {
      return this.putFailed(config, error);
    }
  }

  putWrites(
    config: RunnableConfig,
    place: Place,
    thread: RunThread | undefined,
    given: readonly Write[],
    taskId: string,
    taskPath: string,
  ): Promise<void> {
    try {
      if (place.checkpoint === undefined) throw missingCheckpoint(place, taskId);
      if (given.length === 0) return Promise.resolve();
      thread?.assertMayWrite();
      const run = runOf(config as GraphConfig);
      const era = thread?.era ?? 0;
      const inRun = thread !== undefined && run?.thread(place.thread) === thread;
      if (inRun && isCommand(place, taskId, given)) thread.commanded = place.checkpoint;
      const { ops: waitOps, writes } = inRun
        ? waitsOfWrites(this.#waits, thread, config as GraphConfig, place, taskId, given)
        : { ops: [], writes: given };
      const sink = new BlobCollector(this.#memo);
      const listOps: Op[] = [];
      const drafts = draftWrites(
        this.#serde,
        writes as PendingWrite[],
        taskId,
        taskPath,
        sink,
        (channel, value, where) => this.#writeAsList(place, thread, channel, value, sink, where, listOps),
      );
      const build = (now: number): Op[] => [
        ...sink.ops(place.thread, now),
        ...listOps,
        ...drafts.map(
          (draft): Op => ({
            kind: "writes",
            thread: place.thread,
            era: now,
            ns: place.ns,
            checkpoint: place.checkpoint as string,
            task: taskId,
            path: taskPath,
            // LangGraph runs a finished error handler once more when its thread goes on: what it says then is no other run's work.
            run: isHandlerPath(taskPath) ? undefined : run?.id,
            slot: draft.slot,
            body: draft.body,
          }),
        ),
        ...waitOps,
      ];
      if (thread === undefined)
        return eraOf(this.#backend, place.thread).then((now) =>
          this.#queue.enqueue(build(now), undefined, { urgent: true }),
        );
      const ops = build(era);
      if (ops.length === 0) return Promise.resolve();
      // Who goes on with a paused thread loads it first: a waiting thread keeps nothing in memory.
      if (place.ns === "" && writes.some(([channel]) => channel === INTERRUPT)) this.#known.drop(place.thread);
      const sync = durabilityOf(config as GraphConfig) !== "async" || run === undefined || waitOps.length > 0;
      const stored = this.#enqueue(thread, run !== undefined, ops, undefined, sync);
      // The run has gone on to the tasks of its last checkpoint: the put before it need not be waited for.
      if (this.#queue.waiting < MAX_WAITING) thread.release(place.ns);
      return stored;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** LangGraph calls no put of a graph's run after one that failed: effects must not wait for its later checkpoints. */
  putFailed(config: RunnableConfig, error: unknown): Promise<never> {
    const { thread_id, checkpoint_ns } = config.configurable ?? {};
    const thread = runOf(config as GraphConfig)?.thread(String(thread_id));
    if (thread !== undefined) {
      const message = error instanceof Error ? error.message : String(error);
      const failed = (cause: unknown) =>
        new HoldfastError("STORAGE_FAILED", `A checkpoint could not be put: ${message}`, { cause });
      thread.fail(String(checkpoint_ns ?? ""), isHoldfastError(error) ? error : failed(error));
      this.#known.drop(thread.thread);
    }
    return Promise.reject(error);
  }

  #queuePut(
    config: RunnableConfig,
    place: Place,
    thread: RunThread,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    split: ChannelSplit,
    parent: Forms,
    sink: BlobCollector,
  ): Promise<RunnableConfig> {
    const { forms, ops } = this.#formsOf(place, thread, split, parent, sink);
    const inRun = runOf(config as GraphConfig)?.thread(place.thread) === thread;
    const source = metadata.source ?? "loop";
    const waitOps = waitsOfPut(this.#waits, thread, config as GraphConfig, place, checkpoint, source, inRun);
    const branch = place.ns === "" ? branchAfter(thread, place.checkpoint, source, checkpoint) : undefined;
    const marked = withPlainParents(branch === undefined ? metadata : withPolicy(metadata, branch));
    const clean = withoutMarks(checkpoint, thread.seen.get(place.ns));
    const body = checkpointBody(this.#serde, clean, marked, forms, sink, branch?.branched);
    ops.unshift(...sink.ops(place.thread, thread.era));
    ops.push({
      kind: "checkpoint",
      thread: place.thread,
      era: thread.era,
      ns: place.ns,
      id: checkpoint.id,
      parent: place.checkpoint,
      source,
      body,
      heads: this.#headsFor(place, thread, inRun, metadata),
    });
    ops.push(...waitOps);
    this.#known.put(place.thread, place.ns, checkpoint.id, forms);
    this.#sizes.look({ thread: place.thread, ns: place.ns, checkpoint: checkpoint.id }, forms);
    const sync = !inRun || durabilityOf(config as GraphConfig) !== "async";
    const begins = this.#journal !== undefined && place.ns === "" && place.checkpoint === undefined;
    const onQueued = sync || begins ? undefined : (release: () => void) => thread.early(place.ns, release);
    const saved: RunnableConfig = {
      configurable: { thread_id: place.thread, checkpoint_ns: place.ns, checkpoint_id: checkpoint.id },
    };
    const stored = this.#enqueue(thread, inRun, ops, saved, sync, onQueued);
    thread.know(place.ns, checkpoint.id);
    if (branch !== undefined) thread.putBranch(checkpoint.id, branch);
    if (place.ns === "" && metadata.source === "loop") thread.complete(place.checkpoint);
    if (!begins) return stored;
    return stored
      .then(() => this.#journalCreated(place.thread, thread.era, saved))
      .catch((error: unknown) => this.putFailed(config, error));
  }

  /** What each channel is in the new checkpoint's row, and the operations that store what is new of it. */
  #formsOf(
    place: Place,
    thread: RunThread,
    split: ChannelSplit,
    parent: Forms,
    sink: BlobCollector,
  ): { readonly forms: Map<string, Form>; readonly ops: Op[] } {
    const forms = new Map<string, Form>();
    const ops: Op[] = [];
    for (const [channel, value, version] of split.changed) {
      const before = parent.get(channel);
      if (value instanceof Captured) {
        this.#formCaptured(thread, channel, value, version, before, forms, ops, sink);
        continue;
      }
      const candidates = [this.#known.written(place, channel), before?.known];
      const draft = draftChannel(
        this.#serde,
        this.#known.lists,
        place.thread,
        thread.era,
        channel,
        value,
        candidates,
        sink,
      );
      forms.set(channel, { version, json: draft.json, known: draft.known, size: draft.size });
      for (const op of draft.ops) ops.push(op);
    }
    for (const [channel, version] of split.carried) {
      const form = parent.get(channel);
      if (form !== undefined && form.version === version) forms.set(channel, form);
    }
    return { forms, ops };
  }

  async #journalCreated(thread: string, era: number, saved: RunnableConfig): Promise<RunnableConfig> {
    await this.#journal?.created(thread, era);
    return saved;
  }

  /** Raw puts (no run, nothing loaded, LangGraph's own "loop") are exempt: tools and the public suite make them. */
  #headsFor(
    place: Place,
    thread: RunThread,
    inRun: boolean,
    metadata: CheckpointMetadata,
  ): readonly (string | null)[] | undefined {
    if (place.ns !== "") return undefined;
    if (!inRun && (!thread.looked || metadata.source === "loop" || metadata.source === undefined)) return undefined;
    return thread.headsFor(place.checkpoint ?? null, !inRun && metadata.source === "fork");
  }

  #formCaptured(
    thread: RunThread,
    channel: string,
    captured: Captured,
    version: string | number,
    before: Form | undefined,
    forms: Map<string, Form>,
    ops: Op[],
    sink: BlobCollector,
  ): void {
    const plan = this.#known.planCaptured(thread.thread, thread.era, captured.tree, before?.known, sink);
    forms.set(channel, { version, json: plan.json, known: plan.known, size: plan.known?.size ?? plan.json.length });
    for (const op of plan.ops) ops.push(op);
  }

  async #putCold(
    config: RunnableConfig,
    place: Place,
    thread: RunThread | undefined,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    split: ChannelSplit,
    sink: BlobCollector,
  ): Promise<RunnableConfig> {
    const copy = structuredClone({ ...checkpoint, channel_values: {} });
    const meta = { ...metadata };
    if (this.#queue.waiting > 0) await this.#queue.flush();
    const writer = thread ?? new RunThread(place.thread, await eraOf(this.#backend, place.thread));
    writer.assertMayWrite();
    const parent = await this.#known.fetchForms(place.thread, place.ns, place.checkpoint);
    return this.#queuePut(config, place, writer, copy, meta, split, parent, sink);
  }

  /** A task that wrote back a whole stored list, grown: the write refers to the list, and so will the channel. */
  #writeAsList(
    place: Place,
    thread: RunThread | undefined,
    channel: string,
    value: unknown,
    sink: BlobCollector,
    where: () => string,
    ops: Op[],
  ): string | undefined {
    if (thread === undefined || !isPlainArray(value)) return undefined;
    const known = this.#known.list(place, channel);
    if (known === undefined || value.length < known.length) return undefined;
    const items = liveItems(this.#serde, value, sink, where);
    if (this.#known.lists.samePrefix(known, items) !== known.length) return undefined;
    const plan = this.#known.lists.plan(place.thread, thread.era, known, items);
    for (const op of plan.ops) ops.push(op);
    this.#known.wrote(place, channel, plan.known);
    return listReference(plan.known.list, plan.known.length);
  }

  #enqueue<T>(
    thread: RunThread,
    inRun: boolean,
    ops: readonly Op[],
    value: T,
    urgent: boolean,
    onQueued?: (release: () => void) => void,
  ): Promise<T> {
    return this.#queue.enqueue(ops, value, {
      chain: inRun ? thread : undefined,
      urgent,
      guard: thread,
      fence: thread.fence,
      onQueued,
      onFailure: (error) => {
        this.#known.drop(thread.thread);
        if (inRun && isHoldfastError(error)) thread.refuse(error);
      },
    });
  }
}

/** A changed channel's value, captured as a tree because the parent had to be looked up. */
class Captured {
  readonly tree: Tree;
  constructor(tree: Tree) {
    this.tree = tree;
  }
}

/** LangGraph keeps the checkpoint map as `parents`; what a run has left in it is not for the store. */
function withPlainParents(metadata: CheckpointMetadata): CheckpointMetadata {
  if (metadata.parents === undefined || Object.getOwnPropertySymbols(metadata.parents).length === 0) return metadata;
  return { ...metadata, parents: Object.fromEntries(Object.entries(metadata.parents)) };
}

/** The update or jump of a command. */
const isCommand = (place: Place, task: string, writes: readonly Write[]): boolean =>
  place.ns === "" && task === NULL_TASK_ID && writes.some(([channel]) => channel !== "__resume__");

function missingCheckpoint(place: Place, task: string): HoldfastError {
  return new HoldfastError(
    "INVALID_ARGUMENT",
    `putWrites for task ${task} of thread ${JSON.stringify(place.thread)} names no checkpoint_id.`,
    {
      details: { thread: place.thread, task },
    },
  );
}
