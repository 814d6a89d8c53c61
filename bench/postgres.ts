/** `postgres`: against the published PostgresSaver and, for durable steps, against DBOS; all on the same server. */

import type { Durability } from "./graphs.ts";
import type { Job } from "./jobs.ts";
import { figureOf, type Line, lineOf, ratioOf } from "./line.ts";
import type { StepsJob } from "./measure/steps.ts";
import { type Bench, runRounds } from "./rounds.ts";
import { LAG_MAX } from "./superstep.ts";
import { threadsJob } from "./threads.ts";

const SENDS = 1000;

type Saver = "engine" | "holdfast-postgres" | "official-postgres";

export async function postgresSupersteps(bench: Bench): Promise<Line[]> {
  await bench.servers.postgres();
  return [...(await supersteps(bench, "sync")), ...(await supersteps(bench, "async"))];
}

async function supersteps(bench: Bench, durability: Durability): Promise<Line[]> {
  const steps = bench.quick ? 200 : 500;
  const rounds = await eachSaver(bench, `superstep, ${durability}`, (saver) => ({
    kind: "superstep",
    saver,
    durability,
    yields: durability === "async",
    warmup: 500,
    steps,
    repeats: 3,
  }));
  const about = (compares: string) => ({
    bench: "postgres",
    unit: "µs a superstep",
    compares: `counter graph, ${durability} durability: ${compares}`,
  });
  const lines = [
    lineOf(rounds, {
      ...about("holdfast against the published PostgresSaver"),
      name: `${durability}, holdfast ÷ official`,
      ...ratioOf<Saver>("us", "holdfast-postgres", "official-postgres"),
      ...(durability === "sync" ? { bar: 0.65, aim: 0.55 } : {}),
    }),
    lineOf(rounds, {
      ...about("holdfast against the same graph without a checkpointer"),
      name: `${durability}, holdfast ÷ engine`,
      ...ratioOf<Saver>("us", "holdfast-postgres", "engine"),
      ...(durability === "sync" ? { bar: 3.2, aim: 2.5 } : { bar: 1.5, aim: 1.3 }),
    }),
    lineOf(rounds, {
      ...about("the published PostgresSaver against the same graph without a checkpointer"),
      name: `${durability}, official ÷ engine`,
      ...ratioOf<Saver>("us", "official-postgres", "engine"),
    }),
  ];
  if (durability === "sync") return lines;
  const lag = lineOf(rounds, {
    ...about("the most commits that were handed over and not yet durable at any moment"),
    name: "async, commits not yet durable",
    unit: "commits",
    ...figureOf<Saver>("lag", "holdfast-postgres", ["official-postgres"]),
    bar: LAG_MAX,
  });
  return [...lines, lag];
}

export async function postgresThreads(bench: Bench): Promise<Line[]> {
  await bench.servers.postgres();
  const rounds = await eachSaver(bench, "64 threads at once", (saver) => threadsJob(bench, saver, 64));
  const about = { bench: "postgres", unit: "µs a superstep", compares: "64 counter graphs at once, sync" };
  // The bars are about throughput, the inverse of the time.
  return [
    lineOf(rounds, {
      ...about,
      name: "64 threads, holdfast ÷ official",
      ...ratioOf<Saver>("us", "holdfast-postgres", "official-postgres"),
      bar: 1 / 2,
      aim: 1 / 2.3,
    }),
    lineOf(rounds, {
      ...about,
      name: "64 threads, holdfast ÷ engine",
      ...ratioOf<Saver>("us", "holdfast-postgres", "engine"),
      bar: 1 / 0.6,
    }),
  ];
}

export async function postgresFanOut(bench: Bench): Promise<Line[]> {
  await bench.servers.postgres();
  const rounds = await eachSaver(bench, `${SENDS} Sends`, (saver) => ({
    kind: "fan-out",
    saver,
    sends: SENDS,
    repeats: bench.quick ? 2 : 3,
  }));
  const about = { bench: "postgres", unit: "ms a run", compares: `one superstep of ${SENDS} Sends, sync` };
  return [
    lineOf(rounds, {
      ...about,
      name: `${SENDS} Sends, holdfast ÷ engine`,
      ...ratioOf<Saver>("ms", "holdfast-postgres", "engine"),
      bar: 1.1,
      aim: 1.05,
    }),
    lineOf(rounds, {
      ...about,
      name: `${SENDS} Sends, official ÷ engine`,
      ...ratioOf<Saver>("ms", "official-postgres", "engine"),
    }),
  ];
}

/** What a durable step is there: a call of an effect inside a node, a step of a DBOS workflow. */
export async function postgresSteps(bench: Bench): Promise<Line[]> {
  await bench.servers.postgres();
  const job = (peer: StepsJob["peer"]): StepsJob => ({
    kind: "steps",
    peer,
    steps: bench.quick ? 100 : 200,
    repeats: 5,
  });
  const rounds = await runRounds(bench, "Postgres, durable steps", {
    rerun: job("rerun"),
    settle: job("settle"),
    dbos: job("dbos"),
  });
  const about = {
    bench: "postgres",
    unit: "µs a step",
    compares:
      "one node that calls an effect again and again, against one DBOS workflow that runs a step again and again",
  };
  return [
    lineOf(rounds, {
      ...about,
      name: "rerun effect ÷ DBOS step",
      ...ratioOf("us", "rerun", "dbos"),
      bar: 0.8,
      aim: 0.6,
    }),
    lineOf(rounds, {
      ...about,
      name: "effect with intent and outcome ÷ DBOS step",
      ...ratioOf("us", "settle", "dbos"),
      bar: 1.4,
      aim: 1.1,
    }),
  ];
}

function eachSaver(bench: Bench, title: string, job: (saver: Saver) => Job) {
  const jobs = {
    engine: job("engine"),
    "holdfast-postgres": job("holdfast-postgres"),
    "official-postgres": job("official-postgres"),
  };
  return runRounds<Saver>(bench, `Postgres, ${title}`, jobs);
}
