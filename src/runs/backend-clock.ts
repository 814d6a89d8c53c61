/**
 * The backend's clock for what is asked again and again. A server is asked once a minute; between two answers the monotonic
 * clock of this process goes on from the last one, so that looking for due runs is one statement and not two.
 */

import type { Backend } from "../backend.ts";

const ASK_MS = 60_000;

export class BackendClock {
  readonly #backend: Backend;
  /** What the server said, and when that was by `performance.now()`. */
  #last: { readonly said: number; readonly at: number } | undefined;

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  /** Milliseconds since 1970. */
  async now(): Promise<number> {
    const at = performance.now();
    if (this.#last !== undefined && at - this.#last.at < ASK_MS) return this.#last.said + at - this.#last.at;
    const said = this.#backend.now();
    if (typeof said === "number") return said;
    this.#last = { said: await said, at };
    return this.#last.said;
  }
}
