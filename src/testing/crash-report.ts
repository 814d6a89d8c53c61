/**
 * What a crash matrix has found, for people: the summary that is printed and the error that names what to do.
 */

import { fileURLToPath } from "node:url";
import { kitFile } from "./child.ts";
import type { Violation } from "./crash-checks.ts";
import type { Program } from "./crash-life.ts";
import { summarisePlans } from "./crash-plan.ts";

export interface CrashReport {
  readonly program: Pick<Program, "file" | "args" | "env" | "cwd">;
  /** Every place where the program was to be killed. */
  readonly points: readonly string[];
  /** Those where it was killed. */
  readonly reached: readonly string[];
  /** Those where it never was, in any try. */
  readonly missed: readonly string[];
  /** Commits of the recording run that no try made: how commits are grouped depends on timing. Not in `points`. */
  readonly absent: readonly string[];
  /** Processes killed, each one seen to die by SIGKILL at its point. */
  readonly kills: number;
  /** Starts after the first one of each run. */
  readonly restarts: number;
  /** Starts that ended with an error although nobody killed them; a later start succeeded. */
  readonly failedStarts: number;
  /** Executions seen by the counter, all runs together. */
  readonly effects: number;
  /** Identities executed more often than without a kill, all runs together. */
  readonly repeated: number;
  /** Identities executed less often. */
  readonly lost: number;
  readonly violations: readonly Violation[];
  readonly durationMs: number;
}

/** Something was violated, or a listed point never reached. The message names the first few; `report` has them all. */
export class CrashMatrixError extends Error {
  readonly report: CrashReport;

  constructor(report: CrashReport) {
    super(explain(report));
    this.name = "CrashMatrixError";
    this.report = report;
  }
}

/** Violations spelled out in the message; the rest is counted. */
const SHOWN = 5;

function explain(report: CrashReport): string {
  const { violations, missed, program } = report;
  const lines = [
    `crash matrix of ${program.file}: ${violations.length} violations, ${missed.length} of ${report.points.length} points never reached`,
  ];
  for (const { plan, kind, message, dir } of violations.slice(0, SHOWN)) {
    lines.push(
      `- killed at ${plan}: ${kind}: ${message}`,
      `  state: ${dir}`,
      `  again: ${repeatCommand(program, plan)}`,
    );
  }
  if (violations.length > SHOWN) lines.push(`- and ${violations.length - SHOWN} more`);
  if (missed.length > 0) {
    lines.push("- never reached, although listed:", ...summarisePlans(missed).map((line) => `    ${line}`));
    lines.push(`  again: ${repeatCommand(program, missed[0] as string)}`);
  }
  return lines.join("\n");
}

/** A shell command that runs this one place again (without the caller's own `check` and `prepare`). */
function repeatCommand({ file, args, env, cwd }: CrashReport["program"], plan: string): string {
  const quote = (text: string) => (/^[\w./:=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const words = [
    ...Object.entries(env).map(([name, value]) => `${name}=${quote(value)}`),
    "node",
    ...[fileURLToPath(kitFile("crash-once")), file, plan, ...args].map(quote),
  ];
  return `${cwd === undefined ? "" : `cd ${quote(cwd)} && `}${words.join(" ")}`;
}

/** The counts, and the distinct points on few lines. */
export function summary(report: CrashReport): string {
  const { kills, restarts, effects, repeated, lost, violations, points, reached } = report;
  const seconds = (report.durationMs / 1000).toFixed(1);
  return [
    `crash matrix of ${[report.program.file, ...report.program.args].join(" ")}: ${reached.length} of ${points.length} points reached, ` +
      `${kills} kills, ${restarts} restarts, ${effects} effects, ${repeated} repeated, ${lost} lost, ` +
      `${violations.length} violations, ${seconds} s`,
    ...summarisePlans(reached).map((line) => `  ${line}`),
    ...summarisePlans(report.absent).map((line) => `  not made again, grouped otherwise: ${line}`),
  ].join("\n");
}
