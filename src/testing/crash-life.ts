/**
 * One life of a program under the crash matrix: a new state directory, starts that are killed where the plan says, and
 * further starts until it exits with code 0.
 */

import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type JournalEvent, readJournal } from "../journal.ts";
import { type ChildEnd, kitFile, runChild } from "./child.ts";
import type { CounterReport } from "./counter-server.ts";
import { JOURNAL_FILE } from "./crash-journal.ts";
import type { CrashPlan } from "./crash-plan.ts";
import { START_AGAIN } from "./program.ts";

/** What is started, the same for every life. */
export interface Program {
  readonly file: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string | undefined;
  readonly prepare: ((dir: string) => void | Promise<void>) | undefined;
  readonly restartsMax: number;
  readonly timeoutMs: number;
}

export interface Life {
  readonly plan: CrashPlan;
  /** Its state directory. */
  readonly dir: string;
  /** Distinct fault points of each start, in the order in which they were reached. */
  readonly points: readonly (readonly string[])[];
  /** Whether each kill of the plan happened, at its point and nowhere else. */
  readonly reached: boolean;
  readonly kills: number;
  /** Starts after the first one. */
  readonly restarts: number;
  /** Starts that nobody killed and that ended with neither 0 nor START_AGAIN. */
  readonly failedStarts: number;
  /** The last start ended with code 0. */
  readonly finished: boolean;
  /** The reported result; undefined where none was reported. */
  readonly result: unknown;
  readonly last: ChildEnd;
  readonly counter: CounterReport;
  /** The program's audit journal; undefined where it keeps none. */
  readonly journal: { readonly events: readonly JournalEvent[]; readonly broken: number } | undefined;
}

/** Lives the life. `home` must not exist; the counter knows it by `run`. */
export async function live(
  program: Program,
  plan: CrashPlan,
  home: string,
  counterUrl: string,
  run: string,
): Promise<Life> {
  const dir = join(home, "state");
  mkdirSync(dir, { recursive: true });
  await program.prepare?.(dir);
  const points: string[][] = [];
  let kills = 0;
  let failedStarts = 0;
  let reached = true;
  let last: ChildEnd;
  for (let start = 0; ; start++) {
    const killAt = plan[start];
    const record = join(home, `start-${start + 1}.points`);
    last = await runChild(program.file, {
      nodeArgs: ["--import", kitFile("kill").href],
      args: program.args,
      cwd: program.cwd,
      timeoutMs: program.timeoutMs,
      env: {
        ...program.env,
        HOLDFAST_DIR: dir,
        HOLDFAST_COUNTER_URL: `${counterUrl}/${run}`,
        HOLDFAST_KILL_RECORD: record,
        HOLDFAST_KILL_AT: killAt,
      },
    });
    const recorded = existsSync(record) ? readFileSync(record, "utf8").trimEnd().split("\n") : [];
    points.push([...new Set(recorded)]);
    if (last.timedOut) break;
    const killed = last.signal === "SIGKILL" && killAt !== undefined && recorded.at(-1) === killAt;
    if (killed) kills += 1;
    else if (killAt !== undefined) reached = false;
    if (!killed && last.code === 0) break;
    if (!killed && last.code !== START_AGAIN) failedStarts += 1;
    if (start >= program.restartsMax) break;
  }
  const finished = last.code === 0 && !last.timedOut;
  const journal = join(dir, JOURNAL_FILE);
  return {
    plan,
    dir,
    points,
    reached: reached && kills === plan.filter((point) => point !== undefined).length,
    kills,
    restarts: points.length - 1,
    failedStarts,
    finished,
    result: finished ? reportedResult(last.stdout) : undefined,
    last,
    counter: await counterReport(`${counterUrl}/${run}`),
    journal: existsSync(journal) ? await readJournal(journal) : undefined,
  };
}

/** The last line that `reportResult` printed. */
function reportedResult(stdout: string): unknown {
  for (const line of stdout.split("\n").reverse()) {
    if (!line.startsWith('{"result":')) continue;
    return (JSON.parse(line) as { result: unknown }).result;
  }
  return undefined;
}

async function counterReport(url: string): Promise<CounterReport> {
  const response = await fetch(`${url}/report`, { method: "POST", body: "{}" });
  return (await response.json()) as CounterReport;
}
