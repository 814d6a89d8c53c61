/** `servers`: Postgres against the published PostgresSaver, and Redis, on servers that are started for it. */

import { spawnSync } from "node:child_process";
import { embeddedPostgres } from "../test/servers/postgres.ts";
import { startRedis } from "../test/servers/redis-server.ts";
import { TEXT_BYTES } from "./graphs.ts";
import { figureOf, type Line, lineOf, ratioOf } from "./line.ts";
import type { Durability } from "./graphs.ts";
import { type Bench, runRounds } from "./rounds.ts";
import type { SaverName } from "./savers.ts";
import { threadsJob } from "./threads.ts";

const LAG_MAX = 32;
const SENDS = 1000;
const GROWTH_STEPS = 2000;
const GROWTH_STEPS_QUICK = 600;

/** With the servers' own defaults for durability: fsync for every commit on Postgres, an fsync a second on Redis. */
export async function servers(bench: Bench): Promise<Line[]> {
  const postgres = await embeddedPostgres();
  process.env["HOLDFAST_BENCH_POSTGRES"] = postgres.url;
  try {
    return [
      ...(await postgresSupersteps(bench)),
      ...(await postgresThreads(bench)),
      ...(await postgresFanOut(bench)),
      ...(await growthOn(bench, "holdfast-postgres")),
      ...(await onRedis(bench)),
    ];
  } finally {
    await postgres.stop();
  }
}

function superstep(bench: Bench, saver: SaverName, durability: Durability) {
  const steps = bench.quick ? 200 : 500;
  return {
    kind: "superstep",
    saver,
    durability,
    yields: durability === "async",
    warmup: 500,
    steps,
    repeats: 3,
  } as const;
}

async function postgresSupersteps(bench: Bench): Promise<Line[]> {
  const lines: Line[] = [];
  for (const durability of ["sync", "async"] as const) {
    const job = (saver: SaverName) => superstep(bench, saver, durability);
    const rounds = await runRounds(bench, `Postgres, superstep, ${durability}`, {
      engine: job("engine"),
      "holdfast-postgres": job("holdfast-postgres"),
      "official-postgres": job("official-postgres"),
    });
    const about = (compares: string) => ({
      bench: "servers",
      unit: "µs a superstep",
      compares: `counter graph on Postgres, ${durability} durability: ${compares}`,
    });
    lines.push(
      lineOf(rounds, {
        ...about("holdfast against the published PostgresSaver"),
        name: `Postgres, ${durability}, holdfast ÷ official`,
        ...ratioOf("us", "holdfast-postgres", "official-postgres"),
        ...(durability === "sync" ? { bar: 0.65, aim: 0.55 } : {}),
      }),
      lineOf(rounds, {
        ...about("holdfast against the same graph without a checkpointer"),
        name: `Postgres, ${durability}, holdfast ÷ engine`,
        ...ratioOf("us", "holdfast-postgres", "engine"),
        ...(durability === "sync" ? { bar: 3.2, aim: 2.5 } : { bar: 1.5, aim: 1.3 }),
      }),
      lineOf(rounds, {
        ...about("the published PostgresSaver against the same graph without a checkpointer"),
        name: `Postgres, ${durability}, official ÷ engine`,
        ...ratioOf("us", "official-postgres", "engine"),
      }),
    );
    if (durability === "sync") continue;
    lines.push(
      lineOf(rounds, {
        ...about("the most commits that were handed over and not yet durable at any moment"),
        name: "Postgres, async, commits not yet durable",
        unit: "commits",
        ...figureOf("lag", "holdfast-postgres", ["official-postgres"]),
        bar: LAG_MAX,
      }),
    );
  }
  return lines;
}

async function postgresThreads(bench: Bench): Promise<Line[]> {
  const job = (saver: SaverName) => threadsJob(bench, saver, 64);
  const rounds = await runRounds(bench, "Postgres, 64 threads at once", {
    engine: job("engine"),
    "holdfast-postgres": job("holdfast-postgres"),
    "official-postgres": job("official-postgres"),
  });
  const about = { bench: "servers", unit: "µs a superstep", compares: "64 counter graphs at once on Postgres, sync" };
  return [
    lineOf(rounds, {
      ...about,
      name: "Postgres, 64 threads, holdfast ÷ official",
      ...ratioOf("us", "holdfast-postgres", "official-postgres"),
      bar: 1 / 2,
      aim: 1 / 2.3,
    }),
    lineOf(rounds, {
      ...about,
      name: "Postgres, 64 threads, holdfast ÷ engine",
      ...ratioOf("us", "holdfast-postgres", "engine"),
      bar: 1 / 0.6,
    }),
  ];
}

async function postgresFanOut(bench: Bench): Promise<Line[]> {
  const job = (saver: SaverName) => ({ kind: "fan-out", saver, sends: SENDS, repeats: 5 }) as const;
  const rounds = await runRounds(bench, `Postgres, ${SENDS} Sends`, {
    engine: job("engine"),
    "holdfast-postgres": job("holdfast-postgres"),
    "official-postgres": job("official-postgres"),
  });
  const about = { bench: "servers", unit: "ms a run", compares: `one superstep of ${SENDS} Sends on Postgres, sync` };
  return [
    lineOf(rounds, {
      ...about,
      name: `Postgres, ${SENDS} Sends, holdfast ÷ engine`,
      ...ratioOf("ms", "holdfast-postgres", "engine"),
      bar: 1.1,
      aim: 1.05,
    }),
    lineOf(rounds, {
      ...about,
      name: `Postgres, ${SENDS} Sends, official ÷ engine`,
      ...ratioOf("ms", "official-postgres", "engine"),
    }),
  ];
}

async function growthOn(bench: Bench, saver: "holdfast-postgres" | "holdfast-redis"): Promise<Line[]> {
  const steps = bench.quick ? GROWTH_STEPS_QUICK : GROWTH_STEPS;
  const job = (name: SaverName) =>
    ({ kind: "growth", saver: name, channel: "messages", durability: "sync", steps, warmups: 1, repeats: 1 }) as const;
  const rounds = await runRounds(bench, `${saver}, growth`, { engine: job("engine"), ours: job(saver) });
  type Variant = "engine" | "ours";
  const added = (each: (typeof rounds)[number], value: string) =>
    (each.ours.values[value] as number) - (each.engine.values[value] as number);
  const about = {
    bench: "servers",
    compares: `${steps} steps of two ${TEXT_BYTES}-byte messages, MessagesAnnotation, ${saver}, sync`,
    judged: steps === GROWTH_STEPS,
  };
  const lines = [
    lineOf<Variant>(rounds, {
      ...about,
      name: `${saver}, time added a step, last 100 ÷ first 100`,
      unit: "ms a step more than the engine",
      figures: (each) => ({ first: added(each, "firstMedian"), last: added(each, "lastMedian") }),
      result: (each) => added(each, "lastMedian") / added(each, "firstMedian"),
      bar: 1.5,
      aim: 1.2,
    }),
  ];
  if (saver === "holdfast-redis") return lines;
  const text = steps * 2 * TEXT_BYTES;
  lines.push(
    lineOf<Variant>(rounds, {
      ...about,
      name: `${saver}, stored ÷ text`,
      unit: "bytes of all tables and indexes",
      figures: (each) => ({ stored: each.ours.values["stored"] as number, text }),
      result: (each) => (each.ours.values["stored"] as number) / text,
      bar: 3.5,
      aim: 2.2,
    }),
  );
  return lines;
}

async function onRedis(bench: Bench): Promise<Line[]> {
  if (spawnSync("redis-server", ["--version"]).error !== undefined) {
    bench.progress("Redis is left out: no redis-server on the PATH");
    return [];
  }
  const server = await startRedis({ appendonly: "yes", appendfsync: "everysec" }, true);
  process.env["HOLDFAST_BENCH_REDIS"] = server.url;
  try {
    const job = (saver: SaverName) => superstep(bench, saver, "sync");
    const rounds = await runRounds(bench, "Redis, superstep, sync", {
      engine: job("engine"),
      "holdfast-redis": job("holdfast-redis"),
    });
    const line = lineOf(rounds, {
      bench: "servers",
      unit: "µs a superstep",
      compares:
        "counter graph on Redis with appendfsync everysec, sync durability: holdfast against the same graph without a checkpointer",
      name: "Redis, sync, holdfast ÷ engine",
      ...ratioOf("us", "holdfast-redis", "engine"),
      bar: 2.2,
      aim: 2,
    });
    return [line, ...(await growthOn(bench, "holdfast-redis"))];
  } finally {
    await server.remove();
  }
}
