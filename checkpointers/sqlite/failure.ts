/** What SQLite says, in the words of the contract. */

import { type ErrorCode, HoldfastError, isHoldfastError } from "holdfast";

/** The result code of an SQLite error, for example `SQLITE_BUSY_RECOVERY`. */
export function sqliteCode(error: unknown): string | undefined {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return typeof code === "string" && code.startsWith("SQLITE_") ? code : undefined;
}

/** Whether another connection stands in the way, so that waiting helps. */
export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error);
  return code !== undefined && (code.startsWith("SQLITE_BUSY") || code === "SQLITE_PROTOCOL");
}

export function busyError(name: string, busyTimeoutMs: number, cause: unknown): HoldfastError {
  return new HoldfastError(
    "BUSY",
    `${name} was locked by another connection for the whole of busyTimeoutMs (${busyTimeoutMs} ms); nothing was done. ` +
      "End what holds a write transaction open, or raise busyTimeoutMs.",
    { cause, details: { name, busyTimeoutMs } },
  );
}

/** An error of the library for anything that a statement throws. */
export function storageError(name: string, cause: unknown): HoldfastError {
  if (isHoldfastError(cause)) return cause;
  const sqlite = sqliteCode(cause);
  const message = cause instanceof Error ? cause.message : String(cause);
  const damaged = sqlite !== undefined && (sqlite.startsWith("SQLITE_CORRUPT") || sqlite === "SQLITE_NOTADB");
  const code: ErrorCode = damaged ? "CORRUPT_DATA" : "STORAGE_FAILED";
  const advice = damaged
    ? "The file is damaged: restore a backup, or save what is readable with `sqlite3 FILE .recover`."
    : `${remedy(sqlite)} What was acknowledged before is kept.`;
  return new HoldfastError(code, `${name} failed: ${message} (${sqlite ?? "no SQLite code"}). ${advice}`, {
    cause,
    details: { name, sqlite },
  });
}

function remedy(code: string | undefined): string {
  if (code === undefined) return "This is not SQLite's error.";
  if (code.startsWith("SQLITE_FULL")) return "The disk is full: make space and try again.";
  if (code.startsWith("SQLITE_READONLY")) return "The file or its directory cannot be written any more.";
  if (code.startsWith("SQLITE_IOERR")) return "Reading or writing the disk failed.";
  return "The operation was rolled back.";
}
