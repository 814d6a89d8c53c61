/** What ends a worker's sleep: a run or an answer stored in this process, a backend that tells of other processes', or time. */

import type { Backend } from "../backend.ts";

/** Who sleeps, by backend: in one process no backend has to tell. */
const sleepers = new WeakMap<Backend, Set<() => void>>();

/** Wakes the workers of this process. */
export function wakeWorkers(backend: Backend): void {
  for (const wake of sleepers.get(backend) ?? []) wake();
}

export class WakeUp {
  readonly #backend: Backend;
  readonly #wake = () => this.now();
  #woken = false;
  #resolve: (() => void) | undefined;
  #watching: { close(): Promise<void> } | undefined;

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  async open(): Promise<void> {
    const known = sleepers.get(this.#backend) ?? new Set();
    known.add(this.#wake);
    sleepers.set(this.#backend, known);
    this.#watching = await this.#backend.watch?.(this.#wake);
  }

  /** Ends the sleep, or the next one at once. */
  now(): void {
    this.#woken = true;
    this.#resolve?.();
  }

  async sleep(ms: number): Promise<void> {
    if (!this.#woken) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        this.#resolve = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#resolve = undefined;
    this.#woken = false;
  }

  async close(): Promise<void> {
    sleepers.get(this.#backend)?.delete(this.#wake);
    const watching = this.#watching;
    this.#watching = undefined;
    await watching?.close();
  }
}
