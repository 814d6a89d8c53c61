/**
 * Hears of commits that others may be waiting for, on a connection of its own: LISTEN belongs to a session. Nothing depends on
 * it. A connection that is lost is made again, and what was missed meanwhile is made up for by one call. Behind a pooler in
 * transaction mode nothing is ever heard, and nothing says so.
 */

import { createHash } from "node:crypto";
import type { Connections } from "./connections.ts";
import type { PgClient } from "./driver.ts";

const PAUSE_MS_MAX = 5000;

/** What the commit function notifies: one channel for each schema of a database, and within the length of a name. */
export function channelOf(schema: string): string {
  return `holdfast_${createHash("sha256").update(schema).digest("hex").slice(0, 40)}`;
}

type Wake = () => void;

export class Listener {
  readonly #connections: Connections;
  readonly #channel: string;
  readonly #wakes = new Set<Wake>();
  #session: Session | undefined;

  constructor(connections: Connections, schema: string) {
    this.#connections = connections;
    this.#channel = channelOf(schema);
  }

  /** Resolves when commits are heard of, or when they cannot be for the time being. */
  async watch(wake: Wake): Promise<{ close(): Promise<void> }> {
    this.#connections.requireOpen();
    // Of its own, also where the same function is given twice.
    const entry = () => wake();
    this.#wakes.add(entry);
    this.#session ??= new Session(this.#connections, this.#channel, () => {
      for (const one of this.#wakes) queueMicrotask(one);
    });
    await this.#session.begun;
    return {
      close: async () => {
        this.#wakes.delete(entry);
        if (this.#wakes.size === 0) await this.stop();
      },
    };
  }

  async stop(): Promise<void> {
    this.#wakes.clear();
    const session = this.#session;
    this.#session = undefined;
    await session?.end();
  }
}

/** One time of listening, over as many connections as it takes. */
class Session {
  /** When the first attempt has come to an end. */
  readonly begun: Promise<void>;
  readonly #connections: Connections;
  readonly #channel: string;
  readonly #wake: Wake;
  readonly #ended = new AbortController();
  readonly #aborted: Promise<undefined>;
  readonly #running: Promise<void>;
  #begin: Wake = () => {};
  #heard = 0;

  constructor(connections: Connections, channel: string, wake: Wake) {
    this.#connections = connections;
    this.#channel = channel;
    this.#wake = wake;
    this.begun = new Promise((resolve) => {
      this.#begin = resolve;
    });
    this.#aborted = new Promise((resolve) => this.#ended.signal.addEventListener("abort", () => resolve(undefined)));
    this.#running = this.#run();
    // A pool may let one wait for a connection for as long as its others are taken.
    pause(connections.answerTimeoutMs, this.#ended.signal).then(this.#begin, this.#begin);
  }

  async end(): Promise<void> {
    this.#ended.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    for (let tries = 0; !this.#ended.signal.aborted; tries++) {
      const heard = this.#heard;
      try {
        const connecting = this.#connections.keep();
        connecting.then(
          (client) => this.#ended.signal.aborted && client?.release(true),
          () => {},
        );
        const client = await Promise.race([connecting, this.#aborted]);
        if (client === undefined) break;
        if (!this.#ended.signal.aborted) await this.#hear(client);
      } catch {
        // Whoever listens looks by itself as well.
      }
      this.#begin();
      if (this.#heard > heard) tries = 0;
      await pause(Math.random() * Math.min(PAUSE_MS_MAX, 100 * 2 ** tries), this.#ended.signal);
    }
    this.#begin();
  }

  /** Resolves when the connection is lost, or is needed no more. */
  async #hear(client: PgClient): Promise<void> {
    const lost = new AbortController();
    const lose = () => lost.abort();
    const { answerTimeoutMs } = this.#connections;
    const ask = async (text: string) => {
      const late = setTimeout(lose, answerTimeoutMs).unref();
      await client.query(text).finally(() => clearTimeout(late));
    };
    const gone = new Promise<void>((resolve) => lost.signal.addEventListener("abort", () => resolve()));
    this.#ended.signal.addEventListener("abort", lose);
    client.on("error", lose);
    client.on("end", lose);
    client.on("notification", ({ channel }) => {
      if (channel === this.#channel) this.#wake();
    });
    // A network that falls silent tells nobody.
    const beat = setInterval(() => void ask("select 1").catch(lose), answerTimeoutMs).unref();
    try {
      await Promise.race([ask(`listen ${this.#channel}`), gone]);
      if (lost.signal.aborted) return;
      this.#heard += 1;
      if (this.#heard > 1) this.#wake();
      this.#begin();
      // That it waits for others is no reason for a process to go on.
      client.unref?.();
      await gone;
    } finally {
      clearInterval(beat);
      this.#ended.signal.removeEventListener("abort", lose);
      client.release(true);
    }
  }
}

/** Nor is this. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms).unref();
    signal.addEventListener("abort", done);
  });
}
