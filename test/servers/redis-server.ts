/** A Redis server of our own, from `redis-server` on the PATH, on a unix socket or a port in a directory of its own. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { Redis } from "ioredis";
import { freePort } from "./ports.ts";

/** Whether a program of this name is on the PATH. */
export function onPath(name: string): boolean {
  return (process.env["PATH"] ?? "").split(delimiter).some((directory) => {
    try {
      accessSync(join(directory, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
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
