/** Rows in this process's memory. Lost with the process: for tests and for graphs that need no durability. */

import type { Backend, Commit, Verdict } from "holdfast";
import { mayWake } from "../may-wake.ts";
import { judge } from "./judge.ts";
import { MemoryState } from "./state.ts";
import { StateBackend } from "./state-backend.ts";

export interface MemoryBackendOptions {
  /** The rows; default: none. Backends over the same state behave like processes over the same file. */
  readonly state?: MemoryState;
}

/** A backend without files. `capabilities`: one process, no durability, no transactions. */
export function memoryBackend(options: MemoryBackendOptions = {}): Backend {
  return new MemoryBackend(options.state ?? new MemoryState());
}

class MemoryBackend extends StateBackend {
  readonly #watches = new Set<() => void>();

  constructor(state: MemoryState) {
    super("memory:", { processes: "one", durability: "none", ephemeral: true, transactions: false }, state);
  }

  commit(group: readonly Commit[]): Promise<readonly Verdict[]> | readonly Verdict[] {
    try {
      this.requireOpen();
    } catch (error) {
      return Promise.reject(error);
    }
    return group.map((commit) => {
      const { verdict, changes } = judge(this.state, commit);
      for (const change of changes) this.state.apply(change);
      if (this.state.wakes.size > 0 && changes.some((change) => mayWake(change, Date.now)))
        for (const wake of this.state.wakes) queueMicrotask(wake);
      return verdict;
    });
  }

  async watch(wake: () => void): Promise<{ close(): Promise<void> }> {
    this.requireOpen();
    // Of its own, also where the same function is given twice.
    const entry = () => wake();
    this.state.wakes.add(entry);
    this.#watches.add(entry);
    return {
      close: async () => {
        this.state.wakes.delete(entry);
        this.#watches.delete(entry);
      },
    };
  }

  protected async release(): Promise<void> {
    for (const entry of this.#watches) this.state.wakes.delete(entry);
  }
}
