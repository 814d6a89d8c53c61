/**
 * Measurements side by side. Every measurement is a process of its own; a round makes each once, in random order; a
 * ratio is taken inside a round, and its median and spread over the rounds. Nothing is dropped: the fixed CPU loop that
 * each process runs before and after its measurement is reported with the result.
 */

import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Job } from "./jobs.ts";
import type { Servers } from "./servers.ts";

export interface Measurement {
  readonly values: Readonly<Record<string, number>>;
  /** The CPU loop before and after, in milliseconds. */
  readonly loopMs: readonly number[];
}

/** One round: a measurement per variant. */
export type Round<V extends string = string> = Readonly<Record<V, Measurement>>;

export interface Bench {
  /** Where the files of all measurements go. */
  readonly dir: string;
  readonly rounds: number;
  /** Shorter runs: bars are judged on the full size only. */
  readonly quick: boolean;
  /** Steps of the official saver in `growth`; it takes quadratic time. */
  readonly officialSteps: number;
  readonly servers: Servers;
  readonly progress: (text: string) => void;
}

const CHILD = fileURLToPath(new URL("child.js", import.meta.url));
const OUTPUT_MAX = 64 * 1024 * 1024;
const execute = promisify(execFile);

/** Runs a job in a process of its own, in `dir` or in a fresh directory that is removed afterwards. */
export async function measure(
  bench: Bench,
  job: Job,
  dir?: string,
  prefix: readonly string[] = [],
): Promise<Measurement> {
  const own = dir ?? (await mkdtemp(join(bench.dir, "job-")));
  try {
    const [command, ...args] = [...prefix, process.execPath, CHILD, JSON.stringify(job), own];
    const { stdout } = await execute(command as string, args, { maxBuffer: OUTPUT_MAX });
    return JSON.parse(stdout.trimEnd().split("\n").at(-1) as string) as Measurement;
  } catch (cause) {
    throw new Error(`the measurement ${JSON.stringify(job)} failed`, { cause });
  } finally {
    if (dir === undefined) await rm(own, { recursive: true, force: true });
  }
}

export async function runRounds<V extends string>(
  bench: Bench,
  title: string,
  jobs: Readonly<Record<V, Job>>,
  options: { readonly rounds?: number; readonly dir?: string } = {},
): Promise<Round<V>[]> {
  const names = Object.keys(jobs) as V[];
  const count = options.rounds ?? bench.rounds;
  const rounds: Round<V>[] = [];
  for (let i = 1; i <= count; i += 1) {
    const results: Partial<Record<V, Measurement>> = {};
    for (const name of shuffled(names)) {
      bench.progress(`${title}: round ${i} of ${count}, ${name}`);
      results[name] = await measure(bench, jobs[name], options.dir);
    }
    rounds.push(results as Round<V>);
  }
  return rounds;
}

function shuffled<T>(items: readonly T[]): T[] {
  const order = items.map((item) => ({ item, key: Math.random() }));
  return order.sort((a, b) => a.key - b.key).map(({ item }) => item);
}
