/** `read`: state at the tip and history, each in a fresh process on a database that is there already. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type Line, lineOf, ratioOf } from "./line.ts";
import type { ReadJob, Seed } from "./measure/read.ts";
import { type Bench, measure, runRounds } from "./rounds.ts";

const savers = ["holdfast-full", "official-normal"] as const;
type Saver = (typeof savers)[number];

const CONVERSATION_STEPS = 1000;
const CONVERSATION_STEPS_QUICK = 200;
const COUNTER_STEPS = 5000;
const COUNTER_STEPS_QUICK = 1000;

export async function read(bench: Bench): Promise<Line[]> {
  const steps = bench.quick ? CONVERSATION_STEPS_QUICK : CONVERSATION_STEPS;
  const counterSteps = bench.quick ? COUNTER_STEPS_QUICK : COUNTER_STEPS;
  const dir = join(bench.dir, "read");
  await mkdir(dir, { recursive: true });
  await seedAll(bench, dir, "conversation", steps);
  await seedAll(bench, dir, "counters", counterSteps);
  const state = await runRounds(bench, "read, state", jobs("conversation", "state", 15), { dir });
  const history = await runRounds(bench, "read, history", jobs("conversation", "history", 3), { dir, rounds: 1 });
  const tips = await runRounds(bench, "read, tips", jobs("counters", "tips", 200), { dir });
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

/** The state of a conversation kept in a DeltaChannel, which is replayed from the writes of up to 100 checkpoints. */
export async function deltaRead(bench: Bench): Promise<Line[]> {
  const steps = bench.quick ? CONVERSATION_STEPS_QUICK : CONVERSATION_STEPS;
  const dir = join(bench.dir, "read-delta");
  await mkdir(dir, { recursive: true });
  await seedAll(bench, dir, "delta", steps);
  const rounds = await runRounds(bench, "delta, state", jobs("delta", "state", 15), { dir });
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

function jobs(seed: Seed, what: ReadJob["what"], reads: number): Record<Saver, ReadJob> {
  const job = (saver: Saver): ReadJob => ({ kind: "read", saver, seed, name: nameOf(saver, seed), what, reads });
  return { "holdfast-full": job("holdfast-full"), "official-normal": job("official-normal") };
}

async function seedAll(bench: Bench, dir: string, seed: Seed, steps: number): Promise<void> {
  for (const saver of savers) {
    bench.progress(`read: making ${steps} checkpoints (${seed}), ${saver}`);
    await measure(bench, { kind: "seed", saver, seed, name: nameOf(saver, seed), steps }, dir);
  }
}

function nameOf(saver: Saver, seed: Seed): string {
  return `${saver}-${seed}`;
}
