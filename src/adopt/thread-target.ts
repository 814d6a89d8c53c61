/**
 * The same thread in the store: what is there, puts of what is missing, and its open questions.
 *
 * Everything is put by the writer that LangGraph's own calls go through, so lists are stored once and unchanged channels are
 * carried over. What is put again changes nothing, so an adoption may be killed at any point and repeated.
 */

import type {
  ChannelVersions,
  CheckpointMetadata,
  CheckpointTuple,
  PendingWrite,
} from "@langchain/langgraph-checkpoint";
import { type Backend, eraOf } from "../backend.ts";
import type { Checkpointer } from "../checkpointer.ts";
import { CheckpointReader } from "../checkpoint-reader.ts";
import { CheckpointWriter } from "../checkpoint-writer.ts";
import { CommitQueue } from "../commit-queue.ts";
import { KnownState } from "../known-state.ts";
import { SPECIAL_WRITES } from "../langgraph.ts";
import { checkId, type Place } from "../place.ts";
import { RunThread } from "../run-state.ts";
import type { Serde } from "../serde.ts";
import type { Write } from "../thread-waits.ts";
import { WaitLedger } from "../wait-ledger.ts";
import type { SourcePlace } from "./source.ts";

/** What all threads of an adoption share. */
export class AdoptTarget {
  readonly name: string;
  readonly backend: Backend;
  readonly serde: Serde;
  readonly queue: CommitQueue;
  readonly reader: CheckpointReader;
  readonly #memo = new Map<string, string>();

  constructor({ backend, effectLedger }: Checkpointer) {
    this.name = backend.name;
    this.backend = backend;
    this.serde = effectLedger.serde;
    this.queue = new CommitQueue(backend);
    this.reader = new CheckpointReader(backend, this.serde);
  }

  /** A ledger of waits in which it is that moment. */
  waitsAt(ms: number): WaitLedger {
    return new WaitLedger(this.backend, this.serde, this.queue, this.#memo, () => ms);
  }

  writer(): CheckpointWriter {
    const { backend, serde, queue } = this;
    const known = new KnownState(backend, serde);
    const waits = this.waitsAt(0);
    return new CheckpointWriter({ backend, serde, queue, known, waits, memo: this.#memo, journal: undefined });
  }
}

export class ThreadTarget {
  readonly thread: string;
  readonly era: number;
  readonly target: AdoptTarget;
  readonly #writer: CheckpointWriter;
  readonly #state: RunThread;

  private constructor(target: AdoptTarget, thread: string, era: number) {
    this.target = target;
    this.thread = thread;
    this.era = era;
    this.#writer = target.writer();
    this.#state = new RunThread(thread, era);
  }

  /** @throws INVALID_ID */
  static async open(target: AdoptTarget, thread: string): Promise<ThreadTarget> {
    return new ThreadTarget(target, thread, await eraOf(target.backend, checkId("thread_id", thread)));
  }

  /** What is put continues a thread that may have effects on other branches. */
  mayHaveBranched(): this {
    this.#state.knowBranch("", { effects: undefined, branched: true, seen: {} }, false);
    return this;
  }

  /** All stored checkpoints, newest first by id. Streams. */
  stored(): AsyncGenerator<CheckpointTuple> {
    return this.target.reader.list({ configurable: { thread_id: this.thread } }, {});
  }

  async head(ns: string): Promise<string | undefined> {
    return (await this.target.backend.load(this.thread, ns, undefined)).head;
  }

  /** Puts a checkpoint, which becomes the head of its namespace, and its writes. Durable when it resolves. */
  async put(tuple: CheckpointTuple, { ns, id, parent }: SourcePlace): Promise<void> {
    checkId("checkpoint_id", id);
    const config = {
      configurable: {
        thread_id: this.thread,
        checkpoint_ns: ns,
        ...(parent === undefined ? {} : { checkpoint_id: parent }),
      },
    };
    const place: Place = { thread: this.thread, ns, checkpoint: parent };
    const { checkpoint, metadata = {} as CheckpointMetadata } = tuple;
    const stored = this.#writer.put(config, place, this.#state, checkpoint, metadata, versionsOf(tuple));
    await Promise.all([stored, ...this.#putWrites(tuple, { ...place, checkpoint: id })]);
  }

  /** Puts the writes of a checkpoint that is there already. */
  async putWrites(tuple: CheckpointTuple, { ns, id }: SourcePlace): Promise<void> {
    await Promise.all(this.#putWrites(tuple, { thread: this.thread, ns, checkpoint: id }));
  }

  #putWrites({ pendingWrites = [] }: CheckpointTuple, place: Place): Promise<void>[] {
    const config = {
      configurable: { thread_id: this.thread, checkpoint_ns: place.ns, checkpoint_id: place.checkpoint },
    };
    const byTask = new Map<string, { readonly special: PendingWrite[]; readonly regular: PendingWrite[] }>();
    for (const [task, channel, value] of pendingWrites) {
      let writes = byTask.get(task);
      if (writes === undefined) {
        writes = { special: [], regular: [] };
        byTask.set(task, writes);
      }
      writes[SPECIAL_WRITES.has(channel) ? "special" : "regular"].push([channel, value]);
    }
    return [...byTask].flatMap(([task, { special, regular }]) =>
      // Official savers keep no task path; "" is also what rows of theirs count as in LangGraph's order.
      [special, regular].map((writes) =>
        this.#writer.putWrites(config, place, this.#state, writes as Write[], checkId("task id", task), ""),
      ),
    );
  }
}

/** Every channel counts as changed: what did not change is found by comparing, and stored no second time. */
function versionsOf({ checkpoint }: CheckpointTuple): ChannelVersions {
  const without = Object.keys(checkpoint.channel_values).map((channel): [string, number] => [channel, 0]);
  return { ...Object.fromEntries(without), ...checkpoint.channel_versions } as ChannelVersions;
}
