/** `threads`: many threads at once in one process, on SQLite. */

import { type Line, lineOf, ratioOf } from "./line.ts";
import type { ThreadsJob } from "./measure/threads.ts";
import { type Bench, runRounds } from "./rounds.ts";
import type { SaverName } from "./savers.ts";

/** Supersteps of all threads together. */
const STEPS = 3200;
const STEPS_QUICK = 1600;

export function threadsJob(bench: Bench, saver: SaverName, threads: number): ThreadsJob {
  const steps = Math.round((bench.quick ? STEPS_QUICK : STEPS) / threads);
  return { kind: "threads", saver, threads, steps, repeats: 2 };
}

export async function threads(bench: Bench): Promise<Line[]> {
  const lines: Line[] = [];
  for (const count of [16, 64]) {
    const job = (saver: SaverName) => threadsJob(bench, saver, count);
    const rounds = await runRounds(bench, `${count} threads at once`, {
      engine: job("engine"),
      "holdfast-full": job("holdfast-full"),
      "official-full": job("official-full"),
    });
    const about = (compares: string) => ({
      bench: "threads",
      unit: "µs a superstep",
      compares: `${count} counter graphs at once, sync, SQLite FULL: ${compares}`,
    });
    // The bars are about throughput, the inverse of the time.
    lines.push(
      lineOf(rounds, {
        ...about("holdfast against the published SqliteSaver with synchronous=FULL"),
        name: `${count} threads, FULL ÷ official FULL`,
        ...ratioOf("us", "holdfast-full", "official-full"),
        bar: 1 / 1.6,
        aim: 1 / 1.8,
      }),
      lineOf(rounds, {
        ...about("holdfast against the same graph without a checkpointer"),
        name: `${count} threads, FULL ÷ engine`,
        ...ratioOf("us", "holdfast-full", "engine"),
        bar: 1 / 0.65,
        aim: 1 / 0.8,
      }),
    );
  }
  return lines;
}
