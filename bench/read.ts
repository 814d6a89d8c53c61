/** `read`: state at the tip and history, each in a fresh process on a database that is there already. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { figureOf, type Line, lineOf, ratioOf } from "./line.ts";
import type { ReadJob, Seed } from "./measure/read.ts";
import { type Bench, measure, runRounds } from "./rounds.ts";
import type { SaverName } from "./savers.ts";

const savers = ["holdfast-full", "official-normal"] as const;
type Saver = (typeof savers)[number];
const onPostgres = ["holdfast-postgres", "official-postgres"] as const;

const CONVERSATION_STEPS = 1000;
const CONVERSATION_STEPS_QUICK = 200;
const COUNTER_STEPS = 5000;
const COUNTER_STEPS_QUICK = 1000;
const CROWD = 10_000;
const CROWD_QUICK = 1000;

export async function read(bench: Bench): Promise<Line[]> {
  const steps = bench.quick ? CONVERSATION_STEPS_QUICK : CONVERSATION_STEPS;
  const counterSteps = bench.quick ? COUNTER_STEPS_QUICK : COUNTER_STEPS;
  const dir = join(bench.dir, "read");
  await mkdir(dir, { recursive: true });
  await seedAll(bench, dir, savers, "conversation", steps);
  await seedAll(bench, dir, savers, "counters", counterSteps);
  const state = await runRounds(bench, "read, state", jobs(savers, "conversation", "state", 15), { dir });
  const history = await runRounds(bench, "read, history", jobs(savers, "conversation", "history", 3), {
    dir,
    rounds: 1,
  });
  const tips = await runRounds(bench, "read, tips", jobs(savers, "counters", "tips", 200), { dir });
  const judged = steps === CONVERSATION_STEPS;
  const about = {
    bench: "read",
    unit: "ms",
    compares: `${steps} checkpoints of a conversation of ${2 * steps} messages: holdfast on SQLite against the published SqliteSaver`,
  };
  const counters = {
    bench: "read",
    unit: "ms",
    compares: `counter state, ${counterSteps} checkpoints in one thread and 100 in another of the same file`,
  };
  const oursOver = (value: string) => ratioOf<Saver>(value, "holdfast-full", "official-normal");
  return [
    lineOf(state, {
      ...about,
      name: `getState of ${2 * steps} messages ÷ official`,
      ...oursOver("state"),
      bar: 0.25,
      aim: 0.17,
      judged,
    }),
    lineOf(state, { ...about, name: "first getState of the process ÷ official", ...oursOver("first") }),
    lineOf(history, {
      ...about,
      name: `whole history of ${steps} checkpoints ÷ official`,
      ...oursOver("history"),
      bar: 1 / 15,
      judged,
      note: "One round: the published saver takes half a minute and more.",
    }),
    lineOf(history, { ...about, name: "first 10 of the history ÷ official", ...oursOver("ten"), note: "One round." }),
    ...savers.map((saver) =>
      lineOf(tips, {
        ...counters,
        name: `${saver}, getState at ${counterSteps} ÷ at 100 checkpoints`,
        figures: (each) => ({
          long: each[saver].values["long"] as number,
          short: each[saver].values["short"] as number,
        }),
        result: (each) => (each[saver].values["long"] as number) / (each[saver].values["short"] as number),
        ...(saver === "holdfast-full" ? { bar: 1.2, judged: counterSteps === COUNTER_STEPS } : {}),
      }),
    ),
    lineOf(tips, { ...counters, name: "getState of a counter ÷ official", ...oursOver("long") }),
    lineOf(tips, { ...counters, name: "first 10 of a counter's history ÷ official", ...oursOver("ten") }),
  ];
}

/** Whether it matters how long a thread is and how many others there are. */
export async function tips(bench: Bench): Promise<Line[]> {
  const steps = bench.quick ? COUNTER_STEPS_QUICK : COUNTER_STEPS;
  const others = bench.quick ? CROWD_QUICK : CROWD;
  const judged = steps === COUNTER_STEPS;
  await bench.servers.postgres();
  const redis = (await bench.servers.redis()) ? (["holdfast-redis"] as const) : [];
  const dir = join(bench.dir, "tips");
  await mkdir(dir, { recursive: true });
  const lines: Line[] = [];
  for (const saver of ["holdfast-full", "holdfast-jsonl", "holdfast-postgres", ...redis] as const) {
    await seedAll(bench, dir, [saver], "counters", steps);
    await seedAll(bench, dir, [saver], "crowd", others);
    const rounds = await runRounds(
      bench,
      `tips, ${saver}`,
      { counters: jobOf(saver, "counters", "tips", 200), crowd: jobOf(saver, "crowd", "tip", 200) },
      { dir },
    );
    const about = { bench: "tips", unit: "ms", bar: 1.2, aim: 1.1, judged };
    lines.push(
      lineOf(rounds, {
        ...about,
        name: `${saver}, getState at ${steps} ÷ at 100 checkpoints`,
        compares: `counter state, ${steps} checkpoints in one thread and 100 in another of the same store`,
        figures: ({ counters }) => ({
          long: counters.values["long"] as number,
          short: counters.values["short"] as number,
        }),
        result: ({ counters }) => (counters.values["long"] as number) / (counters.values["short"] as number),
      }),
      lineOf(rounds, {
        ...about,
        name: `${saver}, getState with ${others} other threads ÷ with one`,
        compares: `counter state of 100 checkpoints, in a store with ${others} other threads and in one with one other`,
        ...ratioOf("short", "crowd", "counters"),
      }),
    );
  }
  return lines;
}

/** The published saver needs minutes for its history, so one round is made. */
export async function postgresRead(bench: Bench): Promise<Line[]> {
  await bench.servers.postgres();
  const steps = bench.quick ? CONVERSATION_STEPS_QUICK : CONVERSATION_STEPS;
  const judged = steps === CONVERSATION_STEPS;
  const dir = join(bench.dir, "read-postgres");
  await mkdir(dir, { recursive: true });
  await seedAll(bench, dir, onPostgres, "conversation", steps);
  const state = await runRounds(bench, "read, Postgres, state", jobs(onPostgres, "conversation", "state", 15), { dir });
  const history = await runRounds(bench, "read, Postgres, history", jobs(onPostgres, "conversation", "history", 3), {
    dir,
    rounds: 1,
  });
  const about = {
    bench: "read",
    unit: "ms",
    compares: `${steps} checkpoints of a conversation of ${2 * steps} messages: holdfast on Postgres against the published PostgresSaver`,
  };
  const over = (value: string) => ratioOf<(typeof onPostgres)[number]>(value, "holdfast-postgres", "official-postgres");
  return [
    lineOf(state, { ...about, name: `Postgres, getState of ${2 * steps} messages ÷ official`, ...over("state") }),
    lineOf(history, {
      ...about,
      name: `Postgres, whole history of ${steps} checkpoints ÷ official`,
      ...over("history"),
      bar: 1 / 20,
      aim: 1 / 50,
      judged,
      note: "One round.",
    }),
    lineOf(history, {
      ...about,
      name: "Postgres, first item of the history",
      ...figureOf<(typeof onPostgres)[number]>("one", "holdfast-postgres", ["official-postgres"]),
      bar: 30,
      judged,
      note: "One round.",
    }),
  ];
}

/** The state of a conversation kept in a DeltaChannel, which is replayed from the writes of up to 100 checkpoints. */
export async function deltaRead(bench: Bench): Promise<Line[]> {
  const steps = bench.quick ? CONVERSATION_STEPS_QUICK : CONVERSATION_STEPS;
  const dir = join(bench.dir, "read-delta");
  await mkdir(dir, { recursive: true });
  await seedAll(bench, dir, savers, "delta", steps);
  const rounds = await runRounds(bench, "delta, state", jobs(savers, "delta", "state", 15), { dir });
  return [
    lineOf(rounds, {
      bench: "delta",
      name: `DeltaChannel, getState of ${2 * steps} messages ÷ official`,
      unit: "ms",
      compares: `${steps} checkpoints, DeltaChannel: holdfast on SQLite against the published SqliteSaver`,
      ...ratioOf<Saver>("state", "holdfast-full", "official-normal"),
    }),
  ];
}

function jobs<S extends SaverName>(of: readonly S[], seed: Seed, what: ReadJob["what"], reads: number) {
  return Object.fromEntries(of.map((saver) => [saver, jobOf(saver, seed, what, reads)])) as Record<S, ReadJob>;
}

function jobOf(saver: SaverName, seed: Seed, what: ReadJob["what"], reads: number): ReadJob {
  return { kind: "read", saver, seed, name: nameOf(saver, seed), what, reads };
}

async function seedAll(bench: Bench, dir: string, of: readonly SaverName[], seed: Seed, steps: number): Promise<void> {
  for (const saver of of) {
    bench.progress(`read: making ${steps} ${seed === "crowd" ? "threads" : "checkpoints"} (${seed}), ${saver}`);
    await measure(bench, { kind: "seed", saver, seed, name: nameOf(saver, seed), steps }, dir);
  }
}

function nameOf(saver: SaverName, seed: Seed): string {
  return `${saver}-${seed}`;
}
