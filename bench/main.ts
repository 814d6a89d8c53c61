/**
 * `npm run bench`: one line of JSON per result on stdout.
 *
 * Measured are ratios, not times: against the same graph without a checkpointer and against the published SqliteSaver, in
 * the same round, so that a slow or busy machine changes both sides. See rounds.ts.
 */

import { mkdtemp, readFile, rm, statfs, writeFile } from "node:fs/promises";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { counts } from "./counts.ts";
import { effects, resume } from "./effects.ts";
import {
  deltaGrowth,
  jsonlGrowth,
  listGrowth,
  memoryGrowth,
  messagesGrowth,
  officialGrowth,
  postgresGrowth,
  redisGrowth,
} from "./growth.ts";
import { describeLine, type Line } from "./line.ts";
import { fsyncUs } from "./noise.ts";
import { type BenchName, type Options, readOptions, USAGE } from "./options.ts";
import { postgresFanOut, postgresSteps, postgresSupersteps, postgresThreads } from "./postgres.ts";
import { deltaRead, postgresRead, read, tips } from "./read.ts";
import { redisSupersteps } from "./redis.ts";
import { rest } from "./rest.ts";
import { type Environment, type Run, readRuns, reportOf } from "./report.ts";
import type { Bench } from "./rounds.ts";
import { runs } from "./runs.ts";
import { serialization } from "./serialization.ts";
import { Servers } from "./servers.ts";
import { superstepInAsync, superstepInSync } from "./superstep.ts";
import { threads } from "./threads.ts";
import { waits } from "./waits.ts";

const TMPFS = 0x0102_1994;

const benches: Readonly<Record<BenchName, readonly ((bench: Bench) => Promise<Line[]>)[]>> = {
  superstep: [superstepInSync, superstepInAsync],
  counts: [counts],
  growth: [listGrowth, messagesGrowth, officialGrowth, memoryGrowth, jsonlGrowth, postgresGrowth, redisGrowth],
  delta: [deltaGrowth, deltaRead],
  read: [read, postgresRead],
  tips: [tips],
  effect: [effects],
  resume: [resume],
  serde: [serialization],
  waits: [waits],
  rest: [rest],
  threads: [threads],
  postgres: [postgresSupersteps, postgresThreads, postgresFanOut, postgresSteps],
  redis: [redisSupersteps],
  runs: [runs],
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
  if (options.from !== undefined) {
    await writeReport(readRuns(await readFile(options.from, "utf8")));
    return 0;
  }
  const dir = await mkdtemp(join(options.dir ?? (await localDisk()), "holdfast-bench-"));
  const servers = new Servers();
  try {
    return await runAll(options, dir, servers);
  } finally {
    await servers.stop();
    await rm(dir, { recursive: true, force: true });
  }
}

/** Exit code 1 where a benchmark could not be run; a bar that is missed is a result. */
async function runAll(options: Options, dir: string, servers: Servers): Promise<number> {
  const progress = (text: string) => {
    if (!options.json) console.error(`  ${text}`);
  };
  const bench: Bench = {
    dir,
    rounds: options.rounds,
    quick: options.quick,
    officialSteps: options.officialSteps,
    servers,
    progress,
  };
  const where = await environment(options, dir);
  console.log(JSON.stringify(where));
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
  if (options.report && !failed) await writeReport([{ environment: where, lines: all }]);
  if (!options.json) console.error(`\n${all.map(describeLine).join("\n")}`);
  return failed ? 1 : 0;
}

/** From the built program, in `dist/bench`, to the documentation. */
const REPORT = fileURLToPath(new URL("../../docs/benchmarks.md", import.meta.url));

async function writeReport(runs: readonly Run[]): Promise<void> {
  await writeFile(REPORT, reportOf(runs));
}

async function environment(options: Options, dir: string): Promise<Environment & { readonly fsyncIsReal: boolean }> {
  const version = async (name: string) => {
    const file = new URL(`../../node_modules/${name}/package.json`, import.meta.url);
    return [name, (JSON.parse(await readFile(file, "utf8")) as { version: string }).version] as const;
  };
  const names = [
    "@langchain/langgraph",
    "@langchain/langgraph-checkpoint",
    "@langchain/langgraph-checkpoint-sqlite",
    "@langchain/langgraph-checkpoint-postgres",
    "better-sqlite3",
    "pg",
    "ioredis",
    "@dbos-inc/dbos-sdk",
    "pg-boss",
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
    versions: Object.fromEntries(await Promise.all(names.map(version))),
    rounds: options.rounds,
    quick: options.quick,
  };
}

/** The temporary directory, unless it is in memory: fsync would cost nothing there. */
async function localDisk(): Promise<string> {
  return (await statfs(tmpdir())).type === TMPFS ? process.cwd() : tmpdir();
}
