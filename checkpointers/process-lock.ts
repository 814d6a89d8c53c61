/**
 * A lock that dies with its process.
 *
 * The holder keeps an exclusive SQLite transaction open on a small file of its own. That is a POSIX lock: the
 * operating system releases it when the process ends in whatever way, SIGKILL included, and keeps it while the process
 * is stopped. A file with a process id in it has neither property: ids are used again, and nobody removes the file.
 *
 * Two things to know about POSIX locks. They hold on one machine and its local disks, not reliably on network disks.
 * And a process that opens the lock file by other means than SQLite and closes it again loses its own lock: nobody
 * may read, copy or delete the lock file from inside the holder, and nobody at all may delete it while it is held.
 */

import { existsSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { HoldfastError } from "holdfast";
import { openSqlite, type SqliteDatabase } from "./sqlite-driver.ts";

export interface ProcessLock {
  /** Gives the lock up; the file stays. Idempotent. */
  release(): void;
}

/** Two processes that try at the same moment may both fail; so each tries a few times, at uneven intervals. */
const attempts = 10;
const pauseMsMax = 20;

/**
 * Takes the lock at `path`, creating the file; `undefined` where somebody else has it, also in this process. Waits for
 * at most a quarter of a second.
 *
 * @throws {HoldfastError} CANNOT_OPEN, DRIVER_MISSING
 */
export async function acquireLock(path: string): Promise<ProcessLock | undefined> {
  for (let attempt = 1; ; attempt++) {
    const lock = tryLock(path);
    if (lock !== undefined || attempt === attempts) return lock;
    await wait(1 + Math.random() * pauseMsMax);
  }
}

/**
 * Whether somebody has the lock at `path`. Where there is no file nobody has. Takes no lock that another caller of this
 * function would notice.
 *
 * @throws {HoldfastError} CANNOT_OPEN where it cannot be told, DRIVER_MISSING
 */
export function lockHeld(path: string): boolean {
  if (!existsSync(path)) return false;
  // A read needs a shared lock: refused while the exclusive one is held, and shared with others that ask.
  const result = attemptOn(path, { readonly: true, fileMustExist: true }, (db) => {
    db.prepare("SELECT count(*) FROM sqlite_schema").get();
  });
  result?.close();
  return result === undefined;
}

function tryLock(path: string): ProcessLock | undefined {
  const db = attemptOn(path, {}, (db) => {
    // Nothing is ever written: without this SQLite would put a journal file beside the lock.
    db.pragma("journal_mode = MEMORY");
    db.exec("BEGIN EXCLUSIVE");
  });
  return db === undefined ? undefined : { release: () => void db.close() };
}

/** An open database on which `use` has succeeded; `undefined` where another connection's lock forbids it. */
function attemptOn(
  path: string,
  options: { readonly readonly?: boolean; readonly fileMustExist?: boolean },
  use: (db: SqliteDatabase) => void,
): SqliteDatabase | undefined {
  let db: SqliteDatabase | undefined;
  try {
    db = openSqlite(path, { ...options, timeout: 0 });
    use(db);
    return db;
  } catch (error) {
    db?.close();
    const code = String((error as { code?: unknown }).code);
    if (code.startsWith("SQLITE_BUSY")) return undefined;
    if (error instanceof HoldfastError) throw error;
    throw new HoldfastError(
      "CANNOT_OPEN",
      `The lock file ${path} cannot be used (${error instanceof Error ? error.message : String(error)}). ` +
        "Its directory must exist and be writable, and the file must not be used for anything else.",
      { cause: error, details: { path } },
    );
  }
}
