/**
 * Hears of commits that others may be waiting for, on a connection of its own: one that subscribes takes no commands. Nothing
 * depends on it. The client makes a lost connection again, and what was missed meanwhile is made up for by one call.
 */

import type { Connection } from "./connection.ts";
import type { RedisClient } from "./driver.ts";
import { lua, script } from "./script.ts";

/** As the server knows it: a client may be set to prefix keys, also that of scripts, and prefixes no channels. */
const channelScript = script(lua`
return P .. 'wake'
`);

type Wake = () => void;

export class Subscriber {
  readonly #connection: Connection;
  readonly #answerTimeoutMs: number;
  readonly #wakes = new Set<Wake>();
  #subscription: Subscription | undefined;

  constructor(connection: Connection, answerTimeoutMs: number) {
    this.#connection = connection;
    this.#answerTimeoutMs = answerTimeoutMs;
  }

  /** Resolves when commits are heard of, or when they cannot be for the time being. */
  async watch(wake: Wake): Promise<{ close(): Promise<void> }> {
    this.#connection.requireOpen();
    // Of its own, also where the same function is given twice.
    const entry = () => wake();
    this.#wakes.add(entry);
    if (this.#subscription === undefined) {
      const client = this.#connection.duplicate();
      const all = () => {
        for (const one of this.#wakes) queueMicrotask(one);
      };
      const channel = async () => String(await this.#connection.run(channelScript));
      if (client !== undefined) this.#subscription = new Subscription(client, channel, all, this.#answerTimeoutMs);
    }
    await this.#subscription?.begun;
    return {
      close: async () => {
        this.#wakes.delete(entry);
        if (this.#wakes.size === 0) this.stop();
      },
    };
  }

  stop(): void {
    this.#wakes.clear();
    this.#subscription?.end();
    this.#subscription = undefined;
  }
}

class Subscription {
  /** When the first attempt has come to an end. */
  readonly begun: Promise<void>;
  readonly #client: RedisClient;
  readonly #channel: () => Promise<string>;
  readonly #wake: Wake;
  readonly #answerTimeoutMs: number;
  readonly #beat: NodeJS.Timeout;
  #begin: Wake = () => {};
  #heard = 0;

  constructor(client: RedisClient, channel: () => Promise<string>, wake: Wake, answerTimeoutMs: number) {
    this.#client = client;
    this.#channel = channel;
    this.#wake = wake;
    this.#answerTimeoutMs = answerTimeoutMs;
    this.begun = new Promise((resolve) => {
      this.#begin = resolve;
    });
    setTimeout(this.#begin, answerTimeoutMs).unref();
    client.on("error", this.#begin);
    client.on("ready", () => void this.#subscribe());
    client.on("message", wake);
    // A network that falls silent tells nobody.
    this.#beat = setInterval(() => void this.#ping(), answerTimeoutMs).unref();
    if (client.status === "wait") client.connect().catch(() => {});
  }

  end(): void {
    clearInterval(this.#beat);
    this.#begin();
    this.#client.disconnect();
  }

  /** Where a user may not subscribe nothing is heard: whoever listens looks by itself as well. */
  async #subscribe(): Promise<void> {
    try {
      await this.#client.subscribe?.(await this.#channel());
      this.#heard += 1;
      if (this.#heard > 1) this.#wake();
    } catch {
    } finally {
      this.#begin();
    }
  }

  async #ping(): Promise<void> {
    const late = setTimeout(() => this.#client.disconnect(true), this.#answerTimeoutMs).unref();
    await this.#client.call("ping").catch(() => {});
    clearTimeout(late);
  }
}
