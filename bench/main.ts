/**
 * `npm run bench`: one line of JSON per result on stdout.
 *
 * Measured are ratios, not times: against the same graph without a checkpointer and against the published SqliteSaver, in
 * the same round, so that a slow or busy machine changes both sides. See rounds.ts.
 */

import { mkdtemp, rm, statfs } from "node:fs/promises";
import { createRequire } from "node:module";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { counts } from "./counts.ts";
import { effects, resume } from "./effects.ts";
import { deltaGrowth, listGrowth, messagesGrowth, officialGrowth } from "./growth.ts";
import { describeLine, type Line } from "./line.ts";
import { fsyncUs } from "./noise.ts";
import { type BenchName, type Options, readOptions, USAGE } from "./options.ts";
import { deltaRead, read } from "./read.ts";
import type { Bench } from "./rounds.ts";
import { serialization } from "./serialization.ts";
import { servers } from "./servers.ts";
import { superstepInAsync, superstepInSync } from "./superstep.ts";
import { threads } from "./threads.ts";
import { waits } from "./waits.ts";

const TMPFS = 0x0102_1994;

const benches: Readonly<Record<BenchName, readonly ((bench: Bench) => Promise<Line[]>)[]>> = {
  superstep: [superstepInSync, superstepInAsync],
  counts: [counts],
  growth: [listGrowth, messagesGrowth, officialGrowth],
  delta: [deltaGrowth, deltaRead],
  read: [read],
  effect: [effects],
  resume: [resume],
  serde: [serialization],
  waits: [waits],
  threads: [threads],
  servers: [servers],
};

process.exitCode = await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<number> {
  let options: Options;
  try {
    options = readOptions(args);
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
    return 2;
  }
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  const dir = await mkdtemp(join(options.dir ?? (await localDisk()), "holdfast-bench-"));
  try {
    return await runAll(options, dir);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** Exit code 1 where a benchmark could not be run; a bar that is missed is a result. */
async function runAll(options: Options, dir: string): Promise<number> {
  const progress = (text: string) => {
    if (!options.json) console.error(`  ${text}`);
  };
  const bench: Bench = {
    dir,
    rounds: options.rounds,
    quick: options.quick,
    officialSteps: options.officialSteps,
    progress,
  };
  console.log(JSON.stringify(await environment(options, dir)));
  const all: Line[] = [];
  let failed = false;
  for (const name of options.names) {
    for (const run of benches[name]) {
      try {
        for (const line of await run(bench)) {
          all.push(line);
          console.log(JSON.stringify(line));
        }
      } catch (error) {
        failed = true;
        console.log(JSON.stringify({ bench: name, error: error instanceof Error ? error.message : String(error) }));
        if (!options.json) console.error(error);
      }
    }
  }
  if (!options.json) console.error(`\n${all.map(describeLine).join("\n")}`);
  return failed ? 1 : 0;
}

async function environment(options: Options, dir: string): Promise<object> {
  const require = createRequire(import.meta.url);
  const version = (name: string): string => (require(`${name}/package.json`) as { version: string }).version;
  const names = [
    "@langchain/langgraph",
    "@langchain/langgraph-checkpoint",
    "@langchain/langgraph-checkpoint-sqlite",
    "@langchain/langgraph-checkpoint-postgres",
    "better-sqlite3",
    "pg",
    "ioredis",
  ];
  return {
    bench: "environment",
    date: new Date().toISOString(),
    node: process.version,
    cpu: cpus()[0]?.model ?? "unknown",
    cores: cpus().length,
    // Much more than 0 before the first measurement: others use the machine.
    loadAverage: loadavg(),
    fsyncIsReal: (await statfs(dir)).type !== TMPFS,
    fsyncUs: await fsyncUs(dir),
    versions: Object.fromEntries(names.map((name) => [name, version(name)])),
    rounds: options.rounds,
    quick: options.quick,
  };
}

/** The temporary directory, unless it is in memory: fsync would cost nothing there. */
async function localDisk(): Promise<string> {
  return (await statfs(tmpdir())).type === TMPFS ? process.cwd() : tmpdir();
}
