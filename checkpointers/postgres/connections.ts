/**
 * The pool, and what to do when a connection is lost. Nothing here depends on a session: every statement may go through
 * another connection, so a pooler in transaction mode may stand in between, and a pool of one is enough.
 *
 * A statement that only reads is repeated on another connection. For one that stores, the caller says how to find out
 * whether it has happened.
 */

import { setTimeout as wait } from "node:timers/promises";
import { closedError } from "holdfast";
import { newPool, type PgClient, type PgPool, type PgPoolConfig } from "./driver.ts";
import { isConnectionLost, isTransient, storageError } from "./failure.ts";
import type { CheckedOptions } from "./options.ts";

const BACKOFF_MS_MAX = 500;

export type Row = Readonly<Record<string, unknown>>;
export type Values = readonly unknown[];

export interface RetryOptions {
  /** What counts as a lost connection. */
  readonly isLost?: (error: unknown) => boolean;
  /** By the clock of `performance`. Default: after `retryForMs`. */
  readonly giveUpAt?: number;
  /** Goes on while the backend is being closed, which waits for what is under way. Default false. */
  readonly alsoClosed?: boolean;
}

/** Errors of a connection reach whoever uses it; without a listener they would end the process as well. */
const ignore = () => {};
/** Those that have the listener, also by another backend on the same pool. */
const listened = new WeakSet<PgClient>();

export class Connections {
  readonly name: string;
  readonly #pool: PgPool;
  /** Of a pool that is ours to end. */
  readonly #config: PgPoolConfig | undefined;
  readonly #options: CheckedOptions;
  /** Of the one connection that is kept, see {@link keep}. */
  #spare: PgPool | undefined;
  #closed = false;

  private constructor(name: string, pool: PgPool, config: PgPoolConfig | undefined, options: CheckedOptions) {
    this.name = name;
    this.#pool = pool;
    this.#config = config;
    this.#options = options;
    pool.on("error", ignore);
  }

  /** @throws {HoldfastError} DRIVER_MISSING */
  static async open(target: string | PgPool, name: string, options: CheckedOptions): Promise<Connections> {
    if (typeof target !== "string") return new Connections(name, target, undefined, options);
    const config = {
      application_name: "holdfast",
      connectionString: target,
      connectionTimeoutMillis: Math.min(10_000, options.answerTimeoutMs),
      keepAlive: true,
      // Idle connections are no reason to keep a finished process.
      allowExitOnIdle: true,
    };
    return new Connections(name, await newPool(config), config, options);
  }

  /** How a connection is made; undefined where that is the affair of a pool of somebody else. */
  get config(): PgPoolConfig | undefined {
    return this.#config;
  }

  get retryForMs(): number {
    return this.#options.retryForMs;
  }

  get answerTimeoutMs(): number {
    return this.#options.answerTimeoutMs;
  }

  requireOpen(): void {
    if (this.#closed) throw closedError(this.name);
  }

  /** One statement that only reads; repeated while the server cannot be reached, for `retryForMs`. */
  async read<R extends Row>(text: string, values: Values = []): Promise<R[]> {
    this.requireOpen();
    return this.retrying(async () => (await this.once<R>(text, values)).rows);
  }

  /** As `read`, with rows as arrays in the order of the columns. */
  async readArrays<R extends readonly unknown[]>(text: string, values: Values = []): Promise<R[]> {
    this.requireOpen();
    return this.retrying(async () => {
      const query = { text, values: [...values], rowMode: "array" as const };
      const { rows } = await this.using((client) => client.query<unknown[]>(query));
      return rows as unknown as R[];
    });
  }

  /** Calls `attempt` again while it loses its connection: it must be one that may be repeated. */
  async retrying<T>(attempt: () => Promise<T>, options: RetryOptions = {}): Promise<T> {
    const { isLost = isConnectionLost, alsoClosed = false } = options;
    const { giveUpAt = performance.now() + this.#options.retryForMs } = options;
    for (let tries = 0; ; tries++) {
      try {
        return await attempt();
      } catch (error) {
        const again = isLost(error) || isTransient(error);
        if (!again || (this.#closed && !alsoClosed) || performance.now() >= giveUpAt)
          throw storageError(this.name, error);
        await wait(Math.random() * Math.min(BACKOFF_MS_MAX, 10 * 2 ** tries));
      }
    }
  }

  /** One statement on a connection of its own, once. Throws what pg throws. */
  once<R extends Row>(text: string, values: Values = []): Promise<{ rows: R[]; rowCount: number | null }> {
    return this.using((client) => client.query<R & Record<string, unknown>>(text, [...values]));
  }

  /**
   * Lends a connection. It goes back to the pool unless it was lost, or did not answer within `answerTimeoutMs`: then it is
   * destroyed.
   */
  async using<T>(work: (client: PgClient) => Promise<T>, timeoutMs = this.#options.answerTimeoutMs): Promise<T> {
    const client = await this.#pool.connect();
    if (!listened.has(client)) {
      listened.add(client);
      client.on("error", ignore);
    }
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`connection lost: no answer in ${timeoutMs} ms`)), timeoutMs);
    });
    const working = work(client);
    try {
      const result = await Promise.race([working, late]);
      client.release();
      return result;
    } catch (error) {
      working.catch(ignore);
      client.release(isConnectionLost(error));
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** For a user's transaction, which takes as long as it takes. */
  lend<T>(work: (client: PgClient) => Promise<T>): Promise<T> {
    return this.using(work, 2 ** 31 - 1);
  }

  /**
   * A connection that stays with the caller, who releases it destroyed: one besides the pool's, or one of the pool's where that
   * is somebody else's. Undefined where such a pool has none to spare.
   */
  async keep(): Promise<PgClient | undefined> {
    if (this.#config === undefined && (this.#pool.options?.max ?? 1) < 2) return undefined;
    if (this.#config !== undefined && this.#spare === undefined) {
      const spare = await newPool({ ...this.#config, max: 1 });
      spare.on("error", ignore);
      this.#spare ??= spare;
    }
    return (this.#spare ?? this.#pool).connect();
  }

  /** Takes no more calls; those under way go on. */
  close(): void {
    this.#closed = true;
  }

  /** Ends the pool, where it is ours. */
  async end(): Promise<void> {
    // Ours keeps its listener: a connection that is still saying goodbye may yet report that the server stops.
    if (this.#config === undefined) this.#pool.off("error", ignore);
    else await Promise.all([this.#pool.end(), this.#spare?.end()]);
  }
}
