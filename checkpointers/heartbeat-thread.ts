/**
 * A thread that gives signs of life for its process: they come also while the event loop is busy, and end when the process is
 * stopped or has died.
 *
 * The thread's program is a text, because it must start from sources, from compiled files and from bundles alike.
 */

import { once } from "node:events";
import { Worker } from "node:worker_threads";

export interface Heartbeat {
  /** Resolves when the thread has ended. Idempotent. */
  stop(): Promise<void>;
}

/** For what a thread has under way when it is told to end, and for its first sign of life. */
const WAIT_MS = 1000;

export interface HeartbeatEvents {
  /** The first sign of life was given. */
  readonly begun?: () => void;
  /** The thread has ended by itself. */
  readonly lost?: () => void;
}

/**
 * Starts `program`, which finds `data` in `workerData`, posts a message when a sign of life was given, and ends when it is sent
 * one. Resolves with the first sign, or when none can be given for the time being. It keeps no process alive.
 */
export async function startHeartbeat(program: string, data: object, events: HeartbeatEvents): Promise<Heartbeat> {
  // None of the process's own flags: they may say that a text is a module, or load what the thread has no use for.
  const options = { eval: true, workerData: data, execArgv: [], name: "holdfast-heartbeat" };
  const thread = new Worker(program, options);
  let stopped = false;
  // Whatever it fails of, it has ended then.
  thread.on("error", () => {});
  const ended = once(thread, "exit");
  thread.on("exit", () => {
    if (!stopped) events.lost?.();
  });
  const begun = once(thread, "message");
  thread.once("message", () => {
    if (!stopped) events.begun?.();
  });
  thread.unref();
  await atMost(WAIT_MS, begun, ended);
  return {
    stop: async () => {
      stopped = true;
      thread.postMessage("end");
      await atMost(WAIT_MS, ended);
      await thread.terminate();
    },
  };
}

/** Resolves with the first of them, or when the time is over; leaves no timer that a finished process would wait for. */
async function atMost(ms: number, ...events: readonly Promise<unknown>[]): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([...events, late]);
  clearTimeout(timer);
}

/** One heartbeat for all who ask: it ends when each of them has stopped it, or all at once. */
export class SharedHeartbeat {
  readonly #start: () => Promise<Heartbeat>;
  #holders = 0;
  #ended: Promise<void> = Promise.resolve();
  #heartbeat: Promise<Heartbeat> | undefined;

  constructor(start: () => Promise<Heartbeat>) {
    this.#start = start;
  }

  async hold(): Promise<Heartbeat> {
    this.#holders += 1;
    let held = true;
    const stop = async () => {
      if (!held) return;
      held = false;
      this.#holders -= 1;
      if (this.#holders === 0) await this.end();
    };
    this.#heartbeat ??= this.#ended.then(this.#start);
    await this.#heartbeat;
    return { stop };
  }

  /** For all, whoever holds it. */
  async end(): Promise<void> {
    const heartbeat = this.#heartbeat;
    this.#heartbeat = undefined;
    // The next one begins after this one: both may write to one place.
    if (heartbeat !== undefined) this.#ended = heartbeat.then((begun) => begun.stop());
    await this.#ended;
  }
}
