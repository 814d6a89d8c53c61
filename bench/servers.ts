/** The servers of the benchmarks: started at the first use, stopped at the end. Their URLs reach the measuring processes by the environment. */

import { embeddedPostgres } from "../test/servers/postgres.ts";
import { onPath, startRedis } from "../test/servers/redis-server.ts";

export class Servers {
  #postgres: Promise<{ stop(): Promise<void> }> | undefined;
  #redis: Promise<{ remove(): Promise<void> }> | undefined;

  /** With its own defaults: an fsync for every commit. */
  async postgres(): Promise<void> {
    this.#postgres ??= embeddedPostgres().then((server) => {
      process.env["HOLDFAST_BENCH_POSTGRES"] = server.url;
      return server;
    });
    await this.#postgres;
  }

  /** With an append-only file that is flushed once a second. False where there is no `redis-server` on the PATH. */
  async redis(): Promise<boolean> {
    if (!onPath("redis-server")) return false;
    this.#redis ??= startRedis({ appendonly: "yes", appendfsync: "everysec" }, true).then((server) => {
      process.env["HOLDFAST_BENCH_REDIS"] = server.url;
      return server;
    });
    await this.#redis;
    return true;
  }

  async stop(): Promise<void> {
    await (await this.#postgres)?.stop();
    await (await this.#redis)?.remove();
  }
}
