/** What a worker says, a JSON object a line, and what it is told to do. */

import type { LifePlan } from "./plan.ts";
import type { StorePlace } from "./stores.ts";

/** Given as the worker's only argument. */
export interface WorkerOrder {
  readonly place: StorePlace;
  readonly life: LifePlan;
}

/** The line on standard input at which a worker that has loaded everything begins. */
export const SERVE = "serve";

/** Since the worker's start; said when something has changed, so a worker that dies may have done a little more. */
export interface LifeCounts {
  readonly claimed: number;
  readonly takenOver: number;
  /** Runs that were found taken over by another worker. */
  readonly lost: number;
  /** Commits that were refused because another worker has the run by now. */
  readonly stale: number;
  readonly storeErrors: number;
  readonly lostAnswers: number;
  readonly clockShifts: number;
}

export const noCounts: LifeCounts = {
  claimed: 0,
  takenOver: 0,
  lost: 0,
  stale: 0,
  storeErrors: 0,
  lostAnswers: 0,
  clockShifts: 0,
};

export type Line =
  | { readonly say: "loaded" }
  | { readonly say: "serving"; readonly owner: string }
  /** A body of an effect begins, or is done with the outside. */
  | { readonly say: "in" | "out"; readonly what: string }
  /** It stops itself at this fault point. */
  | { readonly say: "frozen"; readonly point: string }
  | { readonly say: "thawed" }
  /** Its event loop stood still for so long that its lease may have ended. */
  | { readonly say: "stalled"; readonly ms: number }
  /** The answer to a question was acknowledged to it as the one that counts. */
  | { readonly say: "answered"; readonly wait: string; readonly value: string }
  | { readonly say: "counts"; readonly counts: LifeCounts }
  | { readonly say: "error"; readonly text: string }
  | { readonly say: "drained" };
