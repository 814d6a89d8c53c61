/**
 * Who may use the connection, and waiting for other connections without freezing the event loop.
 *
 * SQLite's own wait (`busy_timeout`) sleeps in the calling thread, so it is off: a busy database throws at once and the
 * wait happens here, on a timer. Transactions open and end within one turn of the event loop; between two turns none is
 * open.
 */

import type { Database, Statement } from "better-sqlite3";
import { closedError } from "holdfast";
import { busyError, isBusy, storageError } from "./failure.ts";

/** First and longest pause between two attempts. Others hold the lock for a fraction of a millisecond or for long. */
const PAUSE_MS = 1;
const PAUSE_MS_MAX = 25;

type Outcome<T> = { readonly failed: false; readonly value: T } | { readonly failed: true; readonly error: unknown };

function valueIn<T>(outcome: Outcome<T>): T {
  if (outcome.failed) throw outcome.error;
  return outcome.value;
}

/** Called right before COMMIT and once it has succeeded. */
export interface AroundCommit {
  before(): void;
  after(): void;
}

/** Returned by the body of a write: roll back and call it again. */
export const AGAIN = Symbol("again");

/** Tries until `attempt` is not busy; each pause is jittered so that several waiters do not meet again. */
export async function untilFree<T>(name: string, busyTimeoutMs: number, attempt: () => T): Promise<T> {
  const deadline = performance.now() + busyTimeoutMs;
  for (let pauseMs = PAUSE_MS; ; pauseMs = Math.min(pauseMs * 1.5, PAUSE_MS_MAX)) {
    try {
      return attempt();
    } catch (error) {
      if (!isBusy(error)) throw error;
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) throw busyError(name, busyTimeoutMs, error);
      await new Promise((resolve) => setTimeout(resolve, Math.min(pauseMs * (0.5 + Math.random()), leftMs)));
    }
  }
}

export class Turns {
  readonly #db: Database;
  readonly #name: string;
  readonly #busyTimeoutMs: number;
  readonly #begin: Statement;
  readonly #beginImmediate: Statement;
  readonly #commit: Statement;
  readonly #rollback: Statement;
  /** The last writer in the queue. */
  #tail: Promise<void> | undefined;
  #closed = false;

  constructor(db: Database, name: string, busyTimeoutMs: number) {
    this.#db = db;
    this.#name = name;
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#begin = db.prepare("begin");
    this.#beginImmediate = db.prepare("begin immediate");
    this.#commit = db.prepare("commit");
    this.#rollback = db.prepare("rollback");
  }

  /** Runs `body` on one state of the database. */
  async read<T>(body: () => T): Promise<T> {
    this.requireOpen();
    try {
      await this.#ownTransactionEnded();
      return await untilFree(this.#name, this.#busyTimeoutMs, () => {
        this.#begin.run();
        try {
          return body();
        } finally {
          if (this.#db.inTransaction) this.#commit.run();
        }
      });
    } catch (error) {
      throw this.#failure(error);
    }
  }

  /**
   * Runs `body` alone in a write transaction and commits. What `body` throws rolls back and is rethrown as it is;
   * {@link AGAIN} rolls back and starts over. Writers of this connection take turns in the order of their calls.
   */
  write<T>(body: () => T | typeof AGAIN, around: AroundCommit): Promise<T> | T {
    this.requireOpen();
    // Nobody before us and nobody in the way: no promise is made, which is half of a small commit's CPU.
    if (this.#tail === undefined && !this.#db.inTransaction) {
      const outcome = this.#tryNow(body, around);
      if (outcome !== undefined) return valueIn(outcome);
    }
    return this.#writeInTurn(body, around);
  }

  async #writeInTurn<T>(body: () => T | typeof AGAIN, around: AroundCommit): Promise<T> {
    const before = this.#tail;
    let leave: () => void = () => {};
    const turn = new Promise<void>((resolve) => {
      leave = resolve;
    });
    this.#tail = turn;
    let outcome: Outcome<T>;
    try {
      if (before !== undefined) await before;
      await this.#ownTransactionEnded();
      outcome = await untilFree(this.#name, this.#busyTimeoutMs, () => this.#writeNow(body, around));
    } catch (error) {
      throw this.#failure(error);
    } finally {
      if (this.#tail === turn) this.#tail = undefined;
      leave();
    }
    return valueIn(outcome);
  }

  /** Refuses every later call and resolves when the writers before have ended. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#tail;
  }

  requireOpen(): void {
    if (this.#closed) throw closedError(this.#name);
  }

  /** Undefined where another connection is in the way. */
  #tryNow<T>(body: () => T | typeof AGAIN, around: AroundCommit): Outcome<T> | undefined {
    try {
      return this.#writeNow(body, around);
    } catch (error) {
      if (isBusy(error)) return undefined;
      throw this.#failure(error);
    }
  }

  /** Throws only what BEGIN throws. */
  #writeNow<T>(body: () => T | typeof AGAIN, around: AroundCommit): Outcome<T> {
    for (;;) {
      this.#beginImmediate.run();
      const ended = this.#inside(body, around);
      if (ended !== AGAIN) return ended;
    }
  }

  /** The part that must not be tried again when it fails: returns its error, so that no busy one is taken for BEGIN's. */
  #inside<T>(body: () => T | typeof AGAIN, around: AroundCommit): Outcome<T> | typeof AGAIN {
    try {
      const value = body();
      if (value === AGAIN) return AGAIN;
      around.before();
      this.#commit.run();
      around.after();
      return { failed: false, value };
    } catch (error) {
      return { failed: true, error };
    } finally {
      if (this.#db.inTransaction) this.#rollback.run();
    }
  }

  /** A body of `transaction` may start a call of the backend: that goes on when the body has ended. */
  async #ownTransactionEnded(): Promise<void> {
    while (this.#db.inTransaction) await Promise.resolve();
  }

  #failure(error: unknown): Error {
    return this.#closed && !this.#db.open ? closedError(this.#name) : storageError(this.#name, error);
  }
}
