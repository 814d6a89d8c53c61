/** Signs of life from a thread, on the servers; those on SQLite are in `sqlite-processes.test.ts`. */

import type { Backend } from "holdfast";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { postgresBackend } from "../../checkpointers/postgres/backend.ts";
import { redisBackend } from "../../checkpointers/redis/backend.ts";
import { redisAvailable, removeRedisStore, sharedRedis } from "../servers/redis.ts";
import { newSchema } from "../servers/schemas.ts";
import { compiled, runChild } from "./scratch.ts";

const LEASE_MS = 1000;

interface Store {
  readonly backend: Backend;
  /** What a child imports, and the expression that opens the store there. */
  readonly module: string;
  readonly open: string;
}

const stores: Readonly<Record<string, () => Promise<Store>>> = {
  async Postgres() {
    const [url, options] = [inject("postgresUrl"), { schema: await newSchema(), leaseMs: LEASE_MS }];
    const open = `postgresBackend(${JSON.stringify(url)}, ${JSON.stringify(options)})`;
    return { backend: await postgresBackend(url, options), module: "checkpointers/postgres/backend.ts", open };
  },
  async Redis() {
    const { url, prefix } = await sharedRedis();
    onTestFinished(() => removeRedisStore(url, prefix));
    const options = { prefix, leaseMs: LEASE_MS };
    const open = `redisBackend(${JSON.stringify(url)}, ${JSON.stringify(options)})`;
    return { backend: await redisBackend(url, options), module: "checkpointers/redis/backend.ts", open };
  },
};

const names = Object.keys(stores).filter((name) => name !== "Redis" || redisAvailable);

describe.each(names)("an owner on %s", (name) => {
  /** A process whose event loop stands still from the moment at which it tells its owner until it is told to go on. */
  async function blocked(heartbeat: boolean) {
    const store = await stores[name]?.();
    if (store === undefined) throw new TypeError(name);
    const { backend, module, open } = store;
    onTestFinished(() => backend.close());
    const child = runChild(`
      import { readSync } from "node:fs";
      import * as library from ${JSON.stringify(compiled(module))};
      const { ${open.slice(0, open.indexOf("("))} } = library;
      const backend = await ${open};
      ${heartbeat ? "await backend.heartbeat();" : ""}
      console.log(backend.owner);
      readSync(0, Buffer.alloc(1));
      await new Promise((resolve) => setTimeout(resolve, 60_000));`);
    return { backend, child, owner: await child.line() };
  }

  const gone = async (backend: Backend, owner: string) => {
    while (await backend.ownerAlive(owner));
  };

  test("whose event loop is blocked counts as alive by the signs of its thread, and as gone once it is stopped", async () => {
    const { backend, child, owner } = await blocked(true);
    const until = performance.now() + 2.5 * LEASE_MS;
    while (performance.now() < until) expect(await backend.ownerAlive(owner)).toBe(true);
    await child.signal("SIGSTOP");
    await gone(backend, owner);
    await child.signal("SIGCONT");
    while (!(await backend.ownerAlive(owner)));
  });

  test("whose event loop is blocked for longer than its lease counts as gone where a timer gives the signs", async () => {
    const { backend, child, owner } = await blocked(false);
    await gone(backend, owner);
    child.process.stdin?.write("!");
    while (!(await backend.ownerAlive(owner)));
  });

  test("gives signs from its timer again when all who held the heartbeat have stopped it, and none when it is closed", async () => {
    const { backend, child, owner } = await blocked(true);
    await child.signal("SIGKILL");
    const [first, second] = [await backend.heartbeat?.(), await backend.heartbeat?.()];
    await first?.stop();
    await first?.stop();
    // One that is asked for while the last one ends begins after it.
    const ending = second?.stop();
    const third = await backend.heartbeat?.();
    await ending;
    expect(await backend.ownerAlive(backend.owner)).toBe(true);
    await third?.stop();
    await gone(backend, owner);
    await backend.close();
    await expect(backend.heartbeat?.()).rejects.toMatchObject({ code: "CLOSED" });
  });
});
