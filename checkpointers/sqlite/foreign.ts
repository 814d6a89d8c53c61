/**
 * Finds out what a file is without changing a byte of it, nor any file beside it: opening a database in WAL mode would
 * leave a log and an index file there, and closing it might write back the log of the program it belongs to.
 *
 * So the header is read from the file itself. That has a trap: when a process closes any descriptor of a file, it loses
 * all POSIX locks it has on the file, those of its SQLite connections too. Where this process has the file open already,
 * SQLite is asked instead: then the files beside it are there anyway.
 */

import { closeSync, fstatSync, openSync, readdirSync, readSync, statSync } from "node:fs";
import { HoldfastError } from "holdfast";
import { openSqlite, type SqliteDatabase } from "../sqlite-driver.ts";
import { APPLICATION_ID } from "./schema.ts";

const MAGIC = "SQLite format 3\0";
const HEADER_LENGTH = 100;
/** The names of the tables stand at the beginning of a file; more is not read for the sake of a message. */
const START_LENGTH = 2 ** 20;

/** Refuses a file that has content and does not bear our mark. Throws SQLITE_BUSY where it cannot be told now. */
export function refuseForeign(path: string): void {
  if (isOpenHere(path)) {
    const db = openSqlite(path, { readonly: true, timeout: 0 });
    try {
      requireOurs(db, path);
    } finally {
      db.close();
    }
    return;
  }
  const file = openSync(path, "r");
  try {
    const header = readStart(file, HEADER_LENGTH);
    if (header.toString("latin1", 0, MAGIC.length) !== MAGIC) throw foreign(path, "no SQLite database");
    if (header.readUInt32BE(68) === APPLICATION_ID) return;
    const names = namesInStart(readStart(file, START_LENGTH));
    if (names === undefined || names.length > 0) throw foreign(path, contentsOf(names ?? []));
    if (hasLog(path)) throw foreign(path, "a database of another program, which has its contents in the log beside it");
  } finally {
    closeSync(file);
  }
}

/** Whether the file has our tables. Refuses what another program has put there; an empty database is nobody's. */
export function requireOurs(db: SqliteDatabase, path: string): boolean {
  if (db.pragma("application_id", { simple: true }) === APPLICATION_ID) return true;
  const names = namesIn(db);
  if (names.length > 0) throw foreign(path, contentsOf(names));
  return false;
}

export function foreign(path: string, found: string, cause?: unknown): HoldfastError {
  return new HoldfastError(
    "FOREIGN_DATABASE",
    `${path} is ${found}. Holdfast writes only into files that it has made; nothing was changed. Give it another file name.`,
    { cause, details: { path, found } },
  );
}

function isOpenHere(path: string): boolean {
  const { dev, ino } = statSync(path);
  let descriptors: string[];
  try {
    descriptors = readdirSync("/dev/fd");
  } catch {
    // No such list (Windows): SQLite's way is always safe.
    return true;
  }
  return descriptors.some((descriptor) => {
    try {
      const stats = fstatSync(Number(descriptor));
      return stats.ino === ino && stats.dev === dev;
    } catch {
      // The descriptor that listed the others is closed by now.
      return false;
    }
  });
}

/** The first bytes of a file, zeros where it is shorter. */
function readStart(file: number, length: number): Buffer {
  const bytes = Buffer.alloc(Math.max(HEADER_LENGTH, Math.min(length, fstatSync(file).size)));
  readSync(file, bytes, 0, bytes.length, 0);
  return bytes;
}

/** The names of tables and views in a copy of a file's first pages, as far as they stand there; undefined if not. */
function namesInStart(start: Buffer): string[] | undefined {
  const pageSize = start.readUInt16BE(16) === 1 ? 65_536 : start.readUInt16BE(16);
  const pages = Math.floor(start.length / Math.max(pageSize, 512));
  // As if the file ended here and had no log.
  start.writeUInt16BE(0x0101, 18);
  start.writeUInt32BE(pages, 28);
  start.copy(start, 92, 24, 28);
  let db: SqliteDatabase | undefined;
  try {
    db = openSqlite(start.subarray(0, pages * pageSize));
    return namesIn(db);
  } catch {
    return undefined;
  } finally {
    db?.close();
  }
}

function namesIn(db: SqliteDatabase): string[] {
  return db.prepare("select name from sqlite_schema where type <> 'index' order by name").pluck().all() as string[];
}

function hasLog(path: string): boolean {
  return (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0;
}

function contentsOf(names: readonly string[]): string {
  if (names.includes("checkpoints") && names.includes("writes")) {
    return "a database of LangGraph's SqliteSaver (tables checkpoints and writes)";
  }
  if (names.length === 0) return "a database of another program";
  const shown = names.slice(0, 5).join(", ");
  return `a database of another program (${names.length > 5 ? `${shown} and ${names.length - 5} more` : shown})`;
}
