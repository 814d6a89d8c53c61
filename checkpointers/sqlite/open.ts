/**
 * Opens a database file, or says why not.
 *
 * The tables are made with a rollback journal, before the file is switched to WAL: so the main file of a database of
 * ours always bears our mark, also while everything else is still in the log.
 */

import { accessSync, constants, realpathSync, type Stats, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { HoldfastError } from "holdfast";
import { openSqlite, type SqliteDatabase } from "../sqlite-driver.ts";
import { isBusy, sqliteCode, storageError } from "./failure.ts";
import type { CheckedOptions } from "./options.ts";
import { foreign, refuseForeign, requireOurs } from "./foreign.ts";
import { FORMAT, migrate, readFormat } from "./schema.ts";
import { untilFree } from "./turns.ts";

export interface Opened {
  readonly db: SqliteDatabase;
  /** The one path of the file, links resolved: every process finds the lock files beside it. */
  readonly path: string;
}

/** @throws {HoldfastError} CANNOT_OPEN, FOREIGN_DATABASE, UNSUPPORTED_FORMAT, BUSY, DRIVER_MISSING and more. */
export async function openDatabase(file: string, options: CheckedOptions): Promise<Opened> {
  const path = resolve(file);
  const { readonly, busyTimeoutMs } = options;
  let db: SqliteDatabase | undefined;
  try {
    if (hasContent(path, readonly)) await untilFree(path, busyTimeoutMs, () => refuseForeign(path));
    const opened = openSqlite(path, { readonly, timeout: 0 });
    db = opened;
    // Everything that looks into the file may find it locked, this pragma too: it reads the schema.
    await untilFree(path, busyTimeoutMs, () => opened.pragma(`synchronous = ${options.synchronous}`));
    // What a deletion frees is overwritten: nothing of a deleted thread stays readable in unused pages.
    opened.pragma("secure_delete = on");
    await untilFree(path, busyTimeoutMs, () => prepareTables(opened, path, readonly));
    await untilFree(path, busyTimeoutMs, () => useWal(opened, path, readonly));
    return { db, path: realpathSync(path) };
  } catch (error) {
    db?.close();
    throw openError(path, error);
  }
}

/** Whether there is a file with anything in it. Refuses what can be no database file, and what cannot be written. */
function hasContent(path: string, readonly: boolean): boolean {
  const directory = dirname(path);
  const stats = statOf(path);
  if (stats === undefined) {
    if (readonly) throw cannotOpen(path, "There is no such file, and the option readonly creates none.");
    const parent = statOf(directory);
    if (parent === undefined) throw cannotOpen(path, `The directory ${directory} does not exist. Create it first.`);
    if (!parent.isDirectory()) throw cannotOpen(path, `${directory} is not a directory.`);
  } else if (stats.isDirectory()) {
    throw cannotOpen(path, "It is a directory. Name a file in it.");
  } else if (!stats.isFile()) {
    throw cannotOpen(path, "It is not a regular file.");
  }
  if (!readonly) {
    if (stats !== undefined) requireWritable(path, path, "The file");
    requireWritable(path, directory, "Its directory (SQLite keeps the log there)");
  }
  return stats !== undefined && stats.size > 0;
}

function statOf(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw cannotOpen(path, (error as Error).message, error);
  }
}

function requireWritable(path: string, target: string, what: string): void {
  try {
    accessSync(target, constants.W_OK);
  } catch (error) {
    throw cannotOpen(
      path,
      `${what} cannot be written. Change its permissions, or only read with { readonly: true }.`,
      error,
    );
  }
}

/** Makes the tables, or brings them up to date, or refuses the file. Throws SQLITE_BUSY without having done anything. */
function prepareTables(db: SqliteDatabase, path: string, readonly: boolean): void {
  const isOurs = requireOurs(db, path);
  if (isOurs && !requireSupported(db, path, readonly)) {
    if (!readonly) requireWriteAccess(db);
    return;
  }
  if (readonly) throw cannotOpen(path, "The file is empty, and the option readonly creates nothing.");
  if (!isOurs && db.pragma("journal_mode", { simple: true }) !== "delete") db.pragma("journal_mode = delete");
  db.exec(isOurs ? "begin immediate" : "begin exclusive");
  try {
    // Asked again: somebody else may have done it before this transaction began.
    if (!requireOurs(db, path)) migrate(db, 0);
    else if (requireSupported(db, path, readonly)) migrate(db, readFormat(db).format);
    db.exec("commit");
  } finally {
    if (db.inTransaction) db.exec("rollback");
  }
}

/** Whether migrations are missing. Refuses a format that this code does not know. */
function requireSupported(db: SqliteDatabase, path: string, readonly: boolean): boolean {
  const { format, needs } = readFormat(db);
  const details = { path, format, needs, supported: FORMAT };
  if (needs > FORMAT) {
    throw new HoldfastError(
      "UNSUPPORTED_FORMAT",
      `${path} has format ${format} and needs a version of holdfast that knows format ${needs}; this one knows ${FORMAT}. ` +
        "Update holdfast. Nothing was changed.",
      { details },
    );
  }
  if (readonly && format < FORMAT) {
    throw new HoldfastError(
      "UNSUPPORTED_FORMAT",
      `${path} has format ${format}, but this version of holdfast reads format ${FORMAT}. Open it once without readonly: that brings it up to date.`,
      { details },
    );
  }
  return format < FORMAT;
}

/** SQLite opens a file that it may not write for reading, and says so at the first write only. */
function requireWriteAccess(db: SqliteDatabase): void {
  try {
    db.exec("delete from holdfast_meta where false");
  } catch (error) {
    // Somebody is writing: then so may we, later.
    if (!isBusy(error)) throw error;
  }
}

function useWal(db: SqliteDatabase, path: string, readonly: boolean): void {
  const mode = () => db.pragma("journal_mode", { simple: true });
  if (mode() === "wal" || readonly) return;
  const got = db.pragma("journal_mode = wal", { simple: true });
  if (got === "wal") return;
  throw cannotOpen(
    path,
    `SQLite keeps no write-ahead log there (journal mode ${String(got)}). Use a local disk, not a network one.`,
  );
}

function openError(path: string, error: unknown): HoldfastError {
  const code = sqliteCode(error);
  if (code === "SQLITE_NOTADB") return foreign(path, "no SQLite database", error);
  if (code !== undefined && /^SQLITE_(?:CANTOPEN|READONLY|PERM|AUTH|IOERR_SHM|IOERR_LOCK)/.test(code)) {
    return cannotOpen(path, (error as Error).message, error);
  }
  return storageError(path, error);
}

function cannotOpen(path: string, reason: string, cause?: unknown): HoldfastError {
  return new HoldfastError("CANNOT_OPEN", `${path} cannot be opened. ${reason}`, { cause, details: { path } });
}
