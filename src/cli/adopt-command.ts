/** `holdfast adopt`: takes over the database of an official LangGraph saver. */

import { adopt } from "../adopt/adopt.ts";
import type { AdoptedThread, AdoptProgress, AdoptReport } from "../adopt/report.ts";
import { backends } from "./backends.ts";
import { bytesText, type ExitCode, type Printer, table } from "./output.ts";

export interface AdoptFlags {
  readonly into: string;
  readonly schema?: string;
  readonly intoSchema?: string;
}

/** Threads that are listed one by one; of more only those with something to say. */
const LISTED_MAX = 50;
/** Lines of one thread. */
const LINES_MAX = 10;

export async function adoptCommand(from: string, flags: AdoptFlags, printer: Printer): Promise<ExitCode> {
  const { openSource, openCheckpointer } = await backends();
  const source = await openSource(from, schemaOption(flags.schema));
  try {
    const checkpointer = await openCheckpointer(flags.into, schemaOption(flags.intoSchema));
    try {
      const report = await adopt(source, checkpointer, { onProgress: (progress) => show(printer, progress) });
      printer.result(() => reportText(report, printer), report);
      return report.complete ? 0 : 1;
    } finally {
      await checkpointer.close();
    }
  } finally {
    await source.close();
  }
}

function schemaOption(schema: string | undefined): { readonly schema?: string } {
  return schema === undefined ? {} : { schema };
}

function show(printer: Printer, { number, threads, thread, step, done, checkpoints, result }: AdoptProgress): void {
  if (result !== undefined && result.differences.length > 0)
    printer.note(`thread ${JSON.stringify(thread)}: ${result.status}`);
  else printer.progress(`thread ${number} of ${threads}, ${JSON.stringify(thread)}: ${step} ${done} of ${checkpoints}`);
}

function reportText(report: AdoptReport, printer: Printer): string {
  const { threads, totals } = report;
  const telling = threads.filter(({ differences, notes }) => differences.length + notes.length > 0);
  const listed = threads.length <= LISTED_MAX ? threads : telling;
  const cells = ({ thread, status, ...row }: Omit<AdoptedThread, "differences" | "notes">, differences: number) => [
    thread,
    status,
    ...[row.checkpoints, row.writes, row.waits].map(String),
    bytesText(row.bytes),
    String(differences),
  ];
  const rows = [
    ["thread", "result", "checkpoints", "writes", "waits", "source", "differences"],
    ...listed.map((thread) => cells(thread, thread.differences.length)),
    cells(
      { thread: `${totals.threads} threads`, status: report.complete ? "adopted" : "failed", ...totals },
      totals.differences,
    ),
  ];
  const lines = [table(rows, [2, 3, 4, 5, 6])];
  for (const { thread, differences, notes } of telling) {
    lines.push("", printer.color("bold", `thread ${JSON.stringify(thread)}`));
    lines.push(
      ...few(differences).map((line) => printer.color("red", `  ${line}`)),
      ...few(notes).map((line) => `  ${line}`),
    );
  }
  if (report.notes.length > 0) lines.push("", ...report.notes);
  const verdict = report.complete
    ? printer.color("green", `Every thread reads back from ${report.target} as ${report.comparedWith} gives it.`)
    : printer.color(
        "red",
        "Not every thread could be taken over as it is; see above. Nothing in the source was changed.",
      );
  return [...lines, "", verdict].join("\n");
}

function few(lines: readonly string[]): readonly string[] {
  return lines.length <= LINES_MAX
    ? lines
    : [...lines.slice(0, LINES_MAX), `and ${lines.length - LINES_MAX} more; --json lists all`];
}
