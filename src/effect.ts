/**
 * `effect`: a side effect that is recorded before and after it happens.
 *
 * - E1 The body never starts before the checkpoint it hangs on, those of the enclosing graphs, every earlier write of
 *   the run, and (except for `rerun`) the intent are durable.
 * - E2 A recorded outcome is returned and the body is not called again. A changed input is refused, not run.
 * - E3 An intent without outcome whose owner is gone is unknown, and `onUnknown` decides.
 * - E4 One body per key at a time; while an owner may be alive nobody runs it and a "no" of `verify` is not believed.
 * - E5 A refused run, or one whose signal is aborted, starts no effect.
 * - E6 A thrown error is recorded and rethrown; it counts as unknown for the next attempt, unless nothing happened.
 * - E7 What was done is not done again by leaving it behind, see fork-policy.ts.
 *
 * What no library can close: the process can die, or be cut off, after the outside world has acted and before the
 * outcome is durable. That window is what `onUnknown` is for; the idempotency key at the receiver closes it.
 */

import { EffectCall } from "./effect-call.ts";
import type { Outcome } from "./effect-ledger.ts";
import { HoldfastError } from "./errors.ts";
import { FORK_POLICIES, isOnFork, type OnFork } from "./fork-policy.ts";

export type { OnFork } from "./fork-policy.ts";

/** What a body, `verify` and the like are told. */
export interface EffectContext {
  /** 64 hex digits; the same for every attempt of this effect. Hand it to the receiver. */
  readonly idempotencyKey: string;
  /** Aborted when the run is, or after `timeoutMs`. */
  readonly signal: AbortSignal;
  /** 1 for the first call of the body, 2 for the next … */
  readonly attempt: number;
}

/** Anything with zod's `parse`; zod 3 and 4 schemas are such. */
export interface Schema<T> {
  parse(value: unknown): T;
}

export type OnUnknown = "verify" | "settle" | "rerun" | "fail";

export interface EffectDefinition<I, O> {
  /** Checked at every call, before anything is recorded. */
  readonly input: Schema<I>;
  /** Checked on what the body returned; a body whose value fails counts as failed. */
  readonly output?: Schema<O>;
  /** The body. May run again after a crash only as `onUnknown` says. */
  readonly run: (input: I, context: EffectContext) => Promise<O> | O;
  /** Default: `verify` where a hook is given, else `settle`. */
  readonly onUnknown?: OnUnknown;
  /** Did it happen? The outcome if so, undefined if not. Asked after a crash or an error. */
  readonly verify?: (input: I, context: EffectContext) => Promise<O | undefined> | O | undefined;
  /** Takes it back; kept for rollbacks. */
  readonly undo?: (value: O, context: EffectContext) => Promise<void> | void;
  /** A business identity that holds across threads and forks, for example the invoice number. */
  readonly key?: (input: I) => string;
  /** Whether an error says that nothing happened. Default: `nothingHappened`, see not-executed.ts. */
  readonly notExecuted?: (error: unknown) => boolean;
  /** After so many milliseconds the call fails with EFFECT_TIMEOUT; what the body did is then unknown. Default: none. */
  readonly timeoutMs?: number;
  /**
   * What happens where it was done, or begun, outside the current lineage: on a branch that was left, or in an attempt
   * that was abandoned. Default "reuse". What a fork says goes before this, except before "deny".
   */
  readonly onFork?: OnFork;
  /** The outcome on a branch that runs nothing. Default: what was recorded outside the branch. */
  readonly simulate?: (input: I, context: EffectContext) => Promise<O> | O;
}

export interface Effect<I, O> {
  /** Runs the effect, or returns its recorded outcome. */
  (input: I): Promise<O>;
  /** The same, and whether the body ran. */
  outcome(input: I): Promise<Outcome<O>>;
  readonly effectName: string;
  readonly definition: EffectDefinition<I, O>;
}

/**
 * Defines a side effect. Call it in nodes, tools, subgraphs, `Send` tasks, `entrypoint`/`task` and error handlers of
 * a graph that is compiled with a Holdfast checkpointer.
 *
 * Costs two commits per call (intent, outcome), one with `onUnknown: "rerun"`.
 *
 * Recorded calls are found again by thread, checkpoint, task, name, input and the ordinal among equal calls, so a node
 * that runs again gets the recorded outcomes; or by `key(input)` where it is given. Call effects with inputs that are
 * the same when the node runs again: no fresh ids, times or random numbers, unless they come from state.
 *
 * @throws EFFECT_OUTSIDE_GRAPH, FOREIGN_CHECKPOINTER, EFFECT_NOT_DURABLE (exit durability, `checkpointer: false`, a store that may forget),
 *   RUN_REFUSED, EFFECT_ABORTED, EffectMismatchError, ForkedEffectError, NOT_SIMULATED, EffectInDoubtError,
 *   EFFECT_UNKNOWN, EFFECT_GIVEN_UP, EFFECT_TIMEOUT, INVALID_ARGUMENT, and whatever the body throws
 */
export function effect<I, O>(name: string, definition: EffectDefinition<I, O>): Effect<I, O> {
  checkDefinition(name, definition as EffectDefinition<unknown, unknown>);
  const outcome = async (input: I): Promise<Outcome<O>> => {
    const call = EffectCall.here(name, definition as unknown as EffectDefinition<unknown, unknown>, input);
    return (await call.outcome()) as Outcome<O>;
  };
  const run = async (input: I): Promise<O> => (await outcome(input)).value;
  return Object.assign(run, { outcome, effectName: name, definition });
}

const UNKNOWN_POLICIES = ["verify", "settle", "rerun", "fail"];
const OPTIONS = [
  "input",
  "output",
  "run",
  "onUnknown",
  "verify",
  "undo",
  "key",
  "notExecuted",
  "timeoutMs",
  "onFork",
  "simulate",
];

function checkDefinition(name: string, definition: EffectDefinition<unknown, unknown>): void {
  const bad = (what: string) =>
    new HoldfastError("INVALID_ARGUMENT", `effect(${JSON.stringify(name)}): ${what}`, { details: { name } });
  if (typeof name !== "string" || name === "" || name.length > 200)
    throw bad("the name must be a string of 1 to 200 characters.");
  for (const option of Object.keys(definition)) {
    if (!OPTIONS.includes(option)) throw bad(`unknown option ${JSON.stringify(option)}. Known: ${OPTIONS.join(", ")}.`);
  }
  if (typeof definition.run !== "function") throw bad("`run` must be a function.");
  if (typeof definition.input?.parse !== "function")
    throw bad("`input` must be a schema with `parse`, for example z.object({ … }).");
  const { onUnknown, onFork, timeoutMs, verify } = definition;
  if (onUnknown !== undefined && !UNKNOWN_POLICIES.includes(onUnknown)) {
    throw bad(`onUnknown is ${JSON.stringify(onUnknown)}; use one of ${UNKNOWN_POLICIES.join(", ")}.`);
  }
  if (onUnknown === "verify" && verify === undefined)
    throw bad('onUnknown is "verify", but there is no `verify` hook.');
  if (onFork !== undefined && !isOnFork(onFork))
    throw bad(`onFork is ${JSON.stringify(onFork)}; use one of ${FORK_POLICIES.join(", ")}.`);
  if (timeoutMs !== undefined && !(timeoutMs > 0 && timeoutMs <= 2_147_483_647)) {
    throw bad(`timeoutMs is ${String(timeoutMs)}; use milliseconds from 1 to 2147483647.`);
  }
}
