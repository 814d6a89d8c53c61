/** better-sqlite3, an optional peer: loaded when it is first needed, with one error that says what to do. */

import { createRequire } from "node:module";
import type Database from "better-sqlite3";
import { HoldfastError } from "holdfast";

export type SqliteDatabase = Database.Database;
export type SqliteOptions = Database.Options;

/**
 * Opens a database file, or a copy in memory of the bytes of one.
 *
 * @throws {HoldfastError} DRIVER_MISSING where better-sqlite3 or its compiled part cannot be loaded. Errors of the
 * database itself (`SQLITE_…`) are thrown as they are.
 */
export function openSqlite(path: string | Buffer, options: SqliteOptions = {}): SqliteDatabase {
  try {
    // The compiled part is loaded by the first constructor call, not by `require`.
    const Driver = createRequire(import.meta.url)("better-sqlite3") as typeof Database;
    return new Driver(path, options);
  } catch (error) {
    if (isLoadFailure(error)) throw driverMissing(error);
    throw error;
  }
}

function isLoadFailure(error: unknown): error is Error {
  const code = (error as { code?: unknown }).code;
  return (
    code === "MODULE_NOT_FOUND" ||
    code === "ERR_DLOPEN_FAILED" ||
    (error instanceof Error && error.message.startsWith("Could not locate the bindings file"))
  );
}

function driverMissing(cause: Error): HoldfastError {
  const absent = (cause as { code?: unknown }).code === "MODULE_NOT_FOUND";
  return new HoldfastError(
    "DRIVER_MISSING",
    absent
      ? "The package better-sqlite3 is not installed. Holdfast needs it for SQLite, and for the lock of a JSONL directory: " +
          "npm install better-sqlite3"
      : "The package better-sqlite3 is installed, but its compiled part cannot be loaded by this version of Node " +
          `(${process.version}, ${process.platform} ${process.arch}): npm rebuild better-sqlite3`,
    { cause },
  );
}
