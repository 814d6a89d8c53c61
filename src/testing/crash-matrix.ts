/**
 * The crash matrix: a program of yours is killed with SIGKILL at every fault point it has, started again, and judged
 * against a run that was not killed.
 *
 * 1. A run without a kill lists the fault points (see `fault-points.ts`) and gives the expected result and counts.
 * 2. For each point: a new state directory, the program killed there (seen by its signal and by its own record), started
 *    again until it exits with 0.
 * 3. Then: same result; every effect counted as often as without a kill, by a process that nobody kills; no finished
 *    node begun again; every effect of the journal with its outcome, where the program keeps one; your own `check`.
 *
 * A point that was listed and not reached is a failure too: a matrix that kills nothing must not look like a proof.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { kitFile, serve } from "./child.ts";
import { type Finding, judgeLife, type Violation } from "./crash-checks.ts";
import { judgeJournal } from "./crash-journal.ts";
import { type Life, live, type Program } from "./crash-life.ts";
import { type CrashPlan, doubleKills, formatPlan, parsePlan, singleKills } from "./crash-plan.ts";
import { CrashMatrixError, type CrashReport, summary } from "./crash-report.ts";

/** A run that came to its end, as seen from outside. */
export interface CrashEnd {
  /** Where it was killed, see `points`; "" for the run without a kill. */
  readonly plan: string;
  /** Its state directory (`HOLDFAST_DIR`). */
  readonly dir: string;
  /** What the program reported with `reportResult`. */
  readonly result: unknown;
  /** How often each identity was executed, by the counter. */
  readonly counts: Readonly<Record<string, number>>;
}

export interface CrashProgress {
  readonly done: number;
  readonly total: number;
  /** The place of the run that has just ended. */
  readonly plan: string;
  readonly violations: number;
}

export interface CrashMatrixOptions {
  /** A script for `node`, which reports its result with `reportResult` and keeps its state in `stateDirectory()`. */
  program: string | URL;
  args?: readonly string[];
  /** Beside the environment of this process. */
  env?: Readonly<Record<string, string>>;
  cwd?: string;
  /**
   * Where to kill: a list (a point per start, `-` for none, joined by " > ", see `crash-plan.ts`), or a choice from all
   * points of the run without a kill. Default: all of them.
   */
  points?: readonly string[] | ((all: readonly string[]) => readonly string[]);
  /** 2: the start that recovers is killed as well, for a sample. Default 1. */
  depth?: 1 | 2;
  /** For depth 2: how many runs are killed twice. Default 12. */
  depthSample?: number;
  /** Fills a new state directory before the first start. */
  prepare?: (dir: string) => void | Promise<void>;
  /** Throws where the end is wrong, beyond what the matrix checks. Also called for the run without a kill. */
  check?: (end: CrashEnd) => void | Promise<void>;
  /** Starts after the first one until the program must have exited with 0. Default 8. */
  restartsMax?: number;
  /** For one start. Default 60,000. */
  timeoutMs?: number;
  /** Programs at a time. Default 2. */
  concurrency?: number;
  /**
   * How often a point is tried before it counts as never reached: grouping of commits depends on timing, so the last
   * commits of one run may not exist in the next. Default 3. Every try is judged.
   */
  tries?: number;
  onProgress?: (progress: CrashProgress) => void;
  /** Receives the summary. Default `console.log`. */
  print?: (text: string) => void;
}

/**
 * Runs the matrix. Rejects with a {@link CrashMatrixError} (its `report` is the whole report) where anything was violated
 * or a listed point never reached. Whatever it starts has ended when it settles; directories of runs that violated
 * something are left for inspection and named in the error, all others are removed.
 */
export async function crashMatrix(options: CrashMatrixOptions): Promise<CrashReport> {
  const counter = await serve(kitFile("counter-server"));
  const root = mkdtempSync(join(tmpdir(), "holdfast-crash-"));
  const matrix = new Matrix(options, root, counter.line);
  try {
    const report = await matrix.run();
    (options.print ?? console.log)(summary(report));
    if (report.violations.length > 0 || report.missed.length > 0) throw new CrashMatrixError(report);
    return report;
  } finally {
    await counter.stop();
    if (!matrix.kept) rmSync(root, { recursive: true, force: true });
  }
}

/** The number of the commit a plan kills at; 0 for other places. */
function commitOf(plan: CrashPlan): number {
  return Number(/^commit:(\d+):/.exec(plan.at(-1) ?? "")?.[1] ?? 0);
}

function commitsOf(points: readonly string[] = []): number {
  return Math.max(0, ...points.map((point) => commitOf([point])));
}

class Matrix {
  readonly #options: CrashMatrixOptions;
  readonly #root: string;
  readonly #counterUrl: string;
  readonly #program: Program;
  readonly #violations: Violation[] = [];
  readonly #lives: Life[] = [];
  readonly #done: { plan: CrashPlan; recovery: readonly string[] }[] = [];
  readonly #reached = new Set<string>();
  /** Plans a try of which finished with fewer commits than the plan's. */
  readonly #endedBefore = new Set<string>();
  readonly #absent = new Set<string>();
  #runs = 0;
  /** Whether a directory was left for inspection. */
  kept = false;

  constructor(options: CrashMatrixOptions, root: string, counterUrl: string) {
    const { program, args = [], env = {}, cwd, prepare, restartsMax = 8, timeoutMs = 60_000 } = options;
    const file = program instanceof URL || program.startsWith("file:") ? fileURLToPath(program) : program;
    this.#options = options;
    this.#root = root;
    this.#counterUrl = counterUrl;
    this.#program = { file, args, env, cwd, prepare, restartsMax, timeoutMs };
  }

  async run(): Promise<CrashReport> {
    const startedAt = performance.now();
    const reference = await this.#reference();
    const plans = this.#plans(reference);
    await this.#all(plans, reference);
    const offered = this.#withoutAbsent(plans);
    if (this.#options.depth === 2) offered.push(...(await this.#killRecoveries(reference)));
    const points = offered.map(formatPlan);
    const sum = (of: (life: Life) => number) => this.#lives.reduce((total, life) => total + of(life), 0);
    return {
      program: this.#program,
      points,
      reached: points.filter((plan) => this.#reached.has(plan)),
      missed: points.filter((plan) => !this.#reached.has(plan)),
      absent: [...this.#absent],
      kills: sum((life) => life.kills),
      restarts: sum((life) => life.restarts),
      failedStarts: sum((life) => life.failedStarts),
      effects: sum((life) => Object.values(life.counter.counts).reduce((total, { times }) => total + times, 0)),
      repeated: this.#violations.filter(({ kind }) => kind === "repeated").length,
      lost: this.#violations.filter(({ kind }) => kind === "lost").length,
      violations: this.#violations,
      durationMs: performance.now() - startedAt,
    };
  }

  /** The run without a kill. A program that fails by itself proves nothing, so every fault of it ends the matrix. */
  async #reference(): Promise<Life> {
    const life = await this.#live([]);
    const findings = await this.#judge(life, life);
    if (life.finished && life.result === undefined) {
      findings.push({
        kind: "result",
        message: "expected the program to report its result with reportResult(value); it did not",
      });
    }
    if (life.finished && life.points.every((points) => points.length === 0)) {
      findings.push({
        kind: "unfinished",
        message: "expected fault points; the program commits nothing with a Holdfast checkpointer",
      });
    }
    const first = findings[0];
    if (first === undefined) {
      this.#remove(life);
      return life;
    }
    this.kept = true;
    throw new Error(`crash matrix of ${this.#program.file}: the run without a kill is wrong: ${first.message}`);
  }

  #plans(reference: Life): CrashPlan[] {
    const all = singleKills(reference.points);
    const { points } = this.#options;
    if (points === undefined) return all;
    return (typeof points === "function" ? points(all.map(formatPlan)) : points).map(parsePlan);
  }

  /**
   * How commits are grouped depends on timing, so the recording run may have made a commit or two more than any try: such
   * a place is no place of the program. Only where the tries themselves show that they ended with fewer commits, and
   * never for places that the caller has listed.
   */
  #withoutAbsent(plans: readonly CrashPlan[]): CrashPlan[] {
    if (Array.isArray(this.#options.points)) return [...plans];
    for (const plan of plans) {
      const text = formatPlan(plan);
      if (!this.#reached.has(text) && this.#endedBefore.has(text)) this.#absent.add(text);
    }
    return plans.filter((plan) => !this.#absent.has(formatPlan(plan)));
  }

  /**
   * Kills a sample of the starts that recover; the plans that count. What a recovery still has to commit depends on
   * how the first start's commits were grouped, so a second point may be gone when its plan is tried; that plan says
   * nothing and is left out, unless fewer than half of the sample were reached.
   */
  async #killRecoveries(reference: Life): Promise<CrashPlan[]> {
    const sample = doubleKills(this.#done, this.#options.depthSample ?? 12);
    await this.#all(sample, reference);
    const reached = sample.filter((plan) => this.#reached.has(formatPlan(plan)));
    return reached.length * 2 >= sample.length ? reached : sample;
  }

  async #all(plans: readonly CrashPlan[], reference: Life): Promise<void> {
    const queue = [...plans];
    let done = 0;
    const work = async () => {
      for (let plan = queue.shift(); plan !== undefined; plan = queue.shift()) {
        await this.#one(plan, reference);
        done += 1;
        this.#options.onProgress?.({
          done,
          total: plans.length,
          plan: formatPlan(plan),
          violations: this.#violations.length,
        });
      }
    };
    await Promise.all(Array.from({ length: this.#options.concurrency ?? 2 }, work));
  }

  async #one(plan: CrashPlan, reference: Life): Promise<void> {
    for (let tries = this.#options.tries ?? 3; tries > 0; tries--) {
      const life = await this.#live(plan);
      this.#lives.push(life);
      const findings = await this.#judge(life, reference);
      this.#violations.push(...findings.map((finding) => ({ plan: formatPlan(plan), dir: life.dir, ...finding })));
      if (findings.length === 0) this.#remove(life);
      else this.kept = true;
      if (!life.reached) {
        if (life.finished && commitsOf(life.points[plan.length - 1]) < commitOf(plan))
          this.#endedBefore.add(formatPlan(plan));
        continue;
      }
      this.#reached.add(formatPlan(plan));
      this.#done.push({ plan, recovery: life.points[plan.length] ?? [] });
      return;
    }
  }

  async #judge(life: Life, reference: Life): Promise<Finding[]> {
    const findings = judgeLife(life, reference);
    if (!life.finished) return findings;
    findings.push(...judgeJournal(life, reference));
    try {
      await this.#options.check?.({
        plan: formatPlan(life.plan),
        dir: life.dir,
        result: life.result,
        counts: Object.fromEntries(
          Object.entries(life.counter.counts).map(([identity, { times }]) => [identity, times]),
        ),
      });
    } catch (error) {
      findings.push({
        kind: "check",
        message: `check failed: ${error instanceof Error ? error.message : String(error)}`,
      });
    }
    return findings;
  }

  #live(plan: CrashPlan): Promise<Life> {
    this.#runs += 1;
    return live(this.#program, plan, join(this.#root, `run-${this.#runs}`), this.#counterUrl, `run-${this.#runs}`);
  }

  #remove(life: Life): void {
    rmSync(join(life.dir, ".."), { recursive: true, force: true });
  }
}
