/**
 * Exact counts: transactions and bytes of a run. Transactions are counted in SQLite's own log (frames that end one), so
 * that they are counted alike for every saver.
 */

import { readFileSync } from "node:fs";
import Database from "better-sqlite3";
import { type CommitEvent, channels } from "holdfast";
import { counterLoop, type Durability } from "../graphs.ts";
import { openSaver, type SaverName } from "../savers.ts";
import { bodyOf, type EffectMode } from "./effects.ts";

export interface CountsJob {
  readonly kind: "counts";
  readonly saver: SaverName;
  readonly mode: EffectMode;
  readonly durability: Durability;
  readonly steps: number;
  /** Keeps the whole log until it is counted. Not where fsyncs are counted from outside: no WAL checkpoint ends then. */
  readonly keepLog: boolean;
}

const WAL_HEADER = 32;
const FRAME_HEADER = 24;

/**
 * Of one run of `steps` supersteps on a thread of its own: `groups` handed to the backend and their `encoded` bytes (ours
 * only), `transactions` and bytes of log (`logged`, with `keepLog`), growth of the main file (`stored`).
 */
export async function measureCounts(job: CountsJob, dir: string): Promise<Record<string, number>> {
  const open = await openSaver(job.saver, dir, "counts");
  const loop = counterLoop(open.saver, bodyOf(job.mode));
  await loop.run("first", 1, job.durability);
  const keeper = job.keepLog && open.file !== undefined ? keepLog(open.file) : undefined;
  const before = keeper === undefined ? { transactions: 0, bytes: 0 } : readLog(open.file as string);
  let groups = 0;
  let encoded = 0;
  const count = (event: unknown) => {
    groups += 1;
    encoded += (event as CommitEvent).bytes;
  };
  channels.commitAfter.subscribe(count);
  await loop.run("counted", job.steps, job.durability);
  channels.commitAfter.unsubscribe(count);
  const after = keeper === undefined ? before : readLog(open.file as string);
  keeper?.close();
  await open.close();
  const stored = open.file === undefined ? 0 : await open.stored();
  return {
    groups,
    encoded,
    stored,
    transactions: after.transactions - before.transactions,
    logged: after.bytes - before.bytes,
  };
}

/** A reader of the state as it is now: SQLite may not begin its log anew while it reads. */
function keepLog(file: string): { close(): void } {
  const db = new Database(file, { readonly: true });
  db.exec("begin");
  db.prepare("select count(*) from sqlite_master").get();
  return db;
}

/** Frames of the current log; one that ends a transaction holds the database's size in pages, any other holds 0. */
function readLog(file: string): { readonly transactions: number; readonly bytes: number } {
  const log = readFileSync(`${file}-wal`);
  const frameBytes = log.readUInt32BE(8) + FRAME_HEADER;
  const salt = log.subarray(16, 24);
  let transactions = 0;
  let at = WAL_HEADER;
  for (; at + frameBytes <= log.length; at += frameBytes) {
    if (!log.subarray(at + 8, at + 16).equals(salt)) break;
    if (log.readUInt32BE(at + 4) !== 0) transactions += 1;
  }
  return { transactions, bytes: at - WAL_HEADER };
}
