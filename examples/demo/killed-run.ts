/** One run of a graph in processes of its own: unbroken, or killed at one point and taken up again until it is through. */

import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { worldClient } from "../world/client.ts";
import { type Case, type CaseName, cases } from "./cases.ts";
import { type ChildEnd, runChild } from "./children.ts";
import { judge, readFiles, type Traces, type Verdict } from "./judge.ts";
import type { Answer, Job } from "./program.ts";
import type { DemoBackend, Variant } from "./variants.ts";

/** What runs of one graph in one variant have in common. */
export interface Setting {
  readonly variant: Variant;
  readonly graph: CaseName;
  readonly backend: DemoBackend;
  /** Directory of its own. */
  readonly directory: string;
  readonly inbox: string;
  /** Address of the world, without a shop. */
  readonly world: string;
  /** Files of the programs to start. */
  readonly program: string;
  readonly operator: string;
  readonly abort: AbortSignal;
}

/** A run that nobody disturbed, to compare with. */
export interface UnbrokenRun {
  readonly traces: Traces;
  /** The fault points it passed, in order, each once. */
  readonly points: readonly string[];
}

export interface KilledRun {
  readonly point: string;
  /** False where the process was through before it came to the point: nothing was killed. */
  readonly reached: boolean;
  /** Processes started after the kill. */
  readonly resumes: number;
  /** Effects that the operator decided. */
  readonly settled: number;
  readonly verdict: Verdict;
}

/** More than any point needs: a kill, a pause for the operator, and one to spare for each effect. */
const resumesMax = 8;

const killPreload = import.meta.resolve("holdfast/testing/kill");

/** Runs the graph without a kill, and once more after it has finished, which must change nothing. */
export async function unbrokenRun(setting: Setting): Promise<UnbrokenRun> {
  const stage = await setStage(setting, "unbroken");
  const record = join(stage.directory, "points.txt");
  const answer = answerOf(await stage.start({ HOLDFAST_KILL_RECORD: record }));
  if (answer.status !== "finished")
    throw new Error(`The unbroken run of ${stage.title} is ${answer.status} instead of finished.`);
  const traces = await stage.traces(answer.values);
  await runAgain(stage, setting, traces);
  const points = (await readFile(record, "utf8")).split("\n").filter((line) => line !== "");
  return { traces, points: [...new Set(points)] };
}

async function runAgain(stage: Stage, { variant }: Setting, first: Traces): Promise<void> {
  const again = answerOf(await stage.start({}));
  if (variant.saver === "holdfast" && again.status !== "already_done") {
    throw new Error(`${stage.title}, started again after its end, says ${again.status} instead of already_done.`);
  }
  const { complaints } = judge(await stage.traces(again.values), first);
  if (variant.saver === "holdfast" && complaints.length > 0) {
    throw new Error(`${stage.title}, started again after its end: ${complaints.join("; ")}.`);
  }
}

/** Kills the graph's process at `point`, starts it again until it is through, and judges what is left. */
export async function killedRun(setting: Setting, point: string, unbroken: UnbrokenRun): Promise<KilledRun> {
  const stage = await setStage(setting, point.replaceAll(":", "-"));
  let end = await stage.start({ HOLDFAST_KILL_AT: point });
  const reached = end.signal === "SIGKILL";
  let resumes = 0;
  let settled = 0;
  const judged = async (values: unknown, unfinished?: string): Promise<KilledRun> => {
    const verdict = judge(await stage.traces(values), unbroken.traces);
    const complaints = unfinished === undefined ? verdict.complaints : [unfinished, ...verdict.complaints];
    return { point, reached, resumes, settled, verdict: { ...verdict, complaints } };
  };
  for (;;) {
    const died = end.signal === "SIGKILL";
    if (!died && end.code !== 0) return judged(undefined, failureOf(end));
    const answer = died ? undefined : answerOf(end);
    if (answer?.status === "finished" || answer?.status === "already_done") return judged(answer.values);
    if (resumes === resumesMax) return judged(undefined, `it is not through after ${resumes} resumes`);
    if (answer?.status === "parked") settled += await stage.operate();
    resumes += 1;
    end = await stage.start({});
  }
}

/** A thread, a checkpointer's place, a shop and a working directory for one run. */
interface Stage {
  readonly title: string;
  readonly directory: string;
  start(env: Readonly<Record<string, string>>): Promise<ChildEnd>;
  /** Lets the operator decide what is parked; returns how much he decided. */
  operate(): Promise<number>;
  traces(values: unknown): Promise<Traces>;
}

async function setStage(setting: Setting, name: string): Promise<Stage> {
  const { variant, graph, backend, abort } = setting;
  const directory = join(setting.directory, name);
  await mkdir(directory, { recursive: true });
  const shop = `${setting.world}/${variant.name}-${graph}-${name}`;
  const files: Case["files"] = cases[graph].files;
  const place =
    variant.saver === "official" ? "official.db" : backend === "sqlite" ? "sqlite:holdfast.db" : "jsonl:holdfast";
  const { calls, saver, durability } = variant;
  const job: Job = { graph, variant: { calls, saver, durability }, place, thread: graph, shop, inbox: setting.inbox };
  return {
    title: `${variant.label}: ${graph}, ${name}`,
    directory,
    start: (env) =>
      runChild(setting.program, [JSON.stringify(job)], { cwd: directory, env, preload: killPreload, abort }),
    operate: async () => {
      const args = ["--checkpointer", place, "--world", shop, "--thread", job.thread, "--json"];
      const end = await runChild(setting.operator, args, { cwd: directory, abort });
      return (JSON.parse(lastLine(end)) as { settled: number }).settled;
    },
    traces: async (values) => ({
      ledger: await worldClient(shop).ledger(),
      files: await readFiles(directory, files),
      values,
    }),
  };
}

function answerOf(end: ChildEnd): Answer {
  return JSON.parse(lastLine(end)) as Answer;
}

function lastLine(end: ChildEnd): string {
  if (end.code !== 0) throw new Error(failureOf(end));
  return end.stdout.trimEnd().split("\n").at(-1) ?? "";
}

function failureOf({ code, signal, stderr }: ChildEnd): string {
  return `a process ended with ${signal ?? `exit code ${code}`}: ${stderr.trim() || "it said nothing"}`;
}
