/** `npm run crash`: its servers, its rounds, what it prints and the file it leaves. */

import { writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { kitFile, serve } from "../../../src/testing/child.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { startRedis } from "../../servers/redis-server.ts";
import { type BackendCounts, type CampaignCounts, disturbances, totals } from "./counts.ts";
import type { CampaignBackend } from "./plan.ts";
import type { RoundResult } from "./round.ts";
import { addRound, playRounds, type ServerUrls } from "./rounds.ts";

export interface CampaignOptions {
  readonly backends: readonly CampaignBackend[];
  readonly minutes: number | undefined;
  /** Of the first round on each backend; the next ones count on. Default: any. */
  readonly seed: number | undefined;
  /** On each backend; undefined: until the time is over. */
  readonly rounds: number | undefined;
  /** Deaths and freezes of a round. */
  readonly disturbances: number | undefined;
  /** Where the counts are written. */
  readonly out: string | undefined;
}

const DISTURBANCES = 100;
const PROGRESS_MS = 5000;
const SEED_MAX = 1_000_000;

interface Servers {
  readonly urls: ServerUrls;
  stop(): Promise<void>;
}

async function startServers(backends: readonly CampaignBackend[]): Promise<Servers> {
  const postgres = backends.includes("postgres") ? await startPostgres() : undefined;
  const redis = backends.includes("redis") ? await startRedis() : undefined;
  return {
    urls: {
      ...(backends.includes("sqlite") ? { sqlite: "" } : {}),
      ...(postgres === undefined ? {} : { postgres: postgres.url }),
      ...(redis === undefined ? {} : { redis: redis.url }),
    },
    stop: async () => {
      await postgres?.stop();
      await redis?.remove();
    },
  };
}

export async function runCampaign(options: CampaignOptions): Promise<boolean> {
  const { backends, minutes, rounds, disturbances: perRound = DISTURBANCES } = options;
  const seed = options.seed ?? 1 + Math.floor(Math.random() * SEED_MAX);
  const begun = performance.now();
  const servers = await startServers(backends);
  const counter = await serve(kitFile("counter-server"));
  const counts: CampaignCounts = {};
  const failed: RoundResult[] = [];
  const underWay = new Map<string, BackendCounts>();
  const seconds = () => Math.round((performance.now() - begun) / 1000);
  const progress = setInterval(() => console.log(`${seconds()} s: ${progressOf(counts, underWay)}`), PROGRESS_MS);
  const stop = new AbortController();
  const timer = minutes === undefined ? undefined : setTimeout(() => stop.abort(), minutes * 60_000);
  try {
    await playRounds({
      urls: servers.urls,
      counterUrl: counter.line,
      seed,
      rounds,
      disturbances: perRound,
      signal: stop.signal,
      onBegin: (round, backend, live) => {
        underWay.set(`${backend} seed ${round}`, live);
        console.log(`${seconds()} s: round with seed ${round} on ${backend}`);
      },
      onEnd: (result) => {
        underWay.delete(`${result.backend} seed ${result.seed}`);
        addRound(counts, result);
        if (result.problems.length > 0) failed.push(result);
        for (const problem of result.problems) console.error(`seed ${result.seed} on ${result.backend}: ${problem}`);
      },
    });
  } finally {
    clearInterval(progress);
    clearTimeout(timer);
    await counter.stop();
    await servers.stop();
  }
  const took = { minutes, seconds: seconds(), cores: availableParallelism(), node: process.version };
  if (options.out !== undefined) writeReport(options.out, { ...took, seed, perRound, counts, failed });
  console.log(summary(counts, took.seconds));
  for (const { seed: bad, backend } of failed)
    console.error(`again: npm run crash -- --seed ${bad} --backend ${backend} --disturbances ${perRound}`);
  return failed.length === 0;
}

function progressOf(counts: CampaignCounts, underWay: ReadonlyMap<string, BackendCounts>): string {
  const { rounds, deaths, freezes } = totals(counts);
  const live = [...underWay].map(([name, one]) => `${name} ${disturbances(one)}`);
  return `${rounds} rounds with ${deaths + freezes} deaths and freezes; under way: ${live.join(", ")}`;
}

interface Report {
  readonly minutes: number | undefined;
  readonly seconds: number;
  readonly cores: number;
  readonly node: string;
  readonly seed: number;
  readonly perRound: number;
  readonly counts: CampaignCounts;
  readonly failed: readonly RoundResult[];
}

function writeReport(file: string, { minutes, seed, perRound, counts, failed, ...took }: Report): void {
  const time = minutes === undefined ? "" : ` --minutes ${minutes}`;
  const command = `npm run crash --${time} --seed ${seed} --disturbances ${perRound}`;
  const problems = failed.flatMap((one) =>
    one.problems.map((problem) => `seed ${one.seed} on ${one.backend}: ${problem}`),
  );
  const all = { command, ...took, totals: totals(counts), problems, backends: counts };
  writeFileSync(file, `${JSON.stringify(all, null, 2)}\n`);
}

function summary(counts: CampaignCounts, seconds: number): string {
  const rows = Object.entries(counts).map(
    ([name, one]) =>
      `${name}: ${one.rounds} rounds, ${one.deaths} deaths, ${one.freezes} freezes, ${one.drains} drains, ${one.storeErrors} store errors, ` +
      `${one.lostAnswers} lost answers, ${one.clockShifts} clock shifts, ${one.takeovers} takeovers, ${one.staleRefused} stale writes refused`,
  );
  const { deaths, freezes, runs, effects, lost, repeated, stuck } = totals(counts);
  return [
    ...rows,
    `${deaths + freezes} deaths and freezes in ${seconds} s: ${runs} runs, ${effects} effects, ${lost} lost, ${repeated} repeated, ${stuck} stuck`,
  ].join("\n");
}
