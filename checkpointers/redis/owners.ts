/**
 * Signs of life. An owner has a key that expires by the server's clock and is renewed by commits and, between them, by a
 * timer, or, where runs are executed over a URL, by a thread. A missing key is a dead owner. The same timer removes what threads
 * that have expired leave in indexes.
 */

import { randomUUID } from "node:crypto";
import type { Heartbeat } from "../heartbeat-thread.ts";
import type { Connection } from "./connection.ts";
import { beatOver } from "./heartbeat.ts";
import { lua, script } from "./script.ts";

/** Expired threads removed at once: each may have many rows, and nobody else is served meanwhile. */
const SWEPT_MAX = 20;

/** Leases between two sweeps while a thread gives the signs of life. */
const SWEEP_LEASES = 3;

const beatScript = script(lua`
call('SET', P .. 'o:' .. ARGV[1], '1', 'PX', ARGV[2])
local removed = 0
for _, T in ipairs(call('ZRANGEBYSCORE', P .. 'x', '-inf', now(), 'LIMIT', 0, ${SWEPT_MAX})) do
  if not alive(T) then
    call('ZREM', P .. 'x', T)
    removed = removed + 1
  end
end
return removed
`);

const leaveScript = script(lua`
return call('DEL', P .. 'o:' .. ARGV[1], P .. 'l:' .. ARGV[1])
`);

const aliveScript = script(lua`
return call('EXISTS', P .. 'o:' .. ARGV[1])
`);

export class Owner {
  readonly owner: string = randomUUID();
  readonly #connection: Connection;
  readonly #leaseMs: number;
  #left = false;
  #timer: NodeJS.Timeout;

  private constructor(connection: Connection, leaseMs: number) {
    this.#connection = connection;
    this.#leaseMs = leaseMs;
    this.#timer = this.#every(leaseMs / 3);
  }

  /** A process that has nothing else to do may end. */
  #every(ms: number): NodeJS.Timeout {
    return setInterval(() => void this.#beatAndSweep(), ms).unref();
  }

  /** From a thread; the timer goes on rarely, for what has expired. */
  async heartbeat(url: string, keys: string): Promise<Heartbeat> {
    const leaseMs = this.#leaseMs;
    const again = () => this.#retime(leaseMs / 3);
    const begun = () => this.#retime(SWEEP_LEASES * leaseMs);
    const thread = await beatOver({ url, key: `${keys}o:${this.owner}`, leaseMs }, { begun, lost: again });
    return {
      stop: async () => {
        await thread.stop();
        again();
      },
    };
  }

  #retime(ms: number): void {
    clearInterval(this.#timer);
    if (!this.#left) this.#timer = this.#every(Math.min(ms, 2 ** 31 - 1));
  }

  static async register(connection: Connection, leaseMs: number): Promise<Owner> {
    const owner = new Owner(connection, leaseMs);
    try {
      await owner.beat();
    } catch (error) {
      clearInterval(owner.#timer);
      throw error;
    }
    return owner;
  }

  /** Renews the sign of life and removes what has expired; resolves with how much that was. */
  async beat(): Promise<number> {
    return (await this.#connection.run(beatScript, this.owner, `${this.#leaseMs}`)) as number;
  }

  /** The server being away is told by the calls that need it. */
  async #beatAndSweep(): Promise<void> {
    try {
      while ((await this.beat()) === SWEPT_MAX);
    } catch {}
  }

  async alive(owner: string): Promise<boolean> {
    this.#connection.requireOpen();
    return (await this.#connection.run(aliveScript, owner)) === 1;
  }

  /** Where the server is away the key expires by itself. */
  async leave(): Promise<void> {
    this.#left = true;
    clearInterval(this.#timer);
    await this.#connection.runLast(leaveScript, this.owner).catch(() => {});
  }
}
