/**
 * `transaction`: a side effect inside the backend's own database. Body and outcome commit in one database transaction,
 * so there is no instant at which one is there without the other: once, with no window (E8). SQLite and Postgres.
 */

import type { EffectDefinition, OnFork, Schema } from "./effect.ts";
import { EffectCall } from "./effect-call.ts";
import type { Outcome } from "./effect-ledger.ts";
import { effectBody, effectOps } from "./effect-record.ts";
import { assertMayStart } from "./effect-site.ts";
import { HoldfastError } from "./errors.ts";

export interface TransactionDefinition<I, O, Tx> {
  readonly input: Schema<I>;
  readonly output?: Schema<O>;
  /**
   * Runs inside the transaction. What it throws rolls everything back.
   * - SQLite: `tx` is the better-sqlite3 `Database` of the checkpointer's file. Synchronous: a returned promise is refused
   *   and rolled back.
   * - Postgres: `tx` is a connection of pg (`tx.query(…)`), for this transaction only; a promise is awaited.
   */
  readonly run: (tx: Tx, input: I) => O | Promise<O>;
  readonly key?: (input: I) => string;
  readonly onFork?: OnFork;
  /** The outcome on a branch that runs nothing. */
  readonly simulate?: (input: I) => O;
}

export interface Transaction<I, O> {
  (input: I): Promise<O>;
  outcome(input: I): Promise<Outcome<O>>;
}

/**
 * Defines an effect on the checkpointer's own database. The same rules as for `effect`, but its outcome is never unknown.
 *
 * @throws NOT_SUPPORTED where the backend has no transactions (memory, jsonl); otherwise as `effect`
 */
export function transaction<I, O, Tx = unknown>(
  name: string,
  definition: TransactionDefinition<I, O, Tx>,
): Transaction<I, O> {
  const { input, output, key, onFork, simulate } = definition;
  const asEffect: EffectDefinition<unknown, unknown> = {
    input,
    run: () => undefined,
    ...(key === undefined ? {} : { key: key as (input: unknown) => string }),
    ...(onFork === undefined ? {} : { onFork }),
    ...(simulate === undefined ? {} : { simulate: simulate as (input: unknown) => unknown }),
  };
  const outcome = async (value: I): Promise<Outcome<O>> => {
    const call = EffectCall.here(name, asEffect, value);
    const body = (tx: unknown) => {
      const result = definition.run(tx as Tx, call.input as I);
      return isPromise(result) ? result.then((value) => checked(output, value as O)) : checked(output, result);
    };
    const done = await call.shared(() => execute(call, body));
    return done as Outcome<O>;
  };
  return Object.assign(async (value: I) => (await outcome(value)).value, { outcome });
}

async function execute(call: EffectCall, body: (tx: unknown) => unknown): Promise<Outcome> {
  const { saver, thread } = call.site;
  const { backend } = saver;
  if (backend.transaction === undefined) {
    throw new HoldfastError(
      "NOT_SUPPORTED",
      `Transaction ${JSON.stringify(call.name)}: ${backend.name} has no database transactions. Use SQLite or Postgres, or an effect.`,
    );
  }
  const found = await call.recorded();
  if ("outcome" in found) return found.outcome;
  assertMayStart(call.site);
  const attempt = (found.before?.row.attempt ?? 0) + 1;
  const begunAt = Date.now();
  const value = await backend.transaction((tx) => {
    const recorded = (result: unknown) => {
      const tree = call.tree(result, "the outcome");
      const text = effectBody(saver.effectLedger.serde, call.content(begunAt, { value: tree }), call.blobs);
      const row = { ...call.row("done", attempt), rev: (found.before?.row.rev ?? 0) + 1, body: text };
      const ops = effectOps(row, thread.era, found.before?.row.rev ?? null, call.blobs);
      return { ops: thread.fence === undefined ? ops : [thread.fence, ...ops], value: result };
    };
    const result = body(tx);
    return isPromise(result) ? result.then(recorded) : recorded(result);
  });
  // The backend has written this row itself, past the ledger that journals the others.
  if (saver.journal !== undefined) {
    const stored = await saver.effectLedger.findKey(call.key);
    if (stored !== undefined) await saver.journal.effect(stored.record);
  }
  return call.fresh(value);
}

function isPromise(value: unknown): value is Promise<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}

function checked<O>(output: Schema<O> | undefined, value: O): O {
  return output === undefined ? value : output.parse(value);
}
