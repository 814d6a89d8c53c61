/** A user's transaction: body and operations commit together. */

import { setTimeout as wait } from "node:timers/promises";
import { HoldfastError, type TransactionAnswer } from "holdfast";
import type { Connections } from "./connections.ts";
import type { PgClient } from "./driver.ts";
import {
  BEGIN,
  CONFLICTS_MAX,
  idTooLong,
  isConflict,
  isConnectionLost,
  isEntryTooLarge,
  sqlState,
  storageError,
} from "./failure.ts";
import { JudgedCommit } from "./judged-commit.ts";

export type TransactionBody<T> = (tx: unknown) => TransactionAnswer<T> | Promise<TransactionAnswer<T>>;

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
      await client.query(BEGIN);
      try {
        await client.query("savepoint holdfast_body");
        const answer = await callBody(client, body, (error) => {
          bodyError = { error };
        });
        await release(client);
        const judged = new JudgedCommit(connections, schema, [answer.ops]);
        await judgeAndStore(client, judged, connections.name);
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
    if (await hasCommitted(connections, transaction, error)) return value.done;
    throw storageError(connections.name, error);
  }
}

async function callBody<T>(
  client: PgClient,
  body: TransactionBody<T>,
  failed: (error: unknown) => void,
): Promise<TransactionAnswer<T>> {
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

/** Judges anew where another commit has stored something in between; what the body has done stays. */
async function judgeAndStore(client: PgClient, judged: JudgedCommit, name: string): Promise<void> {
  for (let conflicts = 1; ; conflicts++) {
    await client.query("savepoint holdfast_ops");
    try {
      await judged.inside(client);
      return;
    } catch (error) {
      if (isEntryTooLarge(error)) throw idTooLong(name);
      if (!isConflict(error) || conflicts >= CONFLICTS_MAX) throw error;
      await client.query("rollback to savepoint holdfast_ops");
    }
  }
}

/** The server knows what became of a transaction whose answer was lost. */
async function hasCommitted(connections: Connections, transaction: string, lost: unknown): Promise<boolean> {
  const giveUpAt = performance.now() + connections.retryForMs;
  for (;;) {
    // Also while the backend is being closed: that waits for the transactions under way.
    const { rows } = await connections.retrying(() =>
      connections.once<{ status: string | null }>("select pg_xact_status($1::xid8) as status", [transaction]),
    );
    const status = rows[0]?.status;
    if (status !== "in progress") return status === "committed";
    if (performance.now() >= giveUpAt) {
      // A server that has not noticed that the connection is gone waits on; what it then gets is no COMMIT.
      throw new HoldfastError(
        "STORAGE_FAILED",
        `${connections.name} lost the answer to a transaction's COMMIT, and the server still has the transaction open. ` +
          "Read the thread's state before anything is repeated.",
        { cause: lost },
      );
    }
    await wait(20);
  }
}
