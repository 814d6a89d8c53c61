import type { CaseName } from "./cases.ts";
import type { KilledRun } from "./killed-run.ts";
import type { Variant, VariantName } from "./variants.ts";

/** One line of the table. */
export interface Row {
  readonly variant: VariantName;
  readonly label: string;
  readonly graph: CaseName;
  /** Points that were tried, and how many there are. */
  readonly points: number;
  readonly pointsAll: number;
  /** Processes that died at their point; the others were through before they came to it. */
  readonly kills: number;
  readonly resumes: number;
  readonly executed: number;
  readonly repeated: number;
  readonly lost: number;
  /** Runs that did not end, or ended with another state or another file than the unbroken run. */
  readonly differing: number;
  readonly settled: number;
  readonly seconds: number;
  /** Sentences, each with its point. */
  readonly complaints: readonly string[];
}

export function rowOf(
  variant: Variant,
  graph: CaseName,
  runs: readonly KilledRun[],
  pointsAll: number,
  seconds: number,
): Row {
  const sum = (count: (run: KilledRun) => number) => runs.reduce((total, run) => total + count(run), 0);
  return {
    variant: variant.name,
    label: variant.label,
    graph,
    points: runs.length,
    pointsAll,
    kills: sum((run) => Number(run.reached)),
    resumes: sum((run) => run.resumes),
    executed: sum((run) => run.verdict.executed),
    repeated: sum((run) => run.verdict.repeated),
    lost: sum((run) => run.verdict.lost),
    differing: sum((run) => Number(run.verdict.differs.length > 0)),
    settled: sum((run) => run.settled),
    seconds: Math.round(seconds * 10) / 10,
    complaints: runs.flatMap((run) =>
      run.verdict.complaints.map((text) => `${graph}, killed at ${run.point}: ${text}`),
    ),
  };
}

const columns: readonly (readonly [title: string, cell: (row: Row) => string])[] = [
  ["", (row) => row.label],
  ["graph", (row) => row.graph],
  ["points", (row) => `${row.points} of ${row.pointsAll}`],
  ["kills", (row) => String(row.kills)],
  ["resumes", (row) => String(row.resumes)],
  ["executed", (row) => String(row.executed)],
  ["repeated", (row) => String(row.repeated)],
  ["lost", (row) => String(row.lost)],
  ["differing", (row) => String(row.differing)],
  ["settled", (row) => (row.variant === "holdfast" ? String(row.settled) : "–")],
  ["time", (row) => `${row.seconds.toFixed(1)} s`],
];

export function tableOf(rows: readonly Row[]): string {
  const cells = [columns.map(([title]) => title), ...rows.map((row) => columns.map(([, cell]) => cell(row)))];
  const widths = columns.map((_, column) => Math.max(...cells.map((line) => line[column]?.length ?? 0)));
  const lines = cells.map((line) =>
    line
      .map((cell, column) => (column < 3 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
  return [lines[0], "-".repeat(widths.reduce((sum, width) => sum + width + 2, -2)), ...lines.slice(1)].join("\n");
}

export const legend = `executed   work done outside, and files written, as the outside world counted it
repeated   work done once more for the same order or file, under whatever key
lost       work or files of the unbroken run that are missing at the end
differing  runs that do not end, or end with another state or another file than the unbroken run
settled    effects nobody could ask about (the mail), decided by a separate operator process that looked into the sent folder
SqliteSaver: the same node bodies without effect(), killed by the same preload; the node passes its checkpoint id as key.
Charge, stock and model refuse a second call with the same key; the mail server does not, for nobody.`;
