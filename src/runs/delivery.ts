/**
 * Messages that tell workers of runs, for those who have a queue: it finds out by itself that the holder of a message is gone.
 *
 * - R9 Delivery is apart from state. A message says "this run is due", by its id, and is sent when the row is durable; the row and its
 *   epoch are the truth. So a message that comes twice, late, in another order or never changes nothing: who gets it looks at the
 *   row, and a run without one is found by the polls of workers.
 */

import { isEnded, type RunRow } from "../model.ts";
import type { BackendClock } from "./backend-clock.ts";
import { ACTIVE } from "./multitask.ts";
import type { RunLedger } from "./run-ledger.ts";

/** What becomes of a message: it is acknowledged, or comes again after a while that the delivery chooses. */
export type Handled = "done" | "later";

export interface ReceiveOptions {
  /** Messages in hand at most. */
  readonly atOnce: number;
  /** Told of what fails where nobody waits for it, such as an acknowledgement. */
  readonly report: (error: unknown) => void;
}

export interface Receiving {
  /** Takes no message from the moment of the call; resolves when those in hand are handled and their fate is told to the queue. */
  close(): Promise<void>;
}

/**
 * A queue of ids of runs. It may lose, repeat, delay and reorder messages. One that was taken by a process which died before it
 * was acknowledged comes again: that is what a queue is used for here.
 */
export interface Delivery {
  /** Tells some receiver, not before `at`, that the run is due. */
  send(run: string, options: { readonly at: Date }): Promise<void>;
  /**
   * Begins to hand messages to `handler`, which takes as long as the run. Where it rejects, the message comes again as with
   * `later`, and `report` is told.
   */
  receive(handler: (run: string) => Promise<Handled>, options: ReceiveOptions): Promise<Receiving>;
}

/** What a worker does about a run for its messages. */
export interface ClaimingWorker {
  /** Resolves when this worker is done with the run; undefined where it does not have it. */
  ended(): Promise<void> | undefined;
  /** Claims it where it is due and free, or its worker is gone. */
  claim(row: RunRow): Promise<unknown>;
}

interface Parts {
  readonly delivery: Delivery | undefined;
  readonly ledger: RunLedger;
  readonly report: (error: unknown, run: { readonly id?: string }) => void;
}

/** The messages of one worker; without a delivery there are none. */
export class Messages {
  readonly #parts: Parts;
  readonly #atOnce: number;
  readonly #clock: BackendClock;
  /** Ids of the messages in hand; the same may be there twice. */
  readonly #held = new Map<string, number>();
  #receiving: Promise<Receiving> | undefined;
  #closed = false;

  constructor(parts: Parts, atOnce: number, clock: BackendClock) {
    this.#parts = parts;
    this.#atOnce = atOnce;
    this.#clock = clock;
  }

  /** Begins to receive; again: nothing, unless that has failed. */
  async open(handler: (id: string) => Promise<Handled>): Promise<void> {
    const { delivery, report } = this.#parts;
    if (this.#closed || delivery === undefined || this.#receiving !== undefined) return;
    const options = { atOnce: this.#atOnce, report: (error: unknown) => report(error, {}) };
    this.#receiving = delivery.receive((id) => this.#holding(id, handler), options);
    try {
      await this.#receiving;
    } catch (error) {
      this.#receiving = undefined;
      throw error;
    }
  }

  /** No message is taken from the moment of the call; resolves when those in hand are handled. */
  async close(): Promise<void> {
    this.#closed = true;
    try {
      await (await this.#receiving)?.close();
    } catch (error) {
      this.#parts.report(error, {});
    }
  }

  async #holding(id: string, handler: (id: string) => Promise<Handled>): Promise<Handled> {
    this.#held.set(id, (this.#held.get(id) ?? 0) + 1);
    try {
      return await handler(id);
    } finally {
      const held = (this.#held.get(id) ?? 1) - 1;
      if (held > 0) this.#held.set(id, held);
      else this.#held.delete(id);
    }
  }

  /** What becomes of a message by the row of its run; resolves when the worker is done with the run, where it gets it. */
  async handle(id: string, worker: ClaimingWorker): Promise<Handled> {
    const { ledger } = this.#parts;
    for (;;) {
      await worker.ended();
      const [row] = await ledger.rows({ id });
      // Of a deleted thread, or of a run that waits for somebody: who goes on with that needs no message of before.
      if (row === undefined || isEnded(row.status) || isPaused(row)) return "done";
      if (row.status === "running" || (row.due ?? 0) <= (await this.#clock.now())) await worker.claim(row);
      if (worker.ended() !== undefined) continue;
      const [first] = await ledger.rows({ thread: row.thread, status: ACTIVE, limit: 1 });
      // It stands behind a run that may wait for weeks: who claims it then sends a message.
      return first !== undefined && first.id !== id && isPaused(first) ? "done" : "later";
    }
  }

  /**
   * The run was claimed by this worker; `row` is from before. Where no message of it is in hand, and none may be under way (its own
   * was acknowledged when it began to wait, or should have come within `withinMs`), one is sent: then the queue sees the worker die.
   */
  claimed({ id, epoch, due }: RunRow, withinMs: number): void {
    const { delivery, report } = this.#parts;
    if (delivery === undefined || this.#held.has(id)) return;
    const send = async () => {
      const now = await this.#clock.now();
      if (epoch === 0 && now - (due ?? now) <= withinMs) return;
      await delivery.send(id, { at: new Date(now) });
    };
    send().catch((error: unknown) => report(error, { id }));
  }
}

const isPaused = ({ status }: RunRow) => status === "waiting" || status === "parked";
