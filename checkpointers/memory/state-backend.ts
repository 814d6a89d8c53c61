/** What the two backends share that keep all rows in memory: reads, the owner, and the end. */

import { randomUUID } from "node:crypto";
import {
  type Backend,
  type Capabilities,
  type CheckpointQuery,
  type Commit,
  closedError,
  type DecisionRow,
  type DueRunsQuery,
  type EffectQuery,
  type EffectRow,
  type ItemsRow,
  type Loaded,
  type RunQuery,
  type RunRow,
  type StoredCheckpoint,
  type Verdict,
  type WaitQuery,
  type WaitRow,
} from "holdfast";
import type { MemoryState } from "./state.ts";

export abstract class StateBackend implements Backend {
  readonly name: string;
  readonly capabilities: Capabilities;
  readonly owner: string = randomUUID();
  protected readonly state: MemoryState;
  #closing: Promise<void> | undefined;

  constructor(name: string, capabilities: Capabilities, state: MemoryState) {
    this.name = name;
    this.capabilities = capabilities;
    this.state = state;
    state.owners.add(this.owner);
  }

  abstract commit(group: readonly Commit[]): Promise<readonly Verdict[]> | readonly Verdict[];

  /** Called once: ends what is under way and releases what is held. */
  protected abstract release(): Promise<void>;

  async load(thread: string, ns: string, id: string | undefined): Promise<Loaded> {
    this.requireOpen();
    return this.state.load(thread, ns, id);
  }

  async *checkpoints(query: CheckpointQuery): AsyncGenerator<StoredCheckpoint> {
    this.requireOpen();
    yield* this.state.checkpoints(query);
  }

  async *ancestors(thread: string, ns: string, id: string): AsyncGenerator<StoredCheckpoint> {
    this.requireOpen();
    yield* this.state.ancestors(thread, ns, id);
  }

  async items(thread: string, list: string, length: number): Promise<{ rows: ItemsRow[]; extended: boolean }> {
    this.requireOpen();
    return this.state.items(thread, list, length);
  }

  async blobs(thread: string, hashes: readonly string[]): Promise<Map<string, string | Uint8Array>> {
    this.requireOpen();
    return this.state.blobs(thread, hashes);
  }

  async effects(query: EffectQuery): Promise<EffectRow[]> {
    this.requireOpen();
    return this.state.effects(query);
  }

  async waits(query: WaitQuery): Promise<WaitRow[]> {
    this.requireOpen();
    return this.state.waits(query);
  }

  async *decisions(query: { readonly thread?: string | undefined }): AsyncGenerator<DecisionRow> {
    this.requireOpen();
    yield* this.state.decisions(query.thread);
  }

  async decision(thread: string, seq: number | undefined): Promise<DecisionRow | undefined> {
    this.requireOpen();
    return seq === undefined ? this.state.lastDecision(thread) : this.state.decision(thread, seq);
  }

  async runs(query: RunQuery): Promise<RunRow[]> {
    this.requireOpen();
    return this.state.runs(query);
  }

  async dueRuns(query: DueRunsQuery): Promise<RunRow[]> {
    this.requireOpen();
    return this.state.dueRuns(query);
  }

  async nextDue(query: { readonly graphs?: readonly string[] | undefined }): Promise<number | undefined> {
    this.requireOpen();
    return this.state.nextDue(query.graphs);
  }

  now(): number {
    this.requireOpen();
    return Date.now();
  }

  async ownerAlive(owner: string): Promise<boolean> {
    this.requireOpen();
    return this.state.owners.has(owner);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  protected requireOpen(): void {
    if (this.#closing !== undefined) throw closedError(this.name);
  }

  async #close(): Promise<void> {
    try {
      await this.release();
    } finally {
      this.state.owners.delete(this.owner);
    }
  }
}
