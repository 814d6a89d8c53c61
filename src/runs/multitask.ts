/** What a new run does to those of its thread that have not ended (R2). */

import type { Checkpointer } from "../checkpointer.ts";
import { HoldfastError, isHoldfastError } from "../errors.ts";
import type { ForkableGraph } from "../fork-draft.ts";
import { isEnded, type RunRow, type RunStatus } from "../model.ts";
import type { RunnableGraph } from "../run.ts";
import { timeTravel } from "../time-travel.ts";
import { cancelRun } from "./cancel.ts";
import type { RunLedger } from "./run-ledger.ts";

export type Multitask = "enqueue" | "reject" | "interrupt" | "rollback";

interface Parts {
  readonly ledger: RunLedger;
  readonly checkpointer: Checkpointer;
  readonly graphs: Readonly<Record<string, RunnableGraph>>;
  readonly cancelHere: (id: string) => void;
}

/** The statuses of a run that has not ended. */
export const ACTIVE: readonly RunStatus[] = ["queued", "running", "waiting", "retrying", "parked"];

const POLL_MS = 100;

/** True where the new run takes the place of what was before it: of runs, and of what a cancelled one still waits for. @throws THREAD_HAS_RUN, INVALID_ARGUMENT */
export async function makeWay(multitask: Multitask, thread: string, parts: Parts): Promise<boolean> {
  const { ledger } = parts;
  switch (multitask) {
    case "enqueue":
      return false;
    case "reject": {
      const [first] = await active(ledger, thread);
      if (first !== undefined) throw threadHasRun(thread, first.id);
      return false;
    }
    case "interrupt":
    case "rollback": {
      const runs = await active(ledger, thread);
      for (const run of runs) await endRun(run, parts);
      const [first] = runs;
      if (multitask === "rollback" && first !== undefined) await goBackBefore(first, parts);
      return true;
    }
    default: {
      const never: never = multitask;
      throw new HoldfastError(
        "INVALID_ARGUMENT",
        `multitask is ${JSON.stringify(never)}; use "enqueue", "reject", "interrupt" or "rollback".`,
      );
    }
  }
}

export function threadHasRun(thread: string, run: string): HoldfastError {
  return new HoldfastError(
    "THREAD_HAS_RUN",
    `Thread ${JSON.stringify(thread)} has a run that has not ended: ${run}. Nothing was started. Wait for it, cancel it, or start with ` +
      '`multitask: "enqueue"`.',
    { details: { thread, run } },
  );
}

async function active(ledger: RunLedger, thread: string): Promise<readonly RunRow[]> {
  return ledger.rows({ thread, status: ACTIVE });
}

/** Resolves when the run has ended: the thread is nobody's then. */
async function endRun({ id }: RunRow, { ledger, cancelHere }: Parts): Promise<void> {
  for (;;) {
    try {
      const { status } = await cancelRun(ledger, id, { by: "holdfast", reason: "another run takes its place" });
      if (isEnded(status)) return;
    } catch (error) {
      if (isHoldfastError(error, "RUN_ENDED") || isHoldfastError(error, "UNKNOWN_RUN")) return;
      throw error;
    }
    cancelHere(id);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** The newest checkpoint of the head's lineage that is not the run's. A thread that began with the run stays as it is. */
async function goBackBefore(run: RunRow, { checkpointer, graphs }: Parts): Promise<void> {
  const app = graphs[run.graph];
  if (app === undefined) {
    throw new HoldfastError(
      "INVALID_ARGUMENT",
      `multitask "rollback" needs graph ${JSON.stringify(run.graph)}, which this runtime was not given. The run is cancelled; nothing was started.`,
      { details: { graph: run.graph, run: run.id } },
    );
  }
  let at = await checkpointer.getTuple({ configurable: { thread_id: run.thread } });
  while (at !== undefined && (at.metadata as { readonly run_id?: unknown } | undefined)?.run_id === run.id)
    at = at.parentConfig === undefined ? undefined : await checkpointer.getTuple(at.parentConfig);
  if (at !== undefined) await timeTravel(app as unknown as ForkableGraph).rollbackTo(run.thread, at.checkpoint.id);
}
