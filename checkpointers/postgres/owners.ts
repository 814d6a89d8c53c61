/**
 * Who has the database open: a row per owner with the time until which it is certainly alive, by the server's clock. Every
 * commit renews it, and a heartbeat does where nothing is committed: from a timer, or, where runs are executed over a URL, from a
 * thread. A process that is stopped for longer than the lease, or whose event loop is blocked for so long while the heartbeat is a
 * timer, is taken for dead; what it then stores is judged by rows like anybody's.
 *
 * The row also holds the number of the owner's last group of commits, which says after a lost answer whether a group has
 * happened, see `commit.ts`.
 */

import { randomUUID } from "node:crypto";
import type { Heartbeat } from "../heartbeat-thread.ts";
import type { Connections } from "./connections.ts";
import { beatOver } from "./heartbeat.ts";
import { quote } from "./text.ts";

/** Rows of owners that have been dead for so long are removed. */
const FORGET_AFTER = "7 days";

/** In place of the last group's number, in a row that was made again: nobody knows what was committed before. */
const FORGOTTEN = -1;

export class Owner {
  readonly id: string = randomUUID();
  readonly #connections: Connections;
  readonly #table: string;
  readonly #leaseMs: number;
  #timer: NodeJS.Timeout | undefined;
  #beating: Promise<unknown> | undefined;
  #stopped = false;

  private constructor(connections: Connections, schema: string, leaseMs: number) {
    this.#connections = connections;
    this.#table = `${quote(schema)}.holdfast_owners`;
    this.#leaseMs = leaseMs;
    this.#useTimer();
  }

  static async register(connections: Connections, schema: string, leaseMs: number): Promise<Owner> {
    const owner = new Owner(connections, schema, leaseMs);
    try {
      await connections.retrying(() => owner.#insert(0));
      await connections.once(
        `delete from ${owner.#table} where until < clock_timestamp() - interval '${FORGET_AFTER}'`,
      );
    } catch (error) {
      clearInterval(owner.#timer);
      throw error;
    }
    return owner;
  }

  /** Makes the row anew where it is gone. */
  register(): Promise<unknown> {
    return this.#insert(FORGOTTEN);
  }

  /** For a plan: who commits, which group it is, and for how many seconds the lease is renewed. */
  stamp(group: number): readonly [id: string, group: number, seconds: number] {
    return [this.id, group, this.#leaseMs / 1000];
  }

  #insert(group: number): Promise<unknown> {
    const { text, values } = this.#insertion(group);
    return this.#connections.once(text, values);
  }

  #insertion(group: number) {
    return {
      text: `insert into ${this.#table} (id, until, group_no)
        values ($1, clock_timestamp() + make_interval(secs => $2), $3)
        on conflict (id) do update set until = excluded.until`,
      values: [this.id, this.#leaseMs / 1000, group],
    };
  }

  /** One at a time; one that fails is made up for by the next. */
  #beat(): void {
    this.#beating ??= this.#insert(FORGOTTEN)
      .catch(() => {})
      .finally(() => {
        this.#beating = undefined;
      });
  }

  /**
   * Whether the group has been committed; from then on it can no longer be. Waits for a transaction of it that is still under
   * way, because that holds the row's lock. Undefined where it cannot be told.
   */
  async hasHappened(group: number): Promise<boolean | undefined> {
    const { rows } = await this.#connections.once<{ last: string }>(
      `with old as (select group_no from ${this.#table} where id = $1 for update)
        update ${this.#table} o set group_no = greatest(o.group_no, $2) from old where o.id = $1
        returning old.group_no as last`,
      [this.id, group],
    );
    const last = rows[0]?.last;
    return last === undefined || Number(last) === FORGOTTEN ? undefined : Number(last) >= group;
  }

  async alive(owner: string): Promise<boolean> {
    const rows = await this.#connections.read(
      `select 1 from ${this.#table} where id = $1 and until > clock_timestamp()`,
      [owner],
    );
    return rows.length > 0;
  }

  /** From a thread in place of the timer. With a pool of somebody else the timer stays: a thread can make no connection of it. */
  async heartbeat(): Promise<Heartbeat> {
    const { config } = this.#connections;
    if (config === undefined) return { stop: async () => {} };
    const everyMs = this.#leaseMs / 3;
    const { text, values } = this.#insertion(FORGOTTEN);
    const thread = await beatOver(
      { config, text, values, everyMs },
      { begun: () => clearInterval(this.#timer), lost: () => this.#useTimer() },
    );
    return {
      stop: async () => {
        await thread.stop();
        this.#useTimer();
      },
    };
  }

  #useTimer(): void {
    clearInterval(this.#timer);
    if (!this.#stopped) this.#timer = setInterval(() => this.#beat(), this.#leaseMs / 3).unref();
  }

  stop(): void {
    this.#stopped = true;
    clearInterval(this.#timer);
  }

  /** Tells the others that this owner is gone. Where the server cannot be reached its lease will say so. */
  async release(): Promise<void> {
    await this.#beating;
    await this.#connections.once(`delete from ${this.#table} where id = $1`, [this.id]).catch(() => {});
  }
}
