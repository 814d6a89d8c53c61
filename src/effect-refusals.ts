/** Why an effect call does not run its body: its errors, and the pause that asks a person. */

import { GraphInterrupt } from "@langchain/langgraph";
import { effectKey, type StoredEffect } from "./effect-record.ts";
import { ForkedEffectError, HoldfastError } from "./errors.ts";
import type { EffectStatus } from "./model.ts";

/** A value's text in a message. */
export function clip(text: string): string {
  return text.length > 300 ? `${text.slice(0, 300)}… (${text.length} characters)` : text;
}

export function callsItself(name: string, key: string): HoldfastError {
  return new HoldfastError(
    "INVALID_ARGUMENT",
    `Effect ${JSON.stringify(name)} was called with key ${key} inside its own body and would wait for itself. ` +
      "Call another effect there, or give the inner call another key.",
    { details: { name, key } },
  );
}

export function givenUp({ row, record }: StoredEffect): HoldfastError {
  const reason =
    record.decision !== undefined && "giveUp" in record.decision.decision ? record.decision.decision.giveUp : "";
  return new HoldfastError(
    "EFFECT_GIVEN_UP",
    `Effect ${row.name} (${row.key}) was given up by ${record.decision?.by ?? "somebody"}: ${reason}`,
    {
      details: { key: row.key, name: row.name, by: record.decision?.by, reason },
    },
  );
}

export function unknownOutcome({ row, record }: StoredEffect): HoldfastError {
  return new HoldfastError(
    "EFFECT_UNKNOWN",
    `Effect ${row.name} (${row.key}) was begun at ${record.begunAt.toISOString()} (attempt ${row.attempt}) and its outcome is not known; ` +
      'onUnknown is "fail". Find out what happened and settle it: checkpointer.settle(key, { done: value } | { notDone: true }, { by }).',
    { cause: record.error, details: { key: row.key, name: row.name, attempt: row.attempt } },
  );
}

export function timedOut(name: string, key: string, timeoutMs: number): HoldfastError {
  return new HoldfastError(
    "EFFECT_TIMEOUT",
    `Effect ${name} (${key}) did not finish within ${timeoutMs} ms; what it did is not known.`,
    {
      details: { name, key, timeoutMs },
    },
  );
}

export function forked({ row, record }: StoredEffect): ForkedEffectError {
  const what =
    row.status === "done"
      ? `has the outcome ${clip(JSON.stringify(record.value) ?? "undefined")}`
      : `is in state ${JSON.stringify(row.status)}`;
  return new ForkedEffectError(
    `Effect ${JSON.stringify(row.name)} with the same input was begun at checkpoint ${row.checkpoint} of thread ${JSON.stringify(row.thread)}, which is not part of ` +
      `this run's lineage (a branch that was left, or an attempt that was abandoned), and ${what}. It was not run again. Ways out: give the effect ` +
      'a `key` that names the action; `onFork: "reuse"` to take that outcome, or `onFork: "execute"` to run it once more on purpose; ' +
      `or continue the other branch. Its key is ${row.key}.`,
    { details: { key: row.key, name: row.name, checkpoint: row.checkpoint, status: row.status, value: record.value } },
  );
}

/** What a paused effect shows in `state.tasks[].interrupts`; its id is ours, 32 hex digits, one per attempt. */
export interface SettleRequest {
  readonly type: "settle";
  readonly effect: string;
  readonly key: string;
  readonly input: unknown;
  readonly attempt: number;
  /** "intent": no outcome was recorded; "failed": the body threw. */
  readonly status: EffectStatus;
  readonly error: { readonly name: string; readonly message: string } | null;
  readonly begunAt: string;
  readonly question: string;
}

/** Id of the question whether an effect's last attempt happened: 32 hex digits, one per attempt. */
export function settleId(row: { readonly key: string; readonly attempt: number }): string {
  return effectKey(["settle", row.key, row.attempt]).slice(0, 32);
}

export function settleInterrupt({ row, record }: StoredEffect): GraphInterrupt {
  const { error } = record;
  const value: SettleRequest = {
    type: "settle",
    effect: row.name,
    key: row.key,
    input: record.input,
    attempt: row.attempt,
    status: row.status,
    error:
      error instanceof Error
        ? { name: error.name, message: error.message }
        : error === undefined
          ? null
          : { name: "Error", message: String(error) },
    begunAt: record.begunAt.toISOString(),
    question: `Did effect ${row.name} happen? Decide with checkpointer.settle(key, { done: value } | { notDone: true } | { giveUp: reason }, { by }).`,
  };
  return new GraphInterrupt([{ id: settleId(row), value }]);
}
