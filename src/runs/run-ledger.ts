/**
 * The recorded runs of one checkpointer.
 *
 * - R1 A run is durable, with its input, before anybody is told that it was accepted. The same key again is the same run; the
 *   same key with another graph, thread or input is refused.
 * - R3 Whoever changes a run names the revision that it was read at: of two, one is refused and looks again.
 */

import { uuid6 } from "@langchain/langgraph-checkpoint";
import { type Backend, eraOf, type RunQuery } from "../backend.ts";
import type { Checkpointer } from "../checkpointer.ts";
import { digestOf } from "../effect-record.ts";
import { HoldfastError, isHoldfastError } from "../errors.ts";
import type { RunRow } from "../model.ts";
import { NextMoment } from "./next-moment.ts";
import type { Serde } from "../serde.ts";
import type { BlobCollector } from "../values.ts";
import {
  changedBody,
  digestIn,
  newRunBody,
  type RunNotes,
  type RunRecord,
  readRun,
  runOps,
  type StoredRun,
} from "./run-record.ts";

/** What is to run; times in milliseconds since 1970 by the backend's clock. */
export interface NewRun {
  readonly thread: string;
  readonly graph: string;
  /** `undefined` goes on with what the thread has. */
  readonly input: unknown;
  readonly key: string | undefined;
  readonly owner: string | undefined;
  readonly priority: number;
  readonly due: number | undefined;
  readonly notes: RunNotes;
}

/** More are forgotten, and looked up again. */
const ERAS_MAX = 10_000;

/** The parts of a row that a move changes. */
export type Move = Partial<Pick<RunRow, "status" | "worker" | "due" | "epoch">> & { readonly notes?: RunNotes };

export class RunLedger {
  readonly backend: Backend;
  readonly serde: Serde;
  readonly #checkpointer: Checkpointer;
  readonly #moment: NextMoment;
  /** Of threads that were deleted before. */
  readonly #eras = new Map<string, number>();

  constructor(checkpointer: Checkpointer) {
    this.#checkpointer = checkpointer;
    this.backend = checkpointer.backend;
    this.#moment = new NextMoment(this.backend);
    this.serde = checkpointer.waitLedger.serde;
  }

  async rows(query: RunQuery): Promise<readonly RunRow[]> {
    await this.#checkpointer.barrier();
    return this.backend.runs(query);
  }

  read(row: RunRow): Promise<StoredRun> {
    return readRun(this.backend, this.serde, row);
  }

  async records(query: RunQuery): Promise<readonly RunRecord[]> {
    const rows = await this.rows(query);
    return Promise.all(rows.map(async (row) => (await this.read(row)).record));
  }

  /** @throws UNKNOWN_RUN */
  async find(id: string, owner?: string): Promise<StoredRun> {
    const [row] = await this.rows({ id, owner });
    if (row !== undefined) return this.read(row);
    throw new HoldfastError(
      "UNKNOWN_RUN",
      `There is no run with id ${JSON.stringify(id)}. runtime.list({ thread }) lists those of a thread.`,
      { details: { id } },
    );
  }

  /** Stores a run, or finds the one that was stored under the same key. @throws RUN_KEY_REUSED, THREAD_DELETED */
  async add(run: NewRun): Promise<{ readonly stored: StoredRun; readonly replayed: boolean }> {
    const { thread, graph, key, owner, priority } = run;
    const blobs = this.#checkpointer.waitLedger.blobs();
    const body = this.#bodyOf(run, blobs);
    const now = await this.#moment.now();
    const row: RunRow = {
      // Later ones of this process come later, also within one millisecond.
      id: uuid6(-1),
      thread,
      graph,
      status: "queued",
      rev: 1,
      epoch: 0,
      worker: undefined,
      due: run.due ?? now,
      priority,
      key,
      owner,
      createdAt: now,
      body,
    };
    try {
      await this.#commit(row, null, blobs);
      return { stored: await this.read(row), replayed: false };
    } catch (error) {
      if (key === undefined || !isHoldfastError(error, "RUN_CONFLICT")) throw error;
      const [earlier] = await this.rows({ key });
      if (earlier === undefined) throw error;
      const stored = await this.read(earlier);
      if (stored.digest !== digestIn(this.serde, row) || earlier.owner !== owner) throw keyReused(key, earlier);
      return { stored, replayed: true };
    }
  }

  /**
   * Gives a queued run of the same thread and graph, which no worker has claimed yet, this input and due time in place of its own.
   * Undefined where there is none.
   */
  async replaceQueued(run: NewRun): Promise<StoredRun | undefined> {
    const { thread, graph, due } = run;
    const queued = await this.rows({ thread, graph, status: ["queued"] });
    const row = queued.findLast(({ epoch, key }) => epoch === 0 && key === undefined);
    if (row === undefined) return undefined;
    const blobs = this.#checkpointer.waitLedger.blobs();
    const body = this.#bodyOf(run, blobs);
    const next: RunRow = { ...row, body, due, rev: row.rev + 1 };
    try {
      await this.#commit(next, row.rev, blobs);
      return await this.read(next);
    } catch (error) {
      // It has just been claimed: the new input is a run of its own.
      if (isHoldfastError(error, "RUN_CONFLICT")) return undefined;
      throw error;
    }
  }

  #bodyOf({ thread, graph, input, notes }: NewRun, blobs: BlobCollector): string {
    const { serde } = this;
    const what = () => "the input of the run";
    const tree = input === undefined ? undefined : serde.toTree(input, blobs, what);
    const digest = digestOf(
      serde,
      serde.toTree([graph, thread, input ?? null], this.#checkpointer.waitLedger.blobs(), what),
    );
    return newRunBody(serde, notes, digest, tree, blobs);
  }

  /** The row after the move; undefined where somebody else has changed the run, or deleted its thread, meanwhile. */
  async move(row: RunRow, { notes, ...change }: Move): Promise<RunRow | undefined> {
    const body = notes === undefined ? row.body : changedBody(this.serde, row, notes);
    const next: RunRow = { ...row, ...change, body, rev: row.rev + 1 };
    try {
      await this.#commit(next, row.rev);
      return next;
    } catch (error) {
      if (isHoldfastError(error, "RUN_CONFLICT") || isHoldfastError(error, "THREAD_DELETED")) return undefined;
      throw error;
    }
  }

  /** The era of a thread is 0 until somebody deletes it: it is looked up where a guess was refused, and not before each commit. */
  async #commit(row: RunRow, expect: number | null, blobs = this.#checkpointer.waitLedger.blobs()): Promise<void> {
    const { waitLedger } = this.#checkpointer;
    const guess = this.#eras.get(row.thread) ?? 0;
    try {
      await waitLedger.commit(runOps(row, guess, expect, blobs));
    } catch (error) {
      if (!isHoldfastError(error, "THREAD_DELETED")) throw error;
      const era = await eraOf(this.backend, row.thread);
      if (era === guess) throw error;
      if (this.#eras.size >= ERAS_MAX) this.#eras.clear();
      this.#eras.set(row.thread, era);
      await waitLedger.commit(runOps(row, era, expect, blobs));
    }
  }
}

function keyReused(key: string, { id, thread, graph }: RunRow): HoldfastError {
  return new HoldfastError(
    "RUN_KEY_REUSED",
    `Run ${id} was started under the key ${JSON.stringify(key)} with another graph, thread or input (graph ${JSON.stringify(graph)}, ` +
      `thread ${JSON.stringify(thread)}). Nothing was started. Use a key of its own for each piece of work.`,
    { details: { key, run: id, thread, graph } },
  );
}
