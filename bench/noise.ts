/** What the machine gives at the moment: a fixed piece of CPU work, and one fsync. */

import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { roundedSpread, type Spread, spread } from "./statistics.ts";

const ROUNDS = 20_000_000;

/** How long a fixed loop takes says how much of a core this process had. */
export function cpuLoopMs(): number {
  const start = performance.now();
  let x = 1;
  for (let i = 0; i < ROUNDS; i += 1) x = (Math.imul(x, 1_664_525) + 1_013_904_223) | 0;
  const ms = performance.now() - start;
  // Keeps the loop from being optimised away.
  return x === 0 ? -ms : ms;
}

const FSYNCS = 50;
const PAGE = 4096;

/**
 * µs to append a page and fsync it, the disk left alone for a millisecond before, as a graph leaves it. What is measured
 * with synchronous=FULL against the engine cannot be better than this divided by the engine's own time.
 */
export async function fsyncUs(dir: string): Promise<Spread> {
  const file = openSync(join(dir, "fsync"), "w");
  const page = Buffer.alloc(PAGE, 1);
  const times: number[] = [];
  for (let i = 0; i < FSYNCS; i += 1) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    const start = performance.now();
    writeSync(file, page);
    fsyncSync(file);
    times.push((performance.now() - start) * 1000);
  }
  closeSync(file);
  return roundedSpread(spread(times));
}
