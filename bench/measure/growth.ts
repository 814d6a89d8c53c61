/** A conversation of many steps: time of each step, bytes of each step, bytes of the file at the end. */

import { type CommitEvent, channels } from "holdfast";
import { type Channel, conversationLoop, type Durability } from "../graphs.ts";
import { openSaver, type SaverName } from "../savers.ts";
import { mean, median } from "../statistics.ts";

export interface GrowthJob {
  readonly kind: "growth";
  readonly saver: SaverName;
  readonly channel: Channel;
  readonly durability: Durability;
  readonly steps: number;
  /** Untimed runs of the same length before. */
  readonly warmups: number;
  readonly repeats: number;
}

/** Steps compared at either end. */
export const WINDOW = 100;

/**
 * `ms`: the whole loop. `first`, `last`: ms a step over the first and last {@link WINDOW} steps (`…Median` likewise).
 * `bytesFirst`, `bytesLast`: encoded bytes a step around step 100 and over the last 100 (ours only). `stored`: bytes of all that is kept.
 */
export async function measureGrowth(job: GrowthJob, dir: string): Promise<Record<string, number>> {
  const runs: Record<string, number>[] = [];
  for (let i = 0; i < job.warmups + job.repeats; i += 1) {
    const run = await oneRun(job, dir, `growth-${i}`);
    if (i >= job.warmups) runs.push(run);
  }
  const names = Object.keys(runs[0] as Record<string, number>);
  return Object.fromEntries(names.map((name) => [name, mean(runs.map((run) => run[name] as number))]));
}

async function oneRun(job: GrowthJob, dir: string, name: string): Promise<Record<string, number>> {
  const open = await openSaver(job.saver, dir, name);
  const loop = conversationLoop(open.saver, job.channel);
  const starts = new Float64Array(job.steps + 1);
  const encoded = new Float64Array(job.steps + 1);
  let bytes = 0;
  const count = (event: unknown) => {
    bytes += (event as CommitEvent).bytes;
  };
  channels.commitAfter.subscribe(count);
  await loop.run("t", job.steps, job.durability, (done) => {
    starts[done] = performance.now();
    encoded[done] = bytes;
  });
  starts[job.steps] = performance.now();
  encoded[job.steps] = bytes;
  channels.commitAfter.unsubscribe(count);
  const stored = await open.stored();
  await open.close();
  const durations = Array.from({ length: job.steps }, (_, i) => (starts[i + 1] as number) - (starts[i] as number));
  const first = durations.slice(0, WINDOW);
  const last = durations.slice(-WINDOW);
  const middle = Math.min(WINDOW, job.steps / 4);
  return {
    ms: (starts[job.steps] as number) - (starts[0] as number),
    first: mean(first),
    last: mean(last),
    firstMedian: median(first),
    lastMedian: median(last),
    bytesFirst: between(encoded, middle - middle / 2, middle + middle / 2),
    bytesLast: between(encoded, job.steps - middle, job.steps),
    stored,
  };
}

function between(counts: Float64Array, from: number, to: number): number {
  const [a, b] = [Math.round(from), Math.round(to)];
  return ((counts[b] as number) - (counts[a] as number)) / (b - a);
}
