/** `--report`: the results as a page of the documentation. */

import type { Line } from "./line.ts";

/** What a run of the benchmarks says about where it ran. */
export interface Environment {
  readonly bench: "environment";
  readonly date: string;
  readonly node: string;
  readonly cpu: string;
  readonly cores: number;
  readonly loadAverage: readonly number[];
  readonly fsyncUs: { readonly median: number; readonly q1: number; readonly q3: number };
  readonly versions: Readonly<Record<string, string>>;
  readonly rounds: number;
  readonly quick: boolean;
}

export interface Run {
  readonly environment: Environment;
  readonly lines: readonly Line[];
}

/** Reads what `--json` printed, of one run or of several after one another. @throws an Error that says what is wrong */
export function readRuns(text: string): Run[] {
  const runs: { environment: Environment; lines: Line[] }[] = [];
  for (const row of text.split("\n").filter((each) => each.trim() !== "")) {
    const line = JSON.parse(row) as Environment | Line | { readonly bench: string; readonly error: string };
    if ("error" in line) throw new Error(`the benchmark ${line.bench} failed: ${line.error}`);
    if ("versions" in line) runs.push({ environment: line, lines: [] });
    else if (runs.length === 0) throw new Error("the first line does not say where the benchmarks ran");
    else runs.at(-1)?.lines.push(line);
  }
  return runs;
}

const INTRODUCTION = `# Benchmarks

Written by \`npm run bench -- --report\`; how to read and repeat it: [bench](../bench/main.ts). Compared are ratios, not times: each
measurement is a process of its own, a round makes all that are compared in random order, a ratio is taken inside the round, and the
median and the spread over the rounds stand here. \`engine\` is the same graph without a checkpointer. A bar is what this project
asks of itself; one that is missed is shown like any other. *CPU loop* is the time of a fixed loop around every measurement: how much
it varies is how much the machine had other things to do.
`;

export function reportOf(runs: readonly Run[]): string {
  const parts = runs.flatMap(({ environment, lines }) => {
    const names = [...new Set(lines.map(({ bench }) => bench))];
    return names.map((name) =>
      section(
        name,
        environment,
        lines.filter(({ bench }) => bench === name),
      ),
    );
  });
  return [INTRODUCTION, ...parts].join("\n");
}

function section(name: string, environment: Environment, lines: readonly Line[]): string {
  const { date, node, cpu, cores, fsyncUs, loadAverage, quick } = environment;
  const machine = [
    `${date.slice(0, 10)}, Node ${node}, ${cpu}, ${cores} cores`,
    `fsync ${fsyncUs.median} µs (quartiles ${fsyncUs.q1} to ${fsyncUs.q3})`,
    `load before it ${loadAverage[0]?.toFixed(1)}`,
    ...(quick ? ["short runs (--quick)"] : []),
  ];
  const versions = Object.entries(environment.versions).map(([of, version]) => `${of} ${version}`);
  const rows = [
    ["", "median", "least to most", "rounds", "bar", "", "medians of the parts", "CPU loop, ms"],
    ["---", "---:", "---", "---:", "---:", "---", "---", "---"],
    ...lines.map((line) => [
      line.name,
      String(line.result.median),
      `${line.result.min} to ${line.result.max}`,
      String(line.rounds),
      line.bar === null ? "" : String(Number(line.bar.toPrecision(3))),
      line.met === null ? "" : line.met ? "met" : "**missed**",
      `${Object.entries(line.medians)
        .map(([of, value]) => `${of} ${value}`)
        .join(", ")} (${line.unit})`,
      `${line.noise.loopMsMin} to ${line.noise.loopMsMax}`,
    ]),
  ];
  const about = [
    ...new Set(lines.flatMap(({ compares, note }) => (note === undefined ? [compares] : [compares, note]))),
  ];
  return [
    `## ${name}`,
    "",
    `${machine.join("; ")}. ${versions.join(", ")}.`,
    "",
    ...about.map((text) => `- ${text}`),
    "",
    ...rows.map((cells) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`),
    "",
  ].join("\n");
}
