/** What a saver call adds to its commit for the thread's waits. */

import type { Checkpoint } from "@langchain/langgraph-checkpoint";
import type { Op } from "./backend.ts";
import { HoldfastError, isHoldfastError } from "./errors.ts";
import { durabilityOf, type GraphConfig } from "./langgraph.ts";
import type { Place } from "./place.ts";
import type { RunThread } from "./run-state.ts";
import { threadWaiting, type WaitPlace, type Write } from "./thread-waits.ts";
import type { WaitLedger } from "./wait-ledger.ts";

/** Of a task's writes; and those of them that are to be stored. @throws AMBIGUOUS_ANSWER, INVALID_ANSWER, ALREADY_ANSWERED */
export function waitsOfWrites(
  ledger: WaitLedger,
  thread: RunThread,
  config: GraphConfig,
  place: Place,
  task: string,
  given: readonly Write[],
): { readonly ops: readonly Op[]; readonly writes: readonly Write[] } {
  const { waits, era, origin } = thread;
  const at = { config, origin, place, era, task };
  const { ops, writes } = resumed(ledger, thread, at, given);
  ops.push(...waits.finish(at, writes), ...waits.pause(ledger, at, writes));
  return { ops, writes };
}

/** A resume that is refused refuses its run: LangGraph already holds the answer, and would give it to a later question. */
function resumed(ledger: WaitLedger, thread: RunThread, at: WaitPlace, given: readonly Write[]) {
  try {
    return thread.waits.resume(ledger, at, given);
  } catch (error) {
    if (isHoldfastError(error)) thread.refuse(error);
    throw error;
  }
}

/** Of a new checkpoint, which ends the superstep before it. @throws THREAD_WAITING */
export function waitsOfPut(
  ledger: WaitLedger,
  { thread, waits, era }: RunThread,
  config: GraphConfig,
  place: Place,
  checkpoint: Checkpoint,
  source: string,
  inRun: boolean,
): readonly Op[] {
  if (waits.isEmpty) return [];
  // Exit durability stores the last checkpoint of a run only, and its source does not say how the run began.
  const exit = durabilityOf(config) === "exit";
  const begun = exit && place.ns === "" && source === "loop" && !waits.resumed(checkpoint) ? "input" : source;
  if (begun === "loop") return inRun ? waits.complete(place, era, exit) : [];
  if (begun === "input") {
    if (place.ns !== "" || waits.loaded.length === 0) return [];
    if (onPaused(config) === "refuse") throw threadWaiting(thread, waits.loaded);
  }
  return waits.supersede(ledger, place, era, begun);
}

/** `configurable.on_paused`: what new input does to a thread that waits. Default "refuse". */
function onPaused(config: GraphConfig): "refuse" | "supersede" {
  const value: unknown = config.configurable?.["on_paused"] ?? "refuse";
  if (value === "refuse" || value === "supersede") return value;
  throw new HoldfastError(
    "INVALID_ARGUMENT",
    `configurable.on_paused is ${JSON.stringify(value)}; use "refuse" (default) or "supersede".`,
  );
}
