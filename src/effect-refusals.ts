/** Why an effect call does not run its body: its errors, and the pause that asks a person. */

import { GraphInterrupt } from "@langchain/langgraph";
import { effectKey, type EffectRecord, type StoredEffect } from "./effect-record.ts";
import { EffectMismatchError, ForkedEffectError, HoldfastError } from "./errors.ts";
import type { EffectRow, EffectStatus } from "./model.ts";

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

/** E2. `recorded` and `now`: the inputs as text. */
export function otherInput({ row, record }: StoredEffect, recorded: string, now: string, called: unknown) {
  const keyed = row.ordinal < 0;
  return new EffectMismatchError(
    `Effect ${JSON.stringify(row.name)} was recorded ${keyed ? "under the same key" : `in the same task (${row.task})`} with input ${recorded}, ` +
      `and is now called with ${now}. It was not run: that could do the same thing twice. ` +
      (keyed
        ? "Give different actions different keys. "
        : "Take ids, times and model texts in the input from state, so that they are the same when the node runs again, or give the effect a `key`. ") +
      `If the recorded call must not stand in the way, settle it: checkpointer.settle(${JSON.stringify(row.key)}, …).`,
    { details: { name: row.name, key: row.key, recorded: record.input, called } },
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
  return new ForkedEffectError(
    `Effect ${JSON.stringify(row.name)} ${leftBehindAs(row, record)}, outside this run's lineage (a branch that was left, or an attempt that was abandoned), ` +
      "and the lineage has no counterpart of it. Its policy for forks is `deny`, so it was not run. Ways out: give the effect a `key` that names the action; " +
      '`onFork: "reuse"` to take that outcome and be asked where the input differs, `onFork: "execute"` to run it once more on purpose; ' +
      `or continue the other branch. The key of what was left behind is ${row.key}.`,
    { details: leftDetails({ row, record }) },
  );
}

export function refusedAfterFork(
  { row, record }: StoredEffect,
  by: string,
  comment: string | undefined,
): ForkedEffectError {
  return new ForkedEffectError(
    `Effect ${JSON.stringify(row.name)} ${leftBehindAs(row, record)}, outside this run's lineage. ${by} refused to run it here` +
      `${comment === undefined ? "." : `: ${comment}`} The key of what was left behind is ${row.key}.`,
    { details: { ...leftDetails({ row, record }), by, comment } },
  );
}

function leftBehindAs(row: EffectRow, record: EffectRecord): string {
  const what =
    row.status === "done"
      ? `was done with the outcome ${textOf(record.value)}`
      : `is in state ${JSON.stringify(row.status)}`;
  return `with the input ${textOf(record.input)} ${what} at checkpoint ${row.checkpoint} of thread ${JSON.stringify(row.thread)}`;
}

function textOf(value: unknown): string {
  try {
    return clip(JSON.stringify(value) ?? String(value));
  } catch {
    return String(value);
  }
}

const leftDetails = ({ row, record }: StoredEffect) => ({
  key: row.key,
  name: row.name,
  checkpoint: row.checkpoint,
  status: row.status,
  input: record.input,
  value: record.value,
});

export function notSimulated(name: string, key: string): HoldfastError {
  return new HoldfastError(
    "NOT_SIMULATED",
    `Effect ${JSON.stringify(name)} (${key}) was called on a branch that runs nothing (its fork says "simulate"), and there is neither a \`simulate\` ` +
      "hook in its definition nor a recorded outcome outside the branch. Give the effect `simulate: (input) => outcome`, or fork with another policy.",
    { details: { name, key } },
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
