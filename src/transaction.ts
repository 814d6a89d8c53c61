/**
 * `transaction`: a side effect inside the backend's own database. Body and outcome commit in one database transaction,
 * so there is no instant at which one is there without the other: once, with no window (E8). SQLite only so far.
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
   * Runs inside the transaction, synchronously. On SQLite `tx` is the better-sqlite3 `Database` of the checkpointer's
   * file. What it throws rolls everything back; a returned promise is refused and rolled back.
   */
  readonly run: (tx: Tx, input: I) => O;
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
    const done = await call.shared(() =>
      execute(call, (tx) => checked(output, definition.run(tx as Tx, call.input as I))),
    );
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
      `Transaction ${JSON.stringify(call.name)}: ${backend.name} has no database transactions. Use SQLite, or an effect.`,
    );
  }
  const found = await call.recorded();
  if ("outcome" in found) return found.outcome;
  assertMayStart(call.site);
  const attempt = (found.before?.row.attempt ?? 0) + 1;
  const begunAt = Date.now();
  const value = await backend.transaction((tx) => {
    const result = body(tx);
    if (typeof (result as { then?: unknown } | null | undefined)?.then === "function") {
      throw new HoldfastError(
        "INVALID_ARGUMENT",
        `Transaction ${JSON.stringify(call.name)}: \`run\` returned a promise; it must be synchronous. Everything was rolled back.`,
      );
    }
    const tree = call.tree(result, "the outcome");
    const text = effectBody(saver.effectLedger.serde, call.content(begunAt, { value: tree }), call.blobs);
    const row = { ...call.row("done", attempt), rev: (found.before?.row.rev ?? 0) + 1, body: text };
    return { ops: effectOps(row, thread.era, found.before?.row.rev ?? null, call.blobs), value: result };
  });
  // The backend has written this row itself, past the ledger that journals the others.
  if (saver.journal !== undefined) {
    const stored = await saver.effectLedger.findKey(call.key);
    if (stored !== undefined) await saver.journal.effect(stored.record);
  }
  return call.fresh(value);
}

function checked<O>(output: Schema<O> | undefined, value: O): O {
  return output === undefined ? value : output.parse(value);
}
