/**
 * `holdfast/runs/pg-boss`: messages of pg-boss 10 as a delivery. A message is taken with `fetch` and acknowledged by hand: `work` would
 * hold a batch until its slowest run has ended, and acknowledges without waiting for the answer.
 */

import type PgBoss from "pg-boss";
import { HoldfastError } from "../errors.ts";
import type { Delivery, Handled, ReceiveOptions, Receiving } from "./delivery.ts";

/** A limit of tries would drop a message of a long run; where a run fails its row counts that. */
const RETRY_LIMIT = 1_000_000;

export interface PgBossOptions {
  /** The queue's name; it is made where it is missing. One for each set of graphs that workers serve. */
  readonly queue: string;
  /** Time between two looks for messages. Default 1000. */
  readonly pollMs?: number;
  /**
   * How long a message may be in hand until pg-boss takes it for lost; it looks once every `maintenanceIntervalSeconds`. A run may
   * take longer: who gets its message then sees that its worker lives. Default 60.
   */
  readonly expireSeconds?: number;
  /** When a message comes again whose run somebody else has, or that was lost. Default 10. */
  readonly laterSeconds?: number;
}

interface Message {
  readonly run?: unknown;
}

/** @param boss started, and stopped, by you: after the runtime is closed. @throws INVALID_ARGUMENT */
export function pgBoss(boss: PgBoss, options: PgBossOptions): Delivery {
  const { queue, pollMs = 1000, expireSeconds = 60, laterSeconds = 10, ...rest } = options;
  for (const name of Object.keys(rest)) throw invalid(`there is no option ${JSON.stringify(name)}`);
  if (typeof queue !== "string" || !/^[\w-]+$/.test(queue))
    throw invalid(`\`queue\` is ${JSON.stringify(queue)}; use letters, digits, "_" and "-"`);
  for (const [name, value] of Object.entries({ pollMs, expireSeconds, laterSeconds }))
    if (!Number.isSafeInteger(value) || value <= 0) throw invalid(`${name} is ${String(value)}; use a whole number`);
  let made: Promise<void> | undefined;
  const ready = (): Promise<void> => {
    made ??= boss.createQueue(queue).catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
  const how = {
    expireInSeconds: expireSeconds,
    retryDelay: laterSeconds,
    retryLimit: RETRY_LIMIT,
    retryBackoff: false,
  };
  return {
    async send(run, { at }) {
      await ready();
      await boss.send(queue, { run }, { ...how, startAfter: at });
    },
    async receive(handler, options) {
      await ready();
      return new PgBossReceiving(boss, queue, pollMs, handler, options);
    },
  };
}

class PgBossReceiving implements Receiving {
  readonly #boss: PgBoss;
  readonly #queue: string;
  readonly #handler: (run: string) => Promise<Handled>;
  readonly #options: ReceiveOptions;
  readonly #inHand = new Set<Promise<void>>();
  readonly #loop: Promise<void>;
  #closing = false;
  #wake: (() => void) | undefined;

  constructor(
    boss: PgBoss,
    queue: string,
    pollMs: number,
    handler: (run: string) => Promise<Handled>,
    options: ReceiveOptions,
  ) {
    this.#boss = boss;
    this.#queue = queue;
    this.#handler = handler;
    this.#options = options;
    this.#loop = this.#receive(pollMs);
  }

  async close(): Promise<void> {
    this.#closing = true;
    this.#wake?.();
    await this.#loop;
    await Promise.all(this.#inHand);
  }

  async #receive(pollMs: number): Promise<void> {
    while (!this.#closing) {
      const free = this.#options.atOnce - this.#inHand.size;
      const jobs = free > 0 ? await this.#fetch(free) : [];
      for (const job of jobs) this.#take(job);
      // Where there was no place the end of a run is what to wait for.
      if (jobs.length < free || free === 0) await this.#sleep(free === 0 ? undefined : pollMs);
    }
  }

  async #fetch(batchSize: number): Promise<readonly PgBoss.Job<Message>[]> {
    try {
      return await this.#boss.fetch<Message>(this.#queue, { batchSize });
    } catch (error) {
      this.#options.report(error);
      return [];
    }
  }

  #take(job: PgBoss.Job<Message>): void {
    const handled = this.#handle(job)
      .catch(this.#options.report)
      .finally(() => {
        const full = this.#inHand.size === this.#options.atOnce;
        this.#inHand.delete(handled);
        if (full) this.#wake?.();
      });
    this.#inHand.add(handled);
  }

  /** What cannot be told to pg-boss is as if it had been lost: the message expires, and comes again. */
  async #handle({ id, data }: PgBoss.Job<Message>): Promise<void> {
    const { report } = this.#options;
    const run = data?.run;
    let handled: Handled = "done";
    if (typeof run !== "string") report(invalid(`the message ${id} in the queue ${this.#queue} names no run; dropped`));
    else {
      handled = await this.#handler(run).catch((error: unknown) => {
        report(error);
        return "later" as const;
      });
    }
    if (handled === "done") await this.#boss.complete(this.#queue, id);
    else await this.#boss.fail(this.#queue, id, { later: true });
  }

  async #sleep(ms: number | undefined): Promise<void> {
    if (this.#closing) return;
    await new Promise<void>((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = undefined;
  }
}

const invalid = (why: string) => new HoldfastError("INVALID_ARGUMENT", `pgBoss: ${why}.`);
