/** What Postgres and its connections say, in the words of the contract. */

import { type ErrorCode, HoldfastError, isHoldfastError } from "holdfast";

/** An assumption of a plan does not hold; nothing was stored. */
export const ASSUMPTION_FAILED = "HF001";
/** The owner has given the group up before it arrived; nothing was stored. */
export const GIVEN_UP = "HF002";
/** All statements of the transaction see one snapshot, by a setting of the role or the database; nothing was stored. */
export const ONE_SNAPSHOT = "HF003";

/** Begins a transaction each of whose statements sees what was committed before it, whatever the role's setting is. */
export const BEGIN = "begin isolation level read committed";

/** The five letters of an error that the server has reported. */
export function sqlState(error: unknown): string | undefined {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) && !code.startsWith("E") ? code : undefined;
}

/**
 * Whether the connection is gone, and with it the answer: errors of the network and of pg, and the server's own when it
 * shuts down, is not up yet, has too many clients or ends a session.
 */
export function isConnectionLost(error: unknown): boolean {
  if (!(error instanceof Error) || isHoldfastError(error)) return false;
  const state = sqlState(error);
  if (state !== undefined) {
    return state.startsWith("08") || state.startsWith("57P") || state === "53300" || state === "25P03";
  }
  const { code } = error as { code?: unknown };
  if (typeof code === "string") return /^(?:E[A-Z]+)$/.test(code);
  return /connection|timeout|terminated|not queryable|socket/i.test(error.message);
}

/** The server has undone it and says that the same may succeed at once: a deadlock or a conflict of snapshots. */
export function isTransient(error: unknown): boolean {
  const state = sqlState(error);
  return state === "40001" || state === "40P01";
}

/** So often commits that meet in an effect or wait are judged anew: each attempt lets somebody through. */
export const CONFLICTS_MAX = 20;

/** Two transactions have met in a row that neither had seen; judged anew, one of them goes after the other. */
export function isConflict(error: unknown): boolean {
  const state = sqlState(error);
  return state === ASSUMPTION_FAILED || state === "23505";
}

/** An index entry would be too large: an id, or several of one row, are longer than Postgres can look up. */
export function isEntryTooLarge(error: unknown): boolean {
  if (sqlState(error) !== "54000") return false;
  // The same code stands for other limits. Messages may be translated; the server's file is not.
  const { file } = error as { file?: unknown };
  return typeof file !== "string" || /^(?:indextuple|nbt\w*)\.c$/.test(file);
}

export function idTooLong(name: string): HoldfastError {
  return new HoldfastError(
    "INVALID_ID",
    `${name}: an id, or the ids of one row together, are too long for an index of Postgres (about 2,700 bytes). Use shorter ids.`,
    { details: { name } },
  );
}

/** An error of the library for anything that a statement throws. */
export function storageError(name: string, cause: unknown): HoldfastError {
  if (isHoldfastError(cause)) return cause;
  const state = sqlState(cause);
  const message = cause instanceof Error ? cause.message : String(cause);
  const code: ErrorCode = state === "XX001" || state === "XX002" ? "CORRUPT_DATA" : "STORAGE_FAILED";
  return new HoldfastError(code, `${name} failed: ${message} (${state ?? "no SQLSTATE"}). ${remedy(state, cause)}`, {
    cause,
    details: { name, sqlState: state },
  });
}

function remedy(state: string | undefined, cause: unknown): string {
  if (isConnectionLost(cause)) return "The server cannot be reached. What was acknowledged before is kept.";
  if (state === undefined) return "This is not Postgres' error.";
  if (state.startsWith("53"))
    return "The server has run out of disk, memory or connections. Nothing of this was stored.";
  if (state === "42501") return "The role lacks a right: see docs/postgres.md for those that are needed.";
  if (state === "25006") return "The server takes no writes: is it a replica?";
  if (state === "42P01" || state === "42883" || state === "42703") {
    return "A table, column or function of Holdfast is missing: was the schema changed by hand? Restore a backup.";
  }
  return "The transaction was rolled back.";
}

/** @throws {HoldfastError} what a row says that no code of ours has written */
export function corrupt(name: string, what: string): HoldfastError {
  return new HoldfastError("CORRUPT_DATA", `${name}: ${what}. Restore a backup.`, { details: { name } });
}
