/**
 * Fails every commit of a scenario in turn: commit 1, commit 2, … until a run has no commit left to fail, once for each
 * mode. After each failure the scenario recovers on the healthy backend and the caller judges the end state.
 */

import type { Backend } from "../backend.ts";
import { HoldfastError } from "../errors.ts";
import { FaultyBackend } from "./faulty-backend.ts";

/** One way to fail, and for how long. */
export type FaultMode = "before-once" | "before-forever" | "after-once" | "after-forever";

export const faultModes: readonly FaultMode[] = ["before-once", "before-forever", "after-once", "after-forever"];

/** A scenario's one life: made anew for every failure. */
export interface FaultScenario<R> {
  /** Fresh, empty and healthy. */
  readonly backend: Backend;
  /** Does the work on the backend given, in which a commit will fail. It may throw; the error is handed to `check`. */
  run(backend: Backend): Promise<unknown>;
  /** Goes on from what is stored, on the healthy backend (opened again where the scenario wants that). Must not throw. */
  recover(): Promise<R>;
  /** Releases what the scenario holds. */
  close?(): Promise<void>;
}

/** What came of one injected failure. */
export interface FaultOutcome<R> {
  readonly mode: FaultMode;
  /** The commit group that failed, from 1. */
  readonly commit: number;
  /** What `run` threw; undefined where it did not. */
  readonly error: unknown;
  /** What `recover` returned. */
  readonly result: R;
  /** Whether a failure was injected; false for the last run of each mode, which is judged like the others. */
  readonly injected: boolean;
}

export interface FaultSweepOptions<R> {
  scenario: () => FaultScenario<R> | Promise<FaultScenario<R>>;
  /** Throws where the end state is wrong. */
  check: (outcome: FaultOutcome<R>) => void | Promise<void>;
  /** Default: all four. */
  modes?: readonly FaultMode[];
  /** Gives up where a scenario still commits after so many groups. Default 1000. */
  commitsMax?: number;
  /** Receives the summary, one line. Default `console.log`. */
  print?: (line: string) => void;
}

export interface FaultSweepReport {
  /** Failures injected. */
  readonly injected: number;
  /** Failures injected for each mode; equal numbers mean that each commit was failed in each way. */
  readonly byMode: Readonly<Record<string, number>>;
}

/**
 * Runs the sweep; rejects with the first error of `run` without an injected failure, of `recover` or of `check`, told
 * apart by a message that names mode and commit (the error itself is its `cause`).
 */
export async function faultSweep<R>(options: FaultSweepOptions<R>): Promise<FaultSweepReport> {
  const { modes = faultModes, commitsMax = 1000, print = (line) => console.log(line) } = options;
  const byMode: Record<string, number> = {};
  let injected = 0;
  for (const mode of modes) {
    let commit = 0;
    let more = true;
    while (more) {
      commit += 1;
      if (commit > commitsMax) {
        throw new HoldfastError(
          "INVALID_ARGUMENT",
          `The scenario still commits after ${commitsMax} groups (mode ${mode}).`,
        );
      }
      more = await failOne(options, mode, commit);
    }
    byMode[mode] = commit - 1;
    injected += commit - 1;
  }
  print(`fault sweep: ${injected} failures injected (${modes.map((mode) => `${mode} ${byMode[mode]}`).join(", ")})`);
  return { injected, byMode };
}

/** Whether there was a commit to fail. */
async function failOne<R>(options: FaultSweepOptions<R>, mode: FaultMode, commit: number): Promise<boolean> {
  const [kind, times] = mode.split("-") as ["before" | "after", "once" | "forever"];
  const scenario = await options.scenario();
  const faulty = new FaultyBackend(scenario.backend, { commit, mode: kind, times });
  let step = "run";
  try {
    const error = await scenario.run(faulty).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    const injected = faulty.injected > 0;
    if (error !== undefined && !injected) throw error;
    step = "recover";
    const result = await scenario.recover();
    step = "check";
    await options.check({ mode, commit, error, result, injected });
    return injected;
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`fault sweep, ${mode} of commit ${commit}, ${step}: ${message}`, { cause });
  } finally {
    await scenario.close?.();
  }
}
