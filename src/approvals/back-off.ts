/**
 * Threads that failed after a decision, and when each is tried again: after 5 seconds, then twice as long each time, at
 * most an hour. In memory, an entry for each failing thread: another process that finds an answered wait tries it at once.
 */

/** A thread and the graph that goes on with it. */
export interface ThreadRef {
  readonly thread: string;
  readonly graph: string;
  readonly owner: string | undefined;
}

interface Entry {
  readonly ref: ThreadRef | undefined;
  readonly failures: number;
  readonly since: number;
  readonly delayMs: number;
}

const FIRST_MS = 5_000;
const LONGEST_MS = 3_600_000;

export class BackOff {
  readonly #entries = new Map<string, Entry>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** `ref` undefined: nothing here can go on with it, so it is only not looked at for a while. */
  failed(thread: string, ref: ThreadRef | undefined): void {
    const failures = this.#entries.get(thread)?.failures ?? 0;
    const delayMs = Math.min(FIRST_MS * 2 ** failures, LONGEST_MS);
    this.#entries.set(thread, { ref, failures: failures + 1, since: this.#now(), delayMs });
  }

  forget(thread: string): void {
    this.#entries.delete(thread);
  }

  waiting(thread: string): boolean {
    const entry = this.#entries.get(thread);
    return entry !== undefined && !this.#over(entry);
  }

  /** Threads whose time has come. */
  due(): ThreadRef[] {
    return [...this.#entries.values()].flatMap((entry) =>
      entry.ref !== undefined && this.#over(entry) ? [entry.ref] : [],
    );
  }

  /** A clock that was set back ends the pause: it is never longer than stated. */
  #over({ since, delayMs }: Entry): boolean {
    const passed = this.#now() - since;
    return passed < 0 || passed >= delayMs;
  }
}
