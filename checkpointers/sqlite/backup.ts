/** A copy of an SQLite file by SQLite's own backup, page by page, while others write. */

import { rmSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { HoldfastError } from "holdfast";
import type { Backup, BackupOptions } from "../backup.ts";
import { openSqlite } from "../sqlite-driver.ts";
import { requireOurs } from "./foreign.ts";
import { readFormat } from "./schema.ts";
import { storageError } from "./failure.ts";

/** Pages between two turns of the event loop. */
const PAGES_PER_TURN = 500;

export async function backupSqlite(file: string, target: string, { onProgress }: BackupOptions): Promise<Backup> {
  const path = resolve(file);
  const db = open(path);
  try {
    if (!requireOurs(db, path)) throw cannotOpen(path, "It is an empty database.");
    // One state for the whole copy: without it SQLite begins anew whenever somebody writes between two turns.
    db.exec("begin");
    db.prepare("select count(*) from sqlite_schema").get();
    const pageBytes = Number(db.pragma("page_size", { simple: true }));
    await db.backup(target, {
      progress: ({ totalPages, remainingPages }) => {
        onProgress?.({ copied: (totalPages - remainingPages) * pageBytes, total: totalPages * pageBytes });
        return PAGES_PER_TURN;
      },
    });
    check(target);
    return { path: target, url: `sqlite:${target}`, bytes: statSync(target).size };
  } catch (error) {
    for (const suffix of ["", "-wal", "-shm", "-journal"]) rmSync(target + suffix, { force: true });
    throw error instanceof HoldfastError ? error : storageError(target, error);
  } finally {
    db.close();
  }
}

function open(path: string) {
  try {
    return openSqlite(path, { readonly: true, fileMustExist: true });
  } catch (error) {
    if (error instanceof HoldfastError) throw error;
    throw cannotOpen(path, (error as Error).message, error);
  }
}

/** Opened for writing, so that closing it removes the log again that a copy in WAL mode gets when it is opened. */
function check(target: string): void {
  const db = openSqlite(target, { fileMustExist: true });
  try {
    const found = db.pragma("integrity_check", { simple: true });
    if (found === "ok" && requireOurs(db, target) && readFormat(db).format > 0) return;
    throw new HoldfastError(
      "CORRUPT_DATA",
      `The copy ${target} does not pass SQLite's integrity check (${String(found)}) and was removed. Check the original: ` +
        "sqlite3 FILE 'pragma integrity_check'.",
      { details: { path: target, found } },
    );
  } finally {
    db.close();
  }
}

function cannotOpen(path: string, reason: string, cause?: unknown): HoldfastError {
  return new HoldfastError("CANNOT_OPEN", `${path} cannot be copied. ${reason}`, { cause, details: { path } });
}
