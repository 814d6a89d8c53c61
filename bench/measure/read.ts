/** Reading: state at the tip, the whole history, its first ten; on a database that is there already. */

import { conversationLoop, counterLoop, type Loop } from "../graphs.ts";
import { type OpenSaver, openSaver, type SaverName } from "../savers.ts";
import { median } from "../statistics.ts";

/** What a seeded database holds: a conversation, or counters of 100 and of many checkpoints. */
export type Seed = "conversation" | "delta" | "counters";

export interface SeedJob {
  readonly kind: "seed";
  readonly saver: SaverName;
  readonly seed: Seed;
  readonly name: string;
  readonly steps: number;
}

export interface ReadJob {
  readonly kind: "read";
  readonly saver: SaverName;
  readonly seed: Seed;
  /** Of the database in the directory of the seeds. */
  readonly name: string;
  readonly what: "state" | "history" | "tips";
  readonly reads: number;
}

const SHORT = 100;

function loopOf(open: OpenSaver, seed: Seed): Loop {
  if (seed === "counters") return counterLoop(open.saver);
  return conversationLoop(open.saver, seed === "delta" ? "delta" : "messages");
}

export async function seed(job: SeedJob, dir: string): Promise<Record<string, number>> {
  const open = await openSaver(job.saver, dir, job.name);
  const loop = loopOf(open, job.seed);
  await loop.run("long", job.steps, "sync");
  if (job.seed === "counters") await loop.run("short", SHORT, "sync");
  await open.close();
  return {};
}

/** Milliseconds. `state`: first and median read. `history`: the whole, and its first ten. `tips`: long and short thread. */
export async function measureRead(job: ReadJob, dir: string): Promise<Record<string, number>> {
  const open = await openSaver(job.saver, dir, job.name);
  const { app } = loopOf(open, job.seed);
  const at = (thread: string) => ({ configurable: { thread_id: thread } });
  const state = (thread: string) => timed(() => app.getState(at(thread)));
  const history = (limit?: number) =>
    timed(async () => {
      let count = 0;
      for await (const _ of app.getStateHistory(at("long"), limit === undefined ? {} : { limit })) count += 1;
      return count;
    });
  let result: Record<string, number>;
  if (job.what === "state") {
    const first = await state("long");
    const times: number[] = [];
    for (let i = 0; i < job.reads; i += 1) times.push(await state("long"));
    result = { first, state: median(times) };
  } else if (job.what === "history") {
    const ten: number[] = [];
    for (let i = 0; i < job.reads; i += 1) ten.push(await history(10));
    result = { ten: median(ten), history: await history() };
  } else {
    const long: number[] = [];
    const short: number[] = [];
    for (let i = -job.reads; i < job.reads; i += 1) {
      const times =
        i % 2 === 0
          ? [await state("long"), await state("short")]
          : [await state("short"), await state("long")].reverse();
      // The first half warms up.
      if (i < 0) continue;
      long.push(times[0] as number);
      short.push(times[1] as number);
    }
    result = { long: median(long), short: median(short), ten: await medianOf(5, () => history(10)) };
  }
  await open.close();
  return result;
}

async function medianOf(times: number, measure: () => Promise<number>): Promise<number> {
  const values: number[] = [];
  for (let i = 0; i < times; i += 1) values.push(await measure());
  return median(values);
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}
