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
import { type Backend, closedError, type Loaded, type WaitQuery } from "./backend.ts";
import { CheckpointReader } from "./checkpoint-reader.ts";
import { CheckpointWriter } from "./checkpoint-writer.ts";
import { CommitQueue } from "./commit-queue.ts";
import { EffectLedger, type SettleResult } from "./effect-ledger.ts";
import type { EffectRecord, SettleDecision } from "./effect-record.ts";
import { branchOf } from "./fork-mark.ts";
import { HoldfastError } from "./errors.ts";
import { Journal } from "./journal.ts";
import { KnownState } from "./known-state.ts";
import {
  beginAnew,
  durabilityOf,
  enclosingScratchpad,
  type GraphConfig,
  holdUnder,
  INTERRUPT,
  resumeStrictly,
  unseen,
  watchRetries,
  withMarks,
} from "./langgraph.ts";
import { warnUntestedLangGraph } from "./langgraph-version.ts";
import { type Place, placeOf } from "./place.ts";
import { enterRun, RunState, RunThread, runOf, claimOf } from "./run-state.ts";
import { Serde, type ValueType } from "./serde.ts";
import { originOf, withOrigin } from "./thread-origin.ts";
import type { Write } from "./thread-waits.ts";
import { type AnswerOptions, type AnswerResult, type BrokenDecision, WaitLedger } from "./wait-ledger.ts";
import { CHAIN_START, type Decision, type DecisionRecord, type WaitRecord } from "./wait-record.ts";

export interface CheckpointerOptions {
  /** Classes of the user that may be kept in state, see {@link ValueType}. */
  readonly types?: readonly ValueType[];
  /** Largest value in characters, its large strings included. Default 100,000,000. */
  readonly maxValueChars?: number;
  /** Path of the audit journal (JSON lines); none by default. */
  readonly journal?: string;
  /** Milliseconds since 1970, for deadlines and timers. Default `Date.now`. */
  readonly now?: () => number;
  /**
   * Lets effects run on a store that may lose what it has acknowledged (durability `"none"`): what is lost is run again.
   * Default false: such an effect is refused with EFFECT_NOT_DURABLE.
   */
  readonly effectsOnVolatile?: boolean;
}

const BRAND = Symbol.for("holdfast.checkpointer");

/** Threads looked at outside a run (getState, updateState) that are remembered for the head rule. */
const OUTSIDE_MAX = 1024;

/** Keeps LangGraph's checkpoints in a {@link Backend}. One per store and process is enough. */
export class Checkpointer extends BaseCheckpointSaver {
  readonly backend: Backend;
  /** As they were given. */
  readonly options: CheckpointerOptions;
  /** Whether the values of checkpoints are in {@link backend}; false where another saver keeps them, see `durable`. */
  readonly keepsValues: boolean = true;
  readonly effectLedger: EffectLedger;
  readonly journal: Journal | undefined;
  readonly waitLedger: WaitLedger;
  /** See {@link CheckpointerOptions}. */
  readonly effectsOnVolatile: boolean;
  readonly #queue: CommitQueue;
  readonly #known: KnownState;
  readonly #reader: CheckpointReader;
  readonly #writer: CheckpointWriter;
  readonly #outsideRuns = new Map<string, RunThread>();
  #closing: Promise<void> | undefined;

  constructor(backend: Backend, options: CheckpointerOptions = {}) {
    super();
    warnUntestedLangGraph();
    this.backend = backend;
    this.options = options;
    const serde = new Serde({
      ...(options.types === undefined ? {} : { types: options.types }),
      ...(options.maxValueChars === undefined ? {} : { maxValueChars: options.maxValueChars }),
    });
    const memo = new Map<string, string>();
    const queue = new CommitQueue(backend);
    const known = new KnownState(backend, serde);
    const journal = options.journal === undefined ? undefined : new Journal(options.journal);
    const waits = new WaitLedger(backend, serde, queue, memo, options.now ?? Date.now);
    this.#queue = queue;
    this.#known = known;
    this.#reader = new CheckpointReader(backend, serde);
    this.#writer = new CheckpointWriter({ backend, serde, queue, known, waits, memo, journal });
    this.journal = journal;
    this.effectsOnVolatile = options.effectsOnVolatile ?? false;
    this.waitLedger = waits;
    this.effectLedger = new EffectLedger(backend, serde, queue, memo, journal, waits);
    Object.defineProperty(this, BRAND, { value: true });
  }

  getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const { control } = config as GraphConfig;
    if (control !== undefined && durabilityOf(config as GraphConfig) === "async") holdUnder(this.#queue);
    return this.#getTuple(config);
  }

  async #getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
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
      if (place.ns === "") thread.waits.load(loaded.waits, CHAIN_START, {});
      if (inRun && place.checkpoint !== undefined) throw unknownCheckpoint(place);
      return undefined;
    }
    thread.know(place.ns, loaded.checkpoint.id);
    const read = await this.#reader.read({ ...loaded.checkpoint, writes: loaded.writes });
    if (place.ns === "") {
      const end = loaded.waits.length === 0 ? CHAIN_START : await this.waitLedger.chainEnd(place.thread);
      thread.waits.load(loaded.waits, end, unseen(read.tuple.checkpoint));
      const { id } = loaded.checkpoint;
      thread.knowBranch(id, branchOf(read, id === loaded.head), inRun);
      thread.origin = originOf(read.tuple);
    }
    if (!inRun) return read.tuple;
    if (place.ns !== "" && place.checkpoint === undefined)
      beginAnew(config as GraphConfig, read.tuple.metadata?.parents);
    this.#known.loaded(place.thread, place.ns, loaded.checkpoint.id, read);
    thread.seen.set(place.ns, read.tuple.checkpoint.versions_seen[INTERRUPT]);
    const tuple = { ...read.tuple, checkpoint: withMarks(read.tuple.checkpoint) };
    return this.waitLedger.withAnswers(tuple, place.ns, loaded.checkpoint.id, thread.waits.active);
  }

  async *list(config: RunnableConfig, options: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    this.#assertOpen();
    if (this.#queue.waiting > 0) await this.#queue.flush();
    const thread = this.#enterReplay(config as GraphConfig);
    for await (const tuple of this.#reader.list(config, options)) {
      thread?.know(String(config.configurable?.["checkpoint_ns"]), tuple.checkpoint.id);
      yield tuple;
    }
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
      const claimed = thread?.fence?.kind === "fence" ? thread.fence.run : undefined;
      const known = place.ns === "" ? withOrigin(metadata, config, thread?.origin ?? {}, claimed) : metadata;
      return this.#writer.put(config, place, thread, checkpoint, known, newVersions);
    } catch (error) {
      return this.#writer.putFailed(config, error);
    }
  }

  putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string, taskPath = ""): Promise<void> {
    try {
      this.#assertOpen();
      const place = placeOf(config);
      const thread = this.#threadOf(config as GraphConfig, place);
      return this.#writer.putWrites(config, place, thread, writes as Write[], taskId, taskPath);
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

  /** Waits of all threads, decoded, oldest first; see {@link WaitQuery} for filters and pages. */
  async waits(query: WaitQuery = {}): Promise<readonly WaitRecord[]> {
    this.#assertOpen();
    return this.waitLedger.records(query);
  }

  /**
   * A person's decision about a question or a plain interrupt. The first one wins: the same one again is answered with
   * `replayed: true`, another one is refused. From any process; durable when it resolves; the thread goes on at its next
   * `invoke(null)`.
   *
   * A plain `interrupt()` returns `true` for approve, `false` for reject, and the value of a response; interrupts in the
   * forms of langchain's `humanInTheLoopMiddleware` and of Agent Inbox return what those libraries expect.
   *
   * @param id the wait's id, which is the interrupt's
   * @param options `by`: who decides; `digest`: of what was shown, refused where it is another by now; `owner`: only waits
   *   of that owner's threads are found
   * @throws UNKNOWN_WAIT · ALREADY_ANSWERED (`details.decision`) · INVALID_ANSWER · WAIT_CHANGED · INVALID_ARGUMENT
   */
  async answer(id: string, decision: Decision, options: AnswerOptions): Promise<AnswerResult> {
    this.#assertOpen();
    return this.waitLedger.answer(id, decision, options);
  }

  /**
   * Hands an event to the threads that wait for it (`waitFor`), or to the one given. Resolves with the waits that took it.
   * @throws UNKNOWN_WAIT where nobody waits for it now: events are not kept for later
   */
  async deliver(
    event: string,
    value: unknown,
    options: { readonly by: string; readonly via?: string; readonly thread?: string; readonly owner?: string },
  ): Promise<readonly WaitRecord[]> {
    this.#assertOpen();
    return this.waitLedger.deliver(event, value, options);
  }

  /** A thread's decisions in their order, with the hashes of their chain: what an audit exports. Streams. */
  async *decisions(query: { readonly thread: string }): AsyncGenerator<DecisionRecord> {
    this.#assertOpen();
    yield* this.waitLedger.decisions(placeOf({ configurable: { thread_id: query.thread } }).thread);
  }

  /** Checks the chains of decisions, of one thread or all: `broken` names every link that is not what was recorded. */
  async verifyDecisions(
    query: { readonly thread?: string } = {},
  ): Promise<{ readonly checked: number; readonly broken: readonly BrokenDecision[] }> {
    this.#assertOpen();
    return this.waitLedger.verify(query.thread);
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

  #enterRun(config: GraphConfig, place: Place, loaded: Loaded): RunThread {
    const run = enterRun(config, () => new RunState(randomUUID(), claimOf(config)));
    const thread = run.load(place.thread, loaded.era);
    thread.namespaces.set(place.ns, durabilityOf(config));
    thread.failed.delete(place.ns);
    // A subgraph in a node under retryPolicy goes on in the next attempt, instead of starting anew under another id.
    const enclosing = enclosingScratchpad(config);
    if (enclosing !== undefined) watchRetries(enclosing);
    if (place.ns !== "") return thread;
    thread.loadedRoot(loaded.checkpoint?.id ?? null, loaded.head ?? null);
    resumeStrictly(config);
    return thread;
  }

  /** A run that begins at an older checkpoint loads the graphs inside by `list`: what they were before it. */
  #enterReplay(config: GraphConfig): RunThread | undefined {
    if (config.control === undefined || !config.configurable?.["checkpoint_ns"]) return undefined;
    const place = placeOf(config);
    return runOf(config)?.thread(place.thread) && this.#enterRun(config, place, NOTHING_LOADED);
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
    return runOf(config)?.thread(place.thread) ?? this.#outsideRuns.get(place.thread);
  }
}

/** Of a namespace that is entered without a load; the thread's root was loaded before. */
const NOTHING_LOADED: Loaded = { era: 0, head: undefined, checkpoint: undefined, writes: [], waits: [] };

/** Whether a saver is one of ours, also from another copy of the package. */
export function isCheckpointer(saver: unknown): saver is Checkpointer {
  return typeof saver === "object" && saver !== null && (saver as Record<symbol, unknown>)[BRAND] === true;
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
