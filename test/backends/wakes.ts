/** Counts the calls of a watch and awaits them. */

import type { Backend } from "holdfast";
import { onTestFinished } from "vitest";

export interface Heard {
  readonly count: number;
  /** Resolves with the first call after `body` was called. */
  after(body: () => Promise<unknown>): Promise<void>;
  close(): Promise<void>;
}

export async function watching(backend: Backend): Promise<Heard> {
  let count = 0;
  const waiting = new Set<() => void>();
  const watch = await backend.watch?.(() => {
    count += 1;
    for (const resolve of waiting) resolve();
    waiting.clear();
  });
  if (watch === undefined) throw new Error(`${backend.name} tells nobody`);
  onTestFinished(() => watch.close());
  return {
    get count() {
      return count;
    },
    async after(body) {
      const next = new Promise<void>((resolve) => waiting.add(resolve));
      await body();
      await next;
    },
    close: () => watch.close(),
  };
}
