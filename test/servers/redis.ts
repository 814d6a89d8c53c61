/**
 * A Redis server for tests: the one of HOLDFAST_REDIS_URL, or one started from `redis-server` on the PATH, on a unix socket
 * in a directory of its own. Where there is neither, tests on Redis are skipped with a line that says so; in CI they fail.
 */

import { Redis } from "ioredis";
import { afterAll } from "vitest";
import { onPath, type RedisServer, startRedis } from "./redis-server.ts";

export { freePort } from "./ports.ts";
export { type RedisServer, type RedisSettings, startRedis } from "./redis-server.ts";

const given = process.env["HOLDFAST_REDIS_URL"];

/** Whether tests on Redis can run. In CI always: there they fail where they cannot. */
export const redisAvailable = given !== undefined || onPath("redis-server") || process.env["CI"] !== undefined;

/** Whether servers of our own can be started: for tests that stop one, or change its settings. */
export const ownRedisAvailable = onPath("redis-server") || process.env["CI"] !== undefined;

if (!redisAvailable) {
  console.warn("Tests on Redis are skipped: no redis-server on the PATH, and HOLDFAST_REDIS_URL is not set.");
}

let shared: Promise<RedisServer> | undefined;
let stores = 0;

/**
 * The URL of a server that all tests of a file share, started when it is first asked for and killed after them, and a
 * prefix that no other test uses.
 */
export async function sharedRedis(): Promise<{ readonly url: string; readonly prefix: string }> {
  stores += 1;
  const prefix = `test-${process.pid}-${Date.now()}-${stores}`;
  if (given !== undefined) return { url: given, prefix };
  shared ??= startRedis();
  return { url: (await shared).url, prefix };
}

afterAll(async () => {
  await (await shared)?.remove();
});

/** A client of a test; end it. */
export function redisClient(url: string, options: { readonly keyPrefix?: string } = {}): Redis {
  const client = new Redis(url, { retryStrategy: () => 20, ...options });
  client.on("error", () => {});
  return client;
}

/** Every key of a store with all that it holds, as text. */
export async function redisContents(url: string, prefix: string): Promise<string> {
  const client = redisClient(url);
  try {
    const lines: string[] = [];
    for await (const keys of client.scanStream({ match: `{${prefix}}:*`, count: 1000 }) as AsyncIterable<string[]>) {
      for (const key of keys) lines.push(`${key} ${JSON.stringify(await contentOf(client, key))}`);
    }
    return lines.sort().join("\n");
  } finally {
    client.disconnect();
  }
}

async function contentOf(client: Redis, key: string): Promise<unknown> {
  const type = await client.type(key);
  if (type === "hash") return client.hgetall(key);
  if (type === "zset") return client.zrange(key, "0", "-1", "WITHSCORES");
  return client.get(key);
}

/** Removes a store from a server that is not ours. */
export async function removeRedisStore(url: string, prefix: string): Promise<void> {
  if (given === undefined) return;
  const client = redisClient(url);
  for await (const keys of client.scanStream({ match: `{${prefix}}:*` }) as AsyncIterable<string[]>) {
    if (keys.length > 0) await client.unlink(...keys);
  }
  client.disconnect();
}
