/**
 * LangGraph's checkpoint saver, once, over any backend.
 *
 * Owns: the translation of LangGraph's calls into commits and back, the head rule (run-state.ts), what this process
 * knows of the newest checkpoint of each namespace (so that unchanged channels and list prefixes are not written again),
 * and the barrier that effects wait for. Does not own: where rows are kept, and when they become durable.
 *
 * - S1 A put is acknowledged in sync durability when it is durable; in async durability when it is queued, in order.
 *   The last put of a run, and every `putWrites`, settle only when durable: so all is durable when `invoke` settles.
 * - S2 One lineage per thread in the root namespace. A refused run stays refused. `putWrites` is refused only for a
 *   refused run, never for arriving before its checkpoint or after the next one: both are normal.
 * - S3 No branch writes a slot that another branch can read: rows are keyed by checkpoint, lists are only appended to.
 * - S4 Special writes replace; any other call is first-writer-wins; order is (task path, task id, index).
 * - S5 "Latest" is the stored head, not the writer's clock. History is listed by descending id, as LangGraph does.
 */

import { randomUUID } from "node:crypto";
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type DeltaChannelHistory,
  type PendingWrite,
} from "@langchain/langgraph-checkpoint";
import { type Backend, closedError, type Loaded, type Op } from "./backend.ts";
import { CheckpointReader } from "./checkpoint-reader.ts";
import {
  type ChannelSplit,
  checkpointBody,
  draftChannel,
  draftWrites,
  type Form,
  type Forms,
  splitChannels,
} from "./checkpoint-row.ts";
import { CommitQueue, MAX_WAITING } from "./commit-queue.ts";
import { EffectLedger, type SettleResult } from "./effect-ledger.ts";
import type { EffectRecord, SettleDecision } from "./effect-record.ts";
import { HoldfastError, isHoldfastError } from "./errors.ts";
import { Journal } from "./journal.ts";
import { KnownState } from "./known-state.ts";
import { durabilityOf, enclosingScratchpad, type GraphConfig, watchRetries } from "./langgraph.ts";
import { isPlainArray, liveItems } from "./lists.ts";
import { type Place, placeOf } from "./place.ts";
import { RUN_KEY, RunState, RunThread } from "./run-state.ts";
import { Serde, type Tree, type ValueType } from "./serde.ts";
import { SizeWatch } from "./size-watch.ts";
import { BlobCollector, listReference } from "./values.ts";

export interface CheckpointerOptions {
  /** Classes of the user that may be kept in state, see {@link ValueType}. */
  readonly types?: readonly ValueType[];
  /** Largest value in characters, its large strings included. Default 100,000,000. */
  readonly maxValueChars?: number;
  /** Path of the audit journal (JSON lines); none by default. */
  readonly journal?: string;
}

const BRAND = Symbol.for("holdfast.checkpointer");

/** Threads looked at outside a run (getState, updateState) that are remembered for the head rule. */
const OUTSIDE_MAX = 1024;

/** Keeps LangGraph's checkpoints in a {@link Backend}. One per store and process is enough. */
export class Checkpointer extends BaseCheckpointSaver {
  readonly backend: Backend;
  readonly effectLedger: EffectLedger;
  readonly journal: Journal | undefined;
  readonly #serde: Serde;
  readonly #queue: CommitQueue;
  readonly #known: KnownState;
  readonly #sizes = new SizeWatch();
  readonly #reader: CheckpointReader;
  readonly #memo = new Map<string, string>();
  readonly #outsideRuns = new Map<string, RunThread>();
  #closing: Promise<void> | undefined;

  constructor(backend: Backend, options: CheckpointerOptions = {}) {
    super();
    this.backend = backend;
    this.#serde = new Serde({
      ...(options.types === undefined ? {} : { types: options.types }),
      ...(options.maxValueChars === undefined ? {} : { maxValueChars: options.maxValueChars }),
    });
    this.#queue = new CommitQueue(backend);
    this.#known = new KnownState(backend, this.#serde);
    this.#reader = new CheckpointReader(backend, this.#serde);
    this.journal = options.journal === undefined ? undefined : new Journal(options.journal);
    this.effectLedger = new EffectLedger(backend, this.#serde, this.#queue, this.#memo, this.journal);
    Object.defineProperty(this, BRAND, { value: true });
  }

  async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    this.#assertOpen();
    const inRun = (config as GraphConfig).control !== undefined;
    // LangGraph's contract: a look-up without a thread finds nothing. A run without one is told so.
    if (!inRun && config.configurable?.["thread_id"] === undefined) return undefined;
    const place = placeOf(config);
    // What a run loads must hold everything it was promised: its own earlier writes may still wait.
    if (this.#queue.waiting > 0) await this.#queue.flush();
    const loaded = await this.backend.load(place.thread, place.ns, place.checkpoint);
    const thread = inRun ? this.#enterRun(config as GraphConfig, place, loaded) : this.#lookFromOutside(place, loaded);
    if (loaded.checkpoint === undefined) {
      if (inRun && place.checkpoint !== undefined) throw unknownCheckpoint(place);
      return undefined;
    }
    thread.know(place.ns, loaded.checkpoint.id);
    const read = await this.#reader.read({ ...loaded.checkpoint, writes: loaded.writes });
    if (inRun) this.#known.loaded(place.thread, place.ns, loaded.checkpoint.id, read);
    return read.tuple;
  }

  async *list(config: RunnableConfig, options: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    this.#assertOpen();
    if (this.#queue.waiting > 0) await this.#queue.flush();
    yield* this.#reader.list(config, options);
  }

  put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    try {
      this.#assertOpen();
      const place = placeOf(config);
      const thread = this.#threadOf(config as GraphConfig, place);
      const sink = new BlobCollector(this.#memo);
      const copy = metadata.source === "fork" && this.#runOf(config as GraphConfig) === undefined;
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
        (error: unknown) => this.#putFailed(config, error),
      );
    } catch (error) {
      return this.#putFailed(config, error);
    }
  }

  putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string, taskPath = ""): Promise<void> {
    try {
      this.#assertOpen();
      const place = placeOf(config);
      if (place.checkpoint === undefined) throw missingCheckpoint(place, taskId);
      if (writes.length === 0) return Promise.resolve();
      const thread = this.#threadOf(config as GraphConfig, place);
      thread?.assertMayWrite();
      const sink = new BlobCollector(this.#memo);
      const listOps: Op[] = [];
      const era = thread?.era ?? 0;
      const drafts = draftWrites(this.#serde, writes, taskId, taskPath, sink, (channel, value, where) =>
        this.#writeAsList(place, thread, channel, value, sink, where, listOps),
      );
      const run = this.#runOf(config as GraphConfig)?.id;
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
            run,
            slot: draft.slot,
            body: draft.body,
          }),
        ),
      ];
      if (thread === undefined)
        return this.#eraOf(place.thread).then((now) => this.#queue.enqueue(build(now), undefined, { urgent: true }));
      const sync = durabilityOf(config as GraphConfig) !== "async" || run === undefined;
      const stored = this.#enqueue(thread, run !== undefined, build(era), undefined, sync);
      // The run has gone on to the tasks of its last checkpoint: the put before it need not be waited for.
      if (this.#queue.waiting < MAX_WAITING) thread.release(place.ns);
      return stored;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Removes everything of the thread: checkpoints, writes, values, effects (those with a `key` of their own stay, without
   * the thread's id). Runs that have loaded the thread are refused from then on; a run that starts afterwards begins a
   * new thread. Durable when it resolves.
   */
  async deleteThread(threadId: string): Promise<void> {
    this.#assertOpen();
    const { thread } = placeOf({ configurable: { thread_id: threadId } });
    this.#known.drop(thread);
    this.#outsideRuns.delete(thread);
    await this.#queue.enqueue([{ kind: "deleteThread", thread }], undefined, { urgent: true });
    this.#known.drop(thread);
  }

  override async getDeltaChannelHistory(options: {
    config: RunnableConfig;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    this.#assertOpen();
    if (this.#queue.waiting > 0) await this.#queue.flush();
    return this.#reader.deltaHistory(options.config, options.channels);
  }

  /** Resolves when everything handed over so far is durable, or was refused (its own promise says so). */
  async barrier(): Promise<void> {
    this.#assertOpen();
    await this.#queue.flush();
  }

  /** Recorded effects, decoded: of a thread, or the one under a key. */
  async effects(query: { readonly thread: string } | { readonly key: string }): Promise<readonly EffectRecord[]> {
    this.#assertOpen();
    return this.effectLedger.records(query);
  }

  /**
   * A person's word on an effect whose outcome is unknown. The first decision wins: the same one again is answered with
   * `replayed: true`, another one is refused (SETTLE_CONFLICT). From any process; the thread goes on at its next
   * `invoke(null)`.
   *
   * @param key the effect's key, as it stands in the wait and in `effects()`
   * @param decision `{ done: value }` it happened, with this outcome · `{ notDone: true }` it did not: run it again ·
   *   `{ giveUp: reason }` the effect throws from now on
   * @param by who decides; kept with the decision
   * @throws UNKNOWN_EFFECT · SETTLE_CONFLICT · EFFECT_IN_DOUBT: `notDone` while its owner may still be running it
   */
  async settle(key: string, decision: SettleDecision, { by }: { readonly by: string }): Promise<SettleResult> {
    this.#assertOpen();
    return this.effectLedger.settle(key, decision, by);
  }

  /** Stores what waits and releases the backend. Idempotent; every later call fails with CLOSED. */
  async close(): Promise<void> {
    this.#closing ??= (async () => {
      await this.#queue.close();
      await this.journal?.close();
      await this.backend.close();
    })();
    await this.#closing;
  }

  get closed(): boolean {
    return this.#closing !== undefined;
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw closedError(this.backend.name);
  }

  #runOf(config: GraphConfig): RunState | undefined {
    return config.configurable?.[RUN_KEY] as RunState | undefined;
  }

  #enterRun(config: GraphConfig, place: Place, loaded: Loaded): RunThread {
    const configurable = config.configurable as Record<PropertyKey, unknown>;
    let run = configurable[RUN_KEY] as RunState | undefined;
    if (run === undefined) {
      run = new RunState(randomUUID());
      configurable[RUN_KEY] = run;
    }
    const thread = run.load(place.thread, loaded.era);
    thread.namespaces.set(place.ns, durabilityOf(config));
    thread.failed.delete(place.ns);
    // A subgraph in a node under retryPolicy goes on in the next attempt, instead of starting anew under another id.
    const enclosing = enclosingScratchpad(config);
    if (enclosing !== undefined) watchRetries(enclosing);
    if (place.ns === "") thread.loadedRoot(loaded.checkpoint?.id ?? null, loaded.head ?? null);
    return thread;
  }

  /** `updateState` has no run: what it looks at is remembered per thread. */
  #lookFromOutside(place: Place, loaded: Loaded): RunThread {
    let thread = this.#outsideRuns.get(place.thread);
    if (thread?.era !== loaded.era) {
      thread = new RunThread(place.thread, loaded.era);
      this.#outsideRuns.set(place.thread, thread);
      if (this.#outsideRuns.size > OUTSIDE_MAX)
        this.#outsideRuns.delete(this.#outsideRuns.keys().next().value as string);
    }
    if (place.ns === "") {
      thread.lookedAtRoot(loaded.checkpoint?.id ?? null, loaded.head ?? null, loaded.checkpoint?.parent ?? null);
    }
    return thread;
  }

  #threadOf(config: GraphConfig, place: Place): RunThread | undefined {
    return this.#runOf(config)?.thread(place.thread) ?? this.#outsideRuns.get(place.thread);
  }

  async #eraOf(thread: string): Promise<number> {
    return (await this.backend.load(thread, "", undefined)).era;
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
    const body = checkpointBody(this.#serde, checkpoint, metadata, forms, sink);
    const run = this.#runOf(config as GraphConfig);
    const inRun = run?.thread(place.thread) === thread;
    ops.unshift(...sink.ops(place.thread, thread.era));
    ops.push({
      kind: "checkpoint",
      thread: place.thread,
      era: thread.era,
      ns: place.ns,
      id: checkpoint.id,
      parent: place.checkpoint,
      source: metadata.source ?? "loop",
      body,
      heads: this.#headsFor(place, thread, inRun, metadata),
    });
    this.#known.put(place.thread, place.ns, checkpoint.id, forms);
    this.#sizes.look({ thread: place.thread, ns: place.ns, checkpoint: checkpoint.id }, forms);
    const sync = !inRun || durabilityOf(config as GraphConfig) !== "async";
    const begins = this.journal !== undefined && place.ns === "" && place.checkpoint === undefined;
    const onQueued = sync || begins ? undefined : (release: () => void) => thread.early(place.ns, release);
    const saved: RunnableConfig = {
      configurable: { thread_id: place.thread, checkpoint_ns: place.ns, checkpoint_id: checkpoint.id },
    };
    const stored = this.#enqueue(thread, inRun, ops, saved, sync, onQueued);
    thread.know(place.ns, checkpoint.id);
    if (place.ns === "" && metadata.source === "loop") thread.complete(place.checkpoint);
    if (!begins) return stored;
    return stored
      .then(() => this.#journalCreated(place.thread, thread.era, saved))
      .catch((error: unknown) => this.#putFailed(config, error));
  }

  async #journalCreated(thread: string, era: number, saved: RunnableConfig): Promise<RunnableConfig> {
    await this.journal?.created(thread, era);
    return saved;
  }

  /** LangGraph calls no put of a graph's run after one that failed: effects must not wait for its later checkpoints. */
  #putFailed(config: RunnableConfig, error: unknown): Promise<never> {
    const { thread_id, checkpoint_ns } = config.configurable ?? {};
    const thread = this.#runOf(config as GraphConfig)?.thread(String(thread_id));
    if (thread !== undefined) {
      const message = error instanceof Error ? error.message : String(error);
      const failed = (cause: unknown) =>
        new HoldfastError("STORAGE_FAILED", `A checkpoint could not be put: ${message}`, { cause });
      thread.fail(String(checkpoint_ns ?? ""), isHoldfastError(error) ? error : failed(error));
      this.#known.drop(thread.thread);
    }
    return Promise.reject(error);
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
    const writer = thread ?? new RunThread(place.thread, await this.#eraOf(place.thread));
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
      onQueued,
      onFailure: (error) => {
        this.#known.drop(thread.thread);
        if (inRun && isHoldfastError(error)) thread.refuse(error);
      },
    });
  }
}

/** Whether a saver is one of ours, also from another copy of the package. */
export function isCheckpointer(saver: unknown): saver is Checkpointer {
  return typeof saver === "object" && saver !== null && (saver as Record<symbol, unknown>)[BRAND] === true;
}

/** A changed channel's value, captured as a tree because the parent had to be looked up. */
class Captured {
  readonly tree: Tree;
  constructor(tree: Tree) {
    this.tree = tree;
  }
}

function unknownCheckpoint(place: Place): HoldfastError {
  return new HoldfastError(
    "UNKNOWN_CHECKPOINT",
    `Thread ${JSON.stringify(place.thread)} has no checkpoint ${JSON.stringify(place.checkpoint)}${place.ns === "" ? "" : ` in namespace ${JSON.stringify(place.ns)}`}. ` +
      "Use a checkpoint_id of this thread (app.getStateHistory lists them), or leave it out to continue the newest state. " +
      'A node that invokes another thread must not pass `checkpoint_ns: ""`: LangGraph then looks the outer checkpoint up there.',
    { details: { thread: place.thread, ns: place.ns, checkpoint: place.checkpoint } },
  );
}

function missingCheckpoint(place: Place, task: string): HoldfastError {
  return new HoldfastError(
    "INVALID_ARGUMENT",
    `putWrites for task ${task} of thread ${JSON.stringify(place.thread)} names no checkpoint_id.`,
    {
      details: { thread: place.thread, task },
    },
  );
}
