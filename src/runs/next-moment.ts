/**
 * The backend's clock for runs that are started at once: those that come while it is being asked share the next answer, never the
 * one under way. So a moment is never from before the start that it is given to, as the order of starts of several processes needs.
 */

import type { Backend } from "../backend.ts";

export class NextMoment {
  readonly #backend: Backend;
  #asking: Promise<unknown> | undefined;
  #next: Promise<number> | undefined;

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  /** Milliseconds since 1970. */
  now(): Promise<number> {
    this.#next ??= this.#ask(this.#asking);
    return this.#next;
  }

  async #ask(before: Promise<unknown> | undefined): Promise<number> {
    await before?.catch(() => {});
    // Who comes from here on is too late for this one.
    const asked = Promise.resolve(this.#backend.now());
    this.#asking = asked;
    this.#next = undefined;
    return asked;
  }
}
