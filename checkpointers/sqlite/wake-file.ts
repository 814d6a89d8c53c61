/**
 * How processes that share a database file tell each other of commits: a file in the directory of its owners is touched, and
 * whoever listens watches the directory. Nothing depends on it: whoever listens looks by itself as well.
 */

import { type FSWatcher, utimesSync, watch, writeFileSync } from "node:fs";
import { join } from "node:path";
import { closedError } from "holdfast";

export const WAKE_NAME = "wake";

export class WakeFile {
  readonly #name: string;
  readonly #directory: string;
  readonly #wakes = new Set<() => void>();
  #watcher: FSWatcher | undefined;
  #closed = false;

  /** @param name of the database, for messages */
  constructor(name: string, directory: string) {
    this.#name = name;
    this.#directory = directory;
  }

  /** Tells everybody who listens, this process included. */
  touch(): void {
    const file = join(this.#directory, WAKE_NAME);
    const now = new Date();
    try {
      utimesSync(file, now, now);
    } catch {
      try {
        writeFileSync(file, "");
      } catch {
        // The others look by themselves.
      }
    }
  }

  async watch(wake: () => void): Promise<{ close(): Promise<void> }> {
    if (this.#closed) throw closedError(this.#name);
    // Of its own, also where the same function is given twice.
    const entry = () => wake();
    this.#wakes.add(entry);
    this.#watcher ??= this.#open();
    return {
      close: async () => {
        this.#wakes.delete(entry);
        if (this.#wakes.size === 0) this.#stop();
      },
    };
  }

  close(): void {
    this.#closed = true;
    this.#wakes.clear();
    this.#stop();
  }

  /** Undefined where the system watches no more directories. */
  #open(): FSWatcher | undefined {
    try {
      const watcher = watch(this.#directory, { persistent: false }, (_event, name) => {
        if (name === WAKE_NAME) for (const wake of this.#wakes) wake();
      });
      watcher.on("error", () => this.#stop());
      return watcher;
    } catch {
      return undefined;
    }
  }

  #stop(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }
}
