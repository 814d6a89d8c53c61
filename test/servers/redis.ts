/**
 * A Redis server for tests: the one of HOLDFAST_REDIS_URL, or one started from `redis-server` on the PATH, on a unix socket
 * in a directory of its own. Where there is neither, tests on Redis are skipped with a line that says so; in CI they fail.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { Redis } from "ioredis";
import { afterAll } from "vitest";

const given = process.env["HOLDFAST_REDIS_URL"];

function onPath(name: string): boolean {
  return (process.env["PATH"] ?? "").split(delimiter).some((directory) => {
    try {
      accessSync(join(directory, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** Whether tests on Redis can run. In CI always: there they fail where they cannot. */
export const redisAvailable = given !== undefined || onPath("redis-server") || process.env["CI"] !== undefined;

/** Whether servers of our own can be started: for tests that stop one, or change its settings. */
export const ownRedisAvailable = onPath("redis-server") || process.env["CI"] !== undefined;

if (!redisAvailable) {
  console.warn("Tests on Redis are skipped: no redis-server on the PATH, and HOLDFAST_REDIS_URL is not set.");
}

export interface RedisServer {
  readonly url: string;
  /** Settings are kept from the start before, files too. */
  start(): Promise<void>;
  /** SIGKILL: what the server has not written is lost. */
  kill(): Promise<void>;
  /** Kills it and removes its files. */
  remove(): Promise<void>;
}

/** Settings as they stand in redis.conf. */
export type RedisSettings = Readonly<Record<string, string>>;

/** Starts a server of our own. `tcp`: on a free port of 127.0.0.1 instead of a unix socket. */
export async function startRedis(settings: RedisSettings = {}, tcp = false): Promise<RedisServer> {
  const directory = await mkdtemp(join(tmpdir(), "holdfast-redis-"));
  const socket = join(directory, "redis.sock");
  const port = tcp ? await freePort() : 0;
  const defaults = {
    save: "",
    appendonly: "no",
    bind: "127.0.0.1",
    port: `${port}`,
    unixsocket: socket,
    dir: directory,
  };
  let child: ChildProcess | undefined;
  const server: RedisServer = {
    url: tcp ? `redis://127.0.0.1:${port}` : socket,
    async start() {
      const options = Object.entries({ ...defaults, ...settings }).flatMap(([name, value]) => [`--${name}`, value]);
      child = spawn("redis-server", options, { stdio: ["ignore", "ignore", "inherit"] });
      const failed = once(child, "exit").then(([code]) => {
        throw new Error(`redis-server ended with code ${String(code)} before it answered`);
      });
      failed.catch(() => {});
      await Promise.race([answering(server.url), failed]);
    },
    async kill() {
      if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    },
    async remove() {
      await server.kill();
      await rm(directory, { recursive: true, force: true });
    },
  };
  await server.start();
  return server;
}

export async function freePort(): Promise<number> {
  const server = createServer().listen({ port: 0, host: "127.0.0.1" });
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  return port;
}

/** Resolves when the server takes commands. */
async function answering(url: string): Promise<void> {
  const client = new Redis(url, { retryStrategy: () => 5, maxRetriesPerRequest: 2000 });
  client.on("error", () => {});
  try {
    await client.ping();
  } finally {
    client.disconnect();
  }
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
export function redisClient(url: string): Redis {
  const client = new Redis(url, { retryStrategy: () => 20 });
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
