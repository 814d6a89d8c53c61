/** Calls a user's transaction body and sees to it that the transaction is still the same one when it has returned. */

import { HoldfastError, type TransactionAnswer } from "holdfast";
import type { SqliteDatabase } from "../sqlite-driver.ts";

export type TransactionBody<T> = (tx: unknown) => TransactionAnswer<T>;

/** @throws What `body` throws; INVALID_ARGUMENT where it is asynchronous or ends the transaction. */
export function callBody<T>(db: SqliteDatabase, body: TransactionBody<T>): TransactionAnswer<T> {
  // Gone at the end if the body has committed or rolled back, even if it has begun another transaction since.
  db.exec("savepoint holdfast_body");
  const answer = body(db);
  refusePromise(answer);
  refusePromise(answer.value);
  if (!db.inTransaction) throw endedByBody();
  try {
    db.exec("release holdfast_body");
  } catch (cause) {
    throw endedByBody(cause);
  }
  return answer;
}

function refusePromise(value: unknown): void {
  if (typeof (value as { then?: unknown } | null | undefined)?.then !== "function") return;
  // It is not awaited: what it rejects with later must not end the process.
  Promise.resolve(value).catch(() => {});
  throw new HoldfastError(
    "INVALID_ARGUMENT",
    "The body of a transaction on SQLite returned a promise. It must be synchronous: the transaction ends when it returns. It was rolled back.",
  );
}

function endedByBody(cause?: unknown): HoldfastError {
  return new HoldfastError(
    "INVALID_ARGUMENT",
    "The body of a transaction ended the transaction itself (COMMIT, ROLLBACK or a close). Leave that to holdfast. " +
      "What the body committed stays; nothing of holdfast's is stored.",
    { cause },
  );
}
