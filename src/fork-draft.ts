/**
 * Checkpoints that are not stored: what a fork would store, made by LangGraph's own `updateState` and `getState`, so that
 * edits, `asNode` and the next tasks mean exactly what they mean there. A preview shows a draft, a fork stores it.
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointMetadata,
  type CheckpointTuple,
  type DeltaChannelHistory,
  emptyCheckpoint,
  type PendingWrite,
} from "@langchain/langgraph-checkpoint";
import { CheckpointReader, type ReadCheckpoint } from "./checkpoint-reader.ts";
import type { Checkpointer } from "./checkpointer.ts";
import { HoldfastError, isHoldfastError } from "./errors.ts";
import { deltaChannelsOf, lentSaver } from "./langgraph.ts";
import { placeOf } from "./place.ts";

/** What a fork needs of a compiled graph: LangGraph's own methods. */
export interface ForkableGraph {
  readonly checkpointer?: unknown;
  readonly channels: Readonly<Record<string, unknown>>;
  readonly nodes: Readonly<Record<string, unknown>>;
  getState(config: RunnableConfig, options?: never): Promise<unknown>;
  updateState(config: never, values: never, asNode?: never): Promise<RunnableConfig>;
  /** For drawing; asked where edges lead to. */
  getGraphAsync?(config?: never): Promise<unknown>;
  getSubgraphsAsync(namespace?: string, recurse?: boolean): AsyncIterable<readonly [string, unknown]>;
}

/** A checkpoint as LangGraph handed it over to be put. */
export interface Draft {
  readonly checkpoint: Checkpoint;
  readonly metadata: CheckpointMetadata;
}

export interface Edit {
  readonly values?: unknown;
  readonly asNode?: string | undefined;
}

/** The part of a state snapshot that is read here. */
export interface DraftState {
  readonly values: unknown;
  readonly next: readonly string[];
  readonly tasks: readonly { readonly id: string; readonly name: string; readonly path?: readonly unknown[] }[];
}

/** LangGraph passes over keys that no channel has: an edit with a slip of the pen would change nothing. */
function checkChannels({ channels }: ForkableGraph, values: unknown): void {
  if (typeof values !== "object" || values === null || Object.getPrototypeOf(values) !== Object.prototype) return;
  const own = Object.keys(channels).filter((name) => !/^(__|branch:|join:)/.test(name));
  // The functional API, and graphs with one value, have no channels of the user.
  const unknown = own.length === 0 ? [] : Object.keys(values).filter((key) => !Object.hasOwn(channels, key));
  if (unknown.length === 0) return;
  throw new HoldfastError(
    "INVALID_ARGUMENT",
    `The state has no channel ${unknown.map((key) => JSON.stringify(key)).join(", ")}; it has ${own.join(", ")}. Nothing was written.`,
    { details: { unknown, channels: own } },
  );
}

/** Reads from the store and keeps what is put; nothing is written. */
export class DraftSaver extends BaseCheckpointSaver {
  readonly #saver: Checkpointer;
  readonly #reader: CheckpointReader;
  readonly #drafts = new Map<string, Draft>();
  #deltas: readonly string[] = [];
  #last: Draft | undefined;

  constructor(saver: Checkpointer) {
    super();
    this.#saver = saver;
    this.#reader = new CheckpointReader(saver.backend, saver.effectLedger.serde);
  }

  /** The checkpoint as it is stored. */
  async read(thread: string, ns: string, id: string): Promise<ReadCheckpoint | undefined> {
    const { checkpoint, writes } = await this.#saver.backend.load(thread, ns, id);
    return checkpoint === undefined ? undefined : this.#reader.read({ ...checkpoint, writes });
  }

  /** A checkpoint with the same values, or the edited ones, as `updateState` makes it; whole in itself. */
  async draft(graph: ForkableGraph, config: RunnableConfig, edit: Edit): Promise<Draft> {
    this.#deltas = deltaChannelsOf(graph.channels);
    this.#last = undefined;
    const { values, asNode } = edit;
    checkChannels(graph, values);
    try {
      await graph.updateState(this.#lent(config) as never, (values ?? null) as never, asNode as never);
    } catch (cause) {
      if (isHoldfastError(cause)) throw cause;
      throw new HoldfastError(
        "INVALID_ARGUMENT",
        `The state at checkpoint ${config.configurable?.["checkpoint_id"]} could not be edited` +
          `${asNode === undefined ? "" : ` as node ${JSON.stringify(asNode)}`}: ${cause instanceof Error ? cause.message : String(cause)} ` +
          `\`asNode\` is one of ${Object.keys(graph.nodes).join(", ")}; it says after which node the graph goes on. Nothing was written.`,
        { cause, details: { asNode, nodes: Object.keys(graph.nodes) } },
      );
    }
    const last = this.#last as Draft | undefined;
    if (last === undefined) throw new Error("updateState has put no checkpoint");
    return last;
  }

  /** What LangGraph says about a draft: its values and the tasks that come next. */
  async stateOf(graph: ForkableGraph, thread: string, ns: string, draft: Draft): Promise<DraftState> {
    const configurable = { thread_id: thread, checkpoint_ns: ns, checkpoint_id: draft.checkpoint.id };
    return (await graph.getState(this.#lent({ configurable }))) as DraftState;
  }

  #lent({ configurable }: RunnableConfig): RunnableConfig {
    return { configurable: { ...configurable, ...lentSaver(this) } };
  }

  override getNextVersion(current: number | undefined): number {
    return this.#saver.getNextVersion(current);
  }

  async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const { thread, ns, checkpoint: id } = placeOf(config);
    // LangGraph asks for the newest checkpoint to see whether it edits an older one. It always does here: then an edit
    // adds no writes to the checkpoint it begins from, which belong to another branch.
    if (id === undefined) return { config, checkpoint: emptyCheckpoint() };
    const draft = this.#drafts.get(id);
    if (draft !== undefined)
      return { config, checkpoint: draft.checkpoint, metadata: draft.metadata, pendingWrites: [] };
    const read = await this.read(thread, ns, id);
    // A channel with pending writes is stored whole: a draft must not need the writes of checkpoints before it.
    const pending = this.#deltas.map((channel): [string, string, unknown] => ["", channel, undefined]);
    return read && { ...read.tuple, pendingWrites: [...(read.tuple.pendingWrites ?? []), ...pending] };
  }

  /** A draft has no history of its own. */
  async *list(): AsyncGenerator<CheckpointTuple> {}

  async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    _: ChannelVersions,
  ): Promise<RunnableConfig> {
    const { thread, ns } = placeOf(config);
    this.#last = { checkpoint, metadata };
    this.#drafts.set(checkpoint.id, this.#last);
    return { configurable: { thread_id: thread, checkpoint_ns: ns, checkpoint_id: checkpoint.id } };
  }

  async putWrites(_: RunnableConfig, writes: PendingWrite[]): Promise<void> {
    throw new Error(`an edit of an older checkpoint has put writes: ${writes.map(([channel]) => channel).join()}`);
  }

  async deleteThread(): Promise<void> {
    throw new Error("a draft deletes nothing");
  }

  override async getDeltaChannelHistory(options: {
    config: RunnableConfig;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    return this.#reader.deltaHistory(options.config, options.channels);
  }
}
