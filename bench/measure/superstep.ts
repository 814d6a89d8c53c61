/** Time of one superstep of the counter graph, and how far durability lags behind in async. */

import { type CommitEvent, channels } from "holdfast";
import { counterLoop, type Durability, type Loop, yieldOnce } from "../graphs.ts";
import { type OpenSaver, openSaver, type SaverName } from "../savers.ts";
import { median } from "../statistics.ts";

export interface SuperstepJob {
  readonly kind: "superstep";
  readonly saver: SaverName;
  readonly durability: Durability;
  readonly yields: boolean;
  readonly warmup: number;
  readonly steps: number;
  readonly repeats: number;
}

/** `us`: µs a superstep, median of the repeats. `lag`: most commits that were not durable at once (async only). */
export async function measureSuperstep(job: SuperstepJob, dir: string): Promise<Record<string, number>> {
  const open = await openSaver(job.saver, dir, "superstep");
  const loop = counterLoop(open.saver, job.yields ? yieldOnce : undefined);
  await loop.run("warm-up", job.warmup, job.durability);
  const times: number[] = [];
  for (let i = 0; i < job.repeats; i += 1) {
    const start = performance.now();
    await loop.run(`run-${i}`, job.steps, job.durability);
    times.push(((performance.now() - start) * 1000) / job.steps);
  }
  const lag = job.durability === "async" && open.saver !== undefined ? await lagOf(open, loop, job.steps) : 0;
  await open.close();
  return { us: median(times), lag };
}

/** Runs once more, untimed, counting the commits handed over and those that are durable. */
async function lagOf(open: OpenSaver, loop: Loop, steps: number): Promise<number> {
  const saver = open.saver as NonNullable<OpenSaver["saver"]>;
  let pending = 0;
  let most = 0;
  const began = () => {
    pending += 1;
    most = Math.max(most, pending);
  };
  const durable = (event: unknown) => {
    for (const kind of (event as CommitEvent).kinds) if (kind === "checkpoint" || kind === "writes") pending -= 1;
  };
  // Ours acknowledges a put of async durability before it is durable: its commits are counted instead.
  const ended = () => {
    pending -= 1;
  };
  const settled = open.checkpointer === undefined ? ended : undefined;
  const put = saver.put.bind(saver);
  const putWrites = saver.putWrites.bind(saver);
  saver.put = (...args) => {
    began();
    const done = put(...args);
    return settled === undefined ? done : done.finally(settled);
  };
  saver.putWrites = (...args) => {
    began();
    const done = putWrites(...args);
    return settled === undefined ? done : done.finally(settled);
  };
  channels.commitAfter.subscribe(durable);
  await loop.run("lag", steps, "async");
  channels.commitAfter.unsubscribe(durable);
  return most;
}
