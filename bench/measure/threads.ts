/** Supersteps of many threads at once in one process. */

import { counterLoop } from "../graphs.ts";
import { openSaver, type SaverName } from "../savers.ts";
import { median } from "../statistics.ts";

export interface ThreadsJob {
  readonly kind: "threads";
  readonly saver: SaverName;
  /** Threads that run at once. */
  readonly threads: number;
  /** Supersteps of each. */
  readonly steps: number;
  readonly repeats: number;
}

/** `us`: µs a superstep, of all threads together, median of the repeats after one untimed run; sync durability. */
export async function measureThreads(job: ThreadsJob, dir: string): Promise<Record<string, number>> {
  const open = await openSaver(job.saver, dir, "threads");
  const loop = counterLoop(open.saver);
  const times: number[] = [];
  for (let i = 0; i <= job.repeats; i += 1) {
    const start = performance.now();
    await Promise.all(
      Array.from({ length: job.threads }, (_, n) => loop.run(`run-${i}-thread-${n}`, job.steps, "sync")),
    );
    if (i > 0) times.push(((performance.now() - start) * 1000) / (job.steps * job.threads));
  }
  await open.close();
  return { us: median(times) };
}
