/** A user's transaction: body and operations commit together. */

import { setTimeout as wait } from "node:timers/promises";
import { type Commit, HoldfastError } from "holdfast";
import type { Connections } from "./connections.ts";
import type { PgClient } from "./driver.ts";
import { isConnectionLost, sqlState, storageError } from "./failure.ts";
import { JudgedCommit } from "./judged-commit.ts";

export interface Body<T> {
  readonly ops: Commit;
  readonly value: T;
}
export type TransactionBody<T> = (tx: unknown) => Body<T> | Promise<Body<T>>;

/** The savepoint around the body is gone at its end: the body has committed or rolled back itself. */
const NO_SAVEPOINT = ["3B001", "25P01"];

/**
 * Runs `body` with a connection inside a transaction, stores its operations, and commits. A commit whose answer is lost is
 * looked up; the body is never called again.
 */
export async function runTransaction<T>(
  connections: Connections,
  schema: string,
  body: TransactionBody<T>,
): Promise<T> {
  let transaction: string | undefined;
  let value: { readonly done: T } | undefined;
  let bodyError: { readonly error: unknown } | undefined;
  try {
    return await connections.lend(async (client) => {
      await client.query("begin");
      try {
        await client.query("savepoint holdfast_body");
        const answer = await callBody(client, body, (error) => {
          bodyError = { error };
        });
        await release(client);
        const judged = new JudgedCommit(connections, schema, [answer.ops]);
        await judged.inside(client);
        const verdict = judged.verdicts[0];
        if (verdict !== undefined) throw verdict;
        const { rows } = await client.query<{ id: string }>("select pg_current_xact_id()::text as id");
        value = { done: answer.value };
        transaction = rows[0]?.id;
      } catch (error) {
        await client.query("rollback").catch(() => {});
        throw error;
      }
      await client.query("commit");
      return value.done;
    });
  } catch (error) {
    if (bodyError !== undefined) throw bodyError.error;
    if (transaction === undefined || value === undefined || !isConnectionLost(error)) {
      throw storageError(connections.name, error);
    }
    if (await hasCommitted(connections, transaction)) return value.done;
    throw storageError(connections.name, error);
  }
}

async function callBody<T>(
  client: PgClient,
  body: TransactionBody<T>,
  failed: (error: unknown) => void,
): Promise<Body<T>> {
  try {
    return await body(client);
  } catch (error) {
    failed(error);
    throw error;
  }
}

async function release(client: PgClient): Promise<void> {
  try {
    await client.query("release savepoint holdfast_body");
  } catch (cause) {
    if (!NO_SAVEPOINT.includes(sqlState(cause) ?? "")) throw cause;
    throw new HoldfastError(
      "INVALID_ARGUMENT",
      "The body of a transaction ended the transaction itself (COMMIT or ROLLBACK). Leave that to holdfast. " +
        "What the body committed stays; nothing of holdfast's is stored.",
      { cause },
    );
  }
}

/** The server knows what became of a transaction whose answer was lost. */
async function hasCommitted(connections: Connections, transaction: string): Promise<boolean> {
  for (;;) {
    const rows = await connections.read<{ status: string | null }>("select pg_xact_status($1::xid8) as status", [
      transaction,
    ]);
    const status = rows[0]?.status;
    if (status !== "in progress") return status === "committed";
    await wait(20);
  }
}
