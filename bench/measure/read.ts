/** Reading: state at the tip, the whole history, its first ten; on a database that is there already. */

import { conversationLoop, counterLoop, type Loop } from "../graphs.ts";
import { type OpenSaver, openSaver, type SaverName } from "../savers.ts";
import { median } from "../statistics.ts";

/** What a seeded store holds: a conversation; counters of 100 and of many checkpoints; one of 100 among many other threads. */
export type Seed = "conversation" | "delta" | "counters" | "crowd";

export interface SeedJob {
  readonly kind: "seed";
  readonly saver: SaverName;
  readonly seed: Seed;
  readonly name: string;
  /** Of a crowd: the other threads. */
  readonly steps: number;
}

export interface ReadJob {
  readonly kind: "read";
  readonly saver: SaverName;
  readonly seed: Seed;
  /** Of the database in the directory of the seeds. */
  readonly name: string;
  readonly what: "state" | "history" | "tips" | "tip";
  readonly reads: number;
}

const SHORT = 100;
/** Threads of a crowd that are made at once. */
const AT_ONCE = 64;

function loopOf(open: OpenSaver, seed: Seed): Loop {
  if (seed === "counters" || seed === "crowd") return counterLoop(open.saver);
  return conversationLoop(open.saver, seed === "delta" ? "delta" : "messages");
}

export async function seed(job: SeedJob, dir: string): Promise<Record<string, number>> {
  const open = await openSaver(job.saver, dir, job.name);
  const loop = loopOf(open, job.seed);
  if (job.seed === "crowd") await crowd(loop, job.steps);
  else await loop.run("long", job.steps, "sync");
  if (job.seed === "counters" || job.seed === "crowd") await loop.run("short", SHORT, "sync");
  await open.close();
  return {};
}

async function crowd(loop: Loop, threads: number): Promise<void> {
  const names = Array.from({ length: threads }, (_, n) => `other-${n}`).values();
  const lane = async () => {
    for (const name of names) await loop.run(name, 1, "sync");
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}

/** Milliseconds. `state`: first and median read. `history`: the whole, its first item and its first ten. `tips`: long and short thread; `tip`: the short one. */
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
    result = { one: await medianOf(job.reads, () => history(1)), ten: median(ten), history: await history() };
  } else if (job.what === "tip") {
    const short: number[] = [];
    // The first half warms up.
    for (let i = -job.reads; i < job.reads; i += 1) {
      const time = await state("short");
      if (i >= 0) short.push(time);
    }
    result = { short: median(short) };
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
