/**
 * Calls of scripts on one client. What fails because the connection or the server is away is tried again until `retryMs`
 * have passed: every script may be called twice (a commit knows its own number). What the server answers is an answer.
 */

import { closedError, HoldfastError, isHoldfastError } from "holdfast";
import type { RedisClient } from "./driver.ts";
import type { Script } from "./script.ts";

/** Answers of a server that will be of another mind soon. */
const PASSING = /^(?:LOADING|BUSY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|READONLY) /;
const PAUSE_MS = 5;
const PAUSE_MS_MAX = 500;

export class Connection {
  readonly name: string;
  readonly #client: RedisClient;
  readonly #prefix: string;
  readonly #own: boolean;
  #retryMs: number;
  #closed = false;
  readonly #running = new Set<Promise<unknown>>();

  /** `own`: whether the client ends with this connection. */
  constructor(name: string, client: RedisClient, prefix: string, retryMs: number, own: boolean) {
    this.name = name;
    this.#client = client;
    this.#prefix = prefix;
    this.#retryMs = retryMs;
    this.#own = own;
    // The client goes on trying by itself; the calls that fail meanwhile tell. Unheard, an "error" ends the process.
    client.on("error", ignore);
  }

  /** From now on calls are tried for so long, in milliseconds. */
  tryFor(retryMs: number): void {
    this.#retryMs = retryMs;
  }

  requireOpen(): void {
    if (this.#closed) throw closedError(this.name);
  }

  /** Runs a script; strings come as buffers. */
  async run(script: Script, ...args: (string | Buffer)[]): Promise<unknown> {
    this.requireOpen();
    return this.persist(() => this.#run(script, args));
  }

  /** Runs another command; strings come as text. */
  async command(command: string, ...args: string[]): Promise<unknown> {
    this.requireOpen();
    return this.persist(() => this.#client.call(command, ...args));
  }

  /** As {@link command}; strings come as buffers. */
  async buffers(command: string, ...args: string[]): Promise<unknown> {
    this.requireOpen();
    return this.persist(() => this.#client.callBuffer(command, ...args));
  }

  /** A client of its own to the same server, which the caller ends; undefined where the client makes no others. */
  duplicate(): RedisClient | undefined {
    return this.#client.duplicate?.();
  }

  /** Refuses every later call; calls under way go on. */
  refuse(): void {
    this.#closed = true;
  }

  end(): void {
    if (this.#own) this.#client.disconnect();
    else this.#client.off("error", ignore);
  }

  /** Makes attempts until one is answered: also after {@link refuse}. */
  persist<T>(attempt: () => Promise<T>): Promise<T> {
    const answer = this.#persist(attempt);
    this.#running.add(answer);
    const done = () => void this.#running.delete(answer);
    answer.then(done, done);
    return answer;
  }

  /** Resolves when every call made so far is answered. */
  async idle(): Promise<void> {
    await Promise.allSettled([...this.#running]);
  }

  async #persist<T>(attempt: () => Promise<T>): Promise<T> {
    const deadline = performance.now() + this.#retryMs;
    for (let pauseMs = PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX)) {
      try {
        return await (this.#own ? attempt() : within(this.#retryMs, attempt()));
      } catch (error) {
        const leftMs = deadline - performance.now();
        if (!isPassing(error) || leftMs <= 0 || this.#client.status === "end") throw this.#failure(error);
        await new Promise((resolve) => setTimeout(resolve, Math.min(pauseMs * (0.5 + Math.random()), leftMs)));
      }
    }
  }

  /** As {@link run}, without a look at whether it is closed. */
  async runLast(script: Script, ...args: (string | Buffer)[]): Promise<unknown> {
    return this.persist(() => this.#run(script, args));
  }

  async #run(script: Script, args: (string | Buffer)[]): Promise<unknown> {
    try {
      return await this.#client.callBuffer("evalsha", script.sha, "1", this.#prefix, ...args);
    } catch (error) {
      if (!isAnswer(error) || !error.message.startsWith("NOSCRIPT")) throw error;
      return await this.#client.callBuffer("eval", script.text, "1", this.#prefix, ...args);
    }
  }

  #failure(cause: unknown): HoldfastError {
    if (isHoldfastError(cause)) return cause;
    const message = cause instanceof Error ? cause.message : String(cause);
    return new HoldfastError("STORAGE_FAILED", `${this.name} failed: ${message}. ${remedy(cause, this.#retryMs)}`, {
      cause,
      details: { name: this.name },
    });
  }
}

function ignore(): void {}

/** For a client of somebody else, which may be set to wait for ever. */
async function within<T>(timeoutMs: number, answer: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("the client has not answered")), timeoutMs);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Whether it is the server's word, not the loss of the connection. */
export function isAnswer(error: unknown): error is Error {
  return error instanceof Error && error.name === "ReplyError";
}

function isPassing(error: unknown): boolean {
  return isAnswer(error) ? PASSING.test(error.message) : !isHoldfastError(error);
}

function remedy(cause: unknown, retryMs: number): string {
  if (!isAnswer(cause))
    return `The server could not be reached for ${retryMs} ms (retryMs). What was acknowledged is kept; of what was not, nobody knows.`;
  const { message } = cause;
  if (message.startsWith("OOM"))
    return "The server has reached its maxmemory: raise it, or make room; nothing was evicted.";
  if (message.startsWith("MISCONF")) return "The server cannot write its files and takes no commits: see its log.";
  if (message.startsWith("NOPERM"))
    return "The user needs EVALSHA, EVAL, and the commands of the scripts on the store's keys.";
  if (message.startsWith("READONLY")) return "This is a replica: connect to the primary.";
  return "What was acknowledged before is kept.";
}
