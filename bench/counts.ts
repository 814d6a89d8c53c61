/** `counts`: transactions, fsyncs and bytes of a superstep and of an effect. Exact, so one run each. */

import { spawnSync } from "node:child_process";
import { mkdtemp, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Durability } from "./graphs.ts";
import { type Line, lineOf } from "./line.ts";
import type { CountsJob } from "./measure/counts.ts";
import type { EffectMode } from "./measure/effects.ts";
import { type Bench, type Measurement, measure } from "./rounds.ts";
import type { SaverName } from "./savers.ts";

interface Subject {
  readonly name: string;
  readonly saver: SaverName;
  readonly mode: EffectMode;
  readonly durability: Durability;
  /** Transactions of a run of n supersteps. */
  readonly bar?: (steps: number) => number;
}

const STEPS = 500;
const STEPS_SHORT = 100;

const subjects: readonly Subject[] = [
  { name: "sync, FULL", saver: "holdfast-full", mode: "bare", durability: "sync", bar: (n) => n + 2 },
  { name: "sync, official FULL", saver: "official-full", mode: "bare", durability: "sync" },
  { name: "sync, NORMAL", saver: "holdfast-normal", mode: "bare", durability: "sync", bar: (n) => n + 2 },
  { name: "sync, official NORMAL", saver: "official-normal", mode: "bare", durability: "sync" },
  { name: "async, FULL", saver: "holdfast-full", mode: "bare", durability: "async" },
  {
    name: "sync, FULL, an effect in each superstep",
    saver: "holdfast-full",
    mode: "settle",
    durability: "sync",
    bar: (n) => 3 * n + 2,
  },
  {
    name: "sync, FULL, a rerun effect in each superstep",
    saver: "holdfast-full",
    mode: "rerun",
    durability: "sync",
    bar: (n) => 2 * n + 2,
  },
  { name: "sync, JSONL", saver: "holdfast-jsonl", mode: "bare", durability: "sync", bar: (n) => n + 2 },
];

export async function counts(bench: Bench): Promise<Line[]> {
  const traced = spawnSync("strace", ["-V"]).status === 0;
  const lines: Line[] = [];
  for (const subject of subjects) {
    bench.progress(`counts: ${subject.name}`);
    const long = await measure(bench, job(subject, STEPS, true));
    const short = await measure(bench, job(subject, STEPS_SHORT, true));
    const fsyncs = traced ? await fsyncsPerStep(bench, subject) : undefined;
    lines.push(line(subject, long, short, fsyncs));
  }
  return lines;
}

function job(subject: Subject, steps: number, keepLog: boolean): CountsJob {
  const { saver, mode, durability } = subject;
  return { kind: "counts", saver, mode, durability, steps, keepLog };
}

function line(subject: Subject, long: Measurement, short: Measurement, fsyncs: number | undefined): Line {
  const perStep = (value: string) =>
    ((long.values[value] as number) - (short.values[value] as number)) / (STEPS - STEPS_SHORT);
  const inSqlite = (long.values["transactions"] as number) > 0;
  const transactions = long.values[inSqlite ? "transactions" : "groups"] as number;
  return lineOf([{ long, short }], {
    bench: "counts",
    name: `${subject.name}: transactions of ${STEPS} supersteps`,
    unit: "transactions; the rest a superstep",
    compares:
      "counter graph; transactions and log bytes from SQLite's log (JSONL: groups of commits), stored bytes from the main file",
    figures: () => ({
      transactionsPerStep: transactions / STEPS,
      ...(fsyncs === undefined ? {} : { fsyncsPerStep: fsyncs }),
      encodedBytesPerStep: perStep("encoded"),
      logBytesPerStep: perStep("logged"),
      storedBytesPerStep: perStep("stored"),
    }),
    result: () => transactions,
    ...(subject.bar === undefined ? {} : { bar: subject.bar(STEPS) }),
    note:
      fsyncs === undefined
        ? "fsyncs not counted: no strace"
        : "fsyncs (fsync and fdatasync) include those of WAL checkpoints",
  });
}

/** The fsyncs of a long run less those of a short one, so that opening and closing do not count. */
async function fsyncsPerStep(bench: Bench, subject: Subject): Promise<number | undefined> {
  const dir = await mkdtemp(join(bench.dir, "strace-"));
  const count = async (steps: number): Promise<number> => {
    const out = join(dir, `${steps}.txt`);
    await measure(bench, job(subject, steps, false), undefined, [
      "strace",
      "-f",
      "-c",
      "-o",
      out,
      "-e",
      "trace=fsync,fdatasync",
    ]);
    const rows = (await readFile(out, "utf8")).split("\n").filter((row) => /\s(fsync|fdatasync)$/.test(row));
    return rows.reduce((sum, row) => sum + Number(row.trim().split(/\s+/)[3]), 0);
  };
  try {
    return ((await count(STEPS)) - (await count(STEPS_SHORT))) / (STEPS - STEPS_SHORT);
  } catch {
    return undefined; // strace is there and may not trace here.
  }
}
