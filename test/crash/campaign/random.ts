/** Numbers that follow from a text: the same text gives the same numbers, on every machine. */

import { createHash } from "node:crypto";

const RANGE = 2 ** 32;

export class Random {
  readonly #state: Uint32Array;

  /** @param parts what the numbers are for, for example a seed, a backend and a place in the plan */
  constructor(...parts: readonly (string | number)[]) {
    const digest = createHash("sha256").update(JSON.stringify(parts)).digest();
    this.#state = Uint32Array.from({ length: 4 }, (_, word) => digest.readUInt32LE(4 * word));
  }

  /** From 0 to 1, without 1 (sfc32). */
  next(): number {
    const state = this.#state;
    const [a = 0, b = 0, c = 0, d = 0] = state;
    const t = (a + b + d) >>> 0;
    state.set([b ^ (b >>> 9), (c + (c << 3)) >>> 0, (((c << 21) | (c >>> 11)) + t) >>> 0, (d + 1) >>> 0]);
    return t / RANGE;
  }

  /** A whole number, both ends included. */
  whole(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  pick<T>(all: readonly T[]): T {
    return all[this.whole(0, all.length - 1)] as T;
  }

  shuffled<T>(all: readonly T[]): T[] {
    const left = [...all];
    return all.map(() => left.splice(this.whole(0, left.length - 1), 1)[0] as T);
  }
}
