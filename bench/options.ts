/** Command line of the benchmarks. */

import { parseArgs } from "node:util";

export const NAMES = [
  "superstep",
  "counts",
  "growth",
  "delta",
  "read",
  "tips",
  "effect",
  "resume",
  "serde",
  "waits",
  "rest",
  "threads",
  "postgres",
  "redis",
  "runs",
] as const;
export type BenchName = (typeof NAMES)[number];

export const USAGE = `npm run bench [-- names… options]

names: ${NAMES.join(" ")}          (default: all)
--rounds N           rounds of each comparison                       (default 5; with --quick 3)
--quick              shorter runs, about two minutes; bars that need the full size are not judged
--official-steps N   steps of the published saver in growth          (default 500; its time is quadratic)
--dir DIR            where the databases go: a local disk            (default: the system's temporary directory)
--json               only the results, one line of JSON each; without it progress and a summary on stderr
--report             writes docs/benchmarks.md
--from FILE          measures nothing: reports what earlier runs printed into the file; with --report`;

export interface Options {
  readonly names: readonly BenchName[];
  readonly rounds: number;
  readonly quick: boolean;
  readonly officialSteps: number;
  readonly dir: string | undefined;
  readonly json: boolean;
  readonly report: boolean;
  readonly from: string | undefined;
  readonly help: boolean;
}

/** @throws an Error that says what is wrong */
export function readOptions(args: readonly string[]): Options {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      rounds: { type: "string" },
      quick: { type: "boolean", default: false },
      "official-steps": { type: "string", default: "500" },
      dir: { type: "string" },
      json: { type: "boolean", default: false },
      report: { type: "boolean", default: false },
      from: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  for (const name of positionals) {
    if (!NAMES.includes(name as BenchName))
      throw new Error(`there is no benchmark ${JSON.stringify(name)}; there are: ${NAMES.join(", ")}`);
  }
  if (values.from !== undefined && !values.report) throw new Error("--from is for --report");
  return {
    names: positionals.length === 0 ? NAMES : (positionals as BenchName[]),
    rounds: count("rounds", values.rounds ?? (values.quick ? "3" : "5")),
    quick: values.quick,
    officialSteps: count("official-steps", values["official-steps"]),
    dir: values.dir,
    json: values.json,
    report: values.report,
    from: values.from,
    help: values.help,
  };
}

function count(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1)
    throw new Error(`--${name} is ${JSON.stringify(text)}; give a whole number from 1`);
  return value;
}
