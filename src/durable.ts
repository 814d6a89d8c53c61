/**
 * A graph that stays on the saver it has, with effects and waits kept beside it in a Holdfast backend, the ledger.
 *
 * The ledger gets every checkpoint without its values: id, parent, versions and metadata. With that the barrier, the lineage
 * of effects and the waits work as they do on a checkpointer of ours. The two stores are two commits, so their order matters:
 *
 * - D1 A checkpoint is in the ledger only after the official saver has acknowledged it, and an effect waits for both: what
 *   an effect hangs on cannot be lost with a kill. What a loss of power takes is what the official saver may lose.
 * - D2 So are pauses and results of tasks. Answers are in the ledger only, as decisions, and stay there until the official saver
 *   has what the task made of them.
 * - D3 What a kill has kept from the ledger is put there at the next load, which follows the official saver's latest.
 *
 * Not promised, because the official saver decides:
 * - S2 One lineage: of two runs on one thread the overtaken one is refused by the ledger, and starts no further effect; but its
 *   last checkpoint stands in the official saver, and may be its latest.
 * - S3 Isolation of forks: where the official saver mixes branches (PostgresSaver keeps one value for equal versions of a
 *   channel), they stay mixed.
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import type {
  BaseCheckpointSaver,
  ChannelVersions,
  Checkpoint,
  CheckpointListOptions,
  CheckpointMetadata,
  CheckpointTuple,
  DeltaChannelHistory,
  PendingWrite,
} from "@langchain/langgraph-checkpoint";
import { AdoptTarget, ThreadTarget } from "./adopt/thread-target.ts";
import { Checkpointer, isCheckpointer } from "./checkpointer.ts";
import { endWaits, followWaits, hasPauses } from "./durable-waits.ts";
import { HoldfastError, isHoldfastError } from "./errors.ts";
import {
  type GraphConfig,
  INTERRUPT,
  isInterruptId,
  NULL_TASK_ID,
  RESUME,
  withMarks,
  withoutMarks,
} from "./langgraph.ts";
import { type Place, placeOf } from "./place.ts";
import { type RunThread, runOf } from "./run-state.ts";
import { withOrigin } from "./thread-origin.ts";

export interface DurableOptions {
  /** Where effects and waits are kept. Closed by who opened it, after the last run. */
  readonly ledger: Checkpointer;
}

/** Ancestors that are looked at for the place where the ledger was left behind. */
const FOLLOWED_MAX = 100;

/**
 * Wraps LangGraph's own saver, so that effects, `ask`, `waitFor`, `run`, `waits()` and `answer()` work in a graph that keeps
 * its checkpoints there: `graph.compile({ checkpointer: durable(saver, { ledger }) })`.
 *
 * One lineage per thread (S2) and the isolation of forks (S3) are not promised there, and `timeTravel` is refused; a process
 * warning says so once. A thread must not be run with the bare saver at the same time.
 *
 * @param saver an official saver; its own `setup` must have been called
 * @throws INVALID_ARGUMENT
 */
export function durable(saver: BaseCheckpointSaver, { ledger }: DurableOptions): Checkpointer {
  if (isCheckpointer(saver))
    throw invalid("the saver is a Holdfast checkpointer already; compile the graph with it directly");
  if (typeof saver?.getTuple !== "function")
    throw invalid("the first argument must be a checkpoint saver of LangGraph");
  if (!isCheckpointer(ledger) || !ledger.keepsValues) throw invalid("`ledger` must be a Holdfast checkpointer");
  process.emitWarning(
    `Checkpoints are kept by ${saver.constructor.name}, effects and waits by ${ledger.backend.name}. Not promised there: one lineage ` +
      "per thread (S2) and the isolation of forks (S3). holdfast adopt takes a database over; then both are.",
    { code: "HOLDFAST_OFFICIAL_SAVER" },
  );
  return new DurableSaver(saver, ledger);
}

class DurableSaver extends Checkpointer {
  override readonly keepsValues: boolean = false;
  readonly #saver: BaseCheckpointSaver;
  readonly #ledger: Checkpointer;
  readonly #target: AdoptTarget;
  readonly #pending = new Set<Promise<unknown>>();

  constructor(saver: BaseCheckpointSaver, ledger: Checkpointer) {
    super(ledger.backend, ledger.options);
    this.#saver = saver;
    this.#ledger = ledger;
    this.#target = new AdoptTarget(this);
    this.serde = saver.serde;
  }

  override get closed(): boolean {
    return super.closed || this.#ledger.closed;
  }

  override getNextVersion(current: number | undefined): number {
    return this.#saver.getNextVersion(current);
  }

  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const inRun = (config as GraphConfig).control !== undefined;
    if (!inRun && config.configurable?.["thread_id"] === undefined) return undefined;
    const place = placeOf(config);
    await this.barrier();
    const tuple = await this.#saver.getTuple(config);
    if (tuple !== undefined) await this.#follow(place, tuple);
    else await this.#assertUnknown(place);
    await super.getTuple(config);
    if (tuple === undefined || !inRun) return tuple;
    const waits = this.#threadOf(config)?.waits.active ?? [];
    const marked = { ...tuple, checkpoint: withMarks(tuple.checkpoint) };
    return this.waitLedger.withAnswers(marked, place.ns, tuple.checkpoint.id, waits);
  }

  override async *list(config: RunnableConfig, options: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    await this.barrier();
    // A replay enters the graphs inside by a list: the ledger takes note of it.
    for await (const _ of super.list(config, { ...options, limit: 1 })) break;
    const ns = String(config.configurable?.["checkpoint_ns"] ?? "");
    for await (const tuple of this.#saver.list(config, options)) {
      if ((config as GraphConfig).control !== undefined) this.#threadOf(config)?.know(ns, tuple.checkpoint.id);
      yield tuple;
    }
  }

  override put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const place = placeOf(config);
    const thread = this.#threadOf(config);
    try {
      thread?.assertMayWrite();
    } catch (error) {
      return Promise.reject(error);
    }
    const known = place.ns === "" ? withOrigin(metadata, config, thread?.origin ?? {}) : metadata;
    const clean = withoutMarks(checkpoint, thread?.seen.get(place.ns));
    const bare = structuredClone({ ...checkpoint, channel_values: {} });
    const official = () => this.#saver.put(config, clean, known, newVersions);
    const kept = () => super.put(config, bare, known, {});
    // An edit from outside begins nothing: where the ledger refuses it, the official saver need not have it.
    if (thread === undefined) return this.#track(kept().then(official));
    const stored = official().catch((error: unknown) => {
      thread.fail(place.ns, notStored(place, error));
      throw error;
    });
    return this.#track(stored.then(kept));
  }

  override putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string, taskPath = ""): Promise<void> {
    try {
      this.#threadOf(config)?.assertMayWrite();
    } catch (error) {
      return Promise.reject(error);
    }
    // An answer is a decision in the ledger. The official saver would keep it for the next question of the superstep too.
    const own = taskId === NULL_TASK_ID || isInterruptId(taskId);
    const left = writes.filter(([channel]) => !(own && channel === RESUME));
    const official = async () => {
      if (left.length > 0) await this.#saver.putWrites(config, left, taskId, taskPath);
    };
    const known = writes.map(([channel, value]): PendingWrite => [channel, isPlainPause(channel) ? value : null]);
    const kept = () => super.putWrites(config, known, taskId, taskPath);
    return this.#track(own ? kept().then(official) : official().then(kept));
  }

  /** The ledger first: what is left of a deletion that was killed is a thread without effects, which a new call removes. */
  override async deleteThread(threadId: string): Promise<void> {
    await this.barrier();
    await super.deleteThread(threadId);
    await this.#saver.deleteThread(threadId);
  }

  override async getDeltaChannelHistory(options: {
    config: RunnableConfig;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    await this.barrier();
    return this.#saver.getDeltaChannelHistory(options);
  }

  /** Both stores. */
  override async barrier(): Promise<void> {
    if (this.#pending.size > 0) await Promise.allSettled(this.#pending);
    await super.barrier();
  }

  /** Stores what waits. The ledger and the official saver stay open. */
  override async close(): Promise<void> {
    await this.barrier();
    await this.journal?.close();
  }

  #track<T>(promise: Promise<T>): Promise<T> {
    this.#pending.add(promise);
    const forget = () => this.#pending.delete(promise);
    promise.then(forget, forget);
    return promise;
  }

  #threadOf(config: RunnableConfig): RunThread | undefined {
    const { thread_id } = config.configurable ?? {};
    return runOf(config as GraphConfig)?.thread(String(thread_id));
  }

  /** D3. */
  async #follow(place: Place, tuple: CheckpointTuple): Promise<void> {
    await this.#followCheckpoint(place, tuple);
    if (hasPauses(tuple)) await followWaits(await ThreadTarget.open(this.#target, place.thread), place, tuple);
  }

  /** The ledger has the checkpoint, and where it is the official saver's latest, as its head. */
  async #followCheckpoint(place: Place, tuple: CheckpointTuple): Promise<void> {
    const { id } = tuple.checkpoint;
    const latest = place.checkpoint === undefined;
    const found = await this.backend.load(place.thread, place.ns, id);
    if (found.checkpoint !== undefined && (!latest || found.head === id)) return;
    const missing = found.checkpoint === undefined ? await this.#missing(place, tuple) : [tuple];
    const target = (await ThreadTarget.open(this.#target, place.thread)).mayHaveBranched();
    for (const one of missing) await target.put(bareTuple(one), { ns: place.ns, ...idsOf(one), bytes: 0 });
    if (latest) {
      if (found.checkpoint === undefined && found.head !== undefined) await endWaits(target, place);
      return;
    }
    // What was put is the head now, but it is an old checkpoint.
    const { checkpoint: _, ...anywhere } = place;
    const newest = await this.#saver.getTuple({
      configurable: { thread_id: place.thread, checkpoint_ns: place.ns },
    });
    if (newest !== undefined) await this.#followCheckpoint({ ...anywhere, checkpoint: undefined }, newest);
  }

  /** The checkpoint and its ancestors that the ledger does not know, oldest first. */
  async #missing(place: Place, tuple: CheckpointTuple): Promise<readonly CheckpointTuple[]> {
    const missing = [tuple];
    for (
      let at: CheckpointTuple | undefined = tuple;
      at?.parentConfig !== undefined && missing.length < FOLLOWED_MAX;
    ) {
      const parent = String(at.parentConfig.configurable?.["checkpoint_id"]);
      if ((await this.backend.load(place.thread, place.ns, parent)).checkpoint !== undefined) return missing.reverse();
      at = await this.#saver.getTuple(at.parentConfig);
      if (at !== undefined) missing.push(at);
    }
    return missing.reverse();
  }

  async #assertUnknown({ thread, ns, checkpoint }: Place): Promise<void> {
    const found = await this.backend.load(thread, ns, checkpoint);
    const head = found.checkpoint?.id;
    if (head === undefined) return;
    throw new HoldfastError(
      "UNKNOWN_CHECKPOINT",
      `${this.#saver.constructor.name} has not the checkpoint of thread ${JSON.stringify(thread)} that is asked for, but the ledger ${this.backend.name} knows the ` +
        `thread (checkpoint ${head}). Beginning anew would do its effects again. Give the saver its database back, or begin anew on ` +
        "purpose: await ledger.deleteThread(thread).",
      { details: { thread, ns, checkpoint: head } },
    );
  }
}

const isPlainPause = (channel: unknown): boolean => channel === INTERRUPT || channel === RESUME;

function bareTuple(tuple: CheckpointTuple): CheckpointTuple {
  return { ...tuple, checkpoint: { ...tuple.checkpoint, channel_values: {} }, pendingWrites: [] };
}

function idsOf({ checkpoint, parentConfig }: CheckpointTuple): { id: string; parent: string | undefined } {
  const parent: unknown = parentConfig?.configurable?.["checkpoint_id"];
  return { id: checkpoint.id, parent: parent === undefined ? undefined : String(parent) };
}

function notStored({ thread }: Place, cause: unknown): HoldfastError {
  if (isHoldfastError(cause)) return cause;
  const message = cause instanceof Error ? cause.message : String(cause);
  return new HoldfastError(
    "STORAGE_FAILED",
    `The official saver did not store a checkpoint of thread ${JSON.stringify(thread)}: ${message}`,
    { cause, details: { thread } },
  );
}

function invalid(why: string): HoldfastError {
  return new HoldfastError("INVALID_ARGUMENT", `durable(saver, { ledger }): ${why}.`);
}
