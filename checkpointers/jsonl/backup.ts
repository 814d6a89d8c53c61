/**
 * A copy of a JSONL directory while its owner writes: the log up to the last whole record.
 *
 * The owner only appends, or puts a new file in the log's place, so one open file is one consistent log. A record that is being
 * written has not been acknowledged and is left out. The lock is not asked for and not copied.
 */

import { createReadStream, createWriteStream } from "node:fs";
import { open, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { HoldfastError } from "holdfast";
import type { Backup, BackupOptions } from "../backup.ts";
import { nodeFiles } from "./files.ts";
import { logName } from "./log.ts";
import { checkHeader, readLog } from "./read-log.ts";

export async function backupJsonl(directory: string, target: string, options: BackupOptions): Promise<Backup> {
  const log = join(resolve(directory), logName);
  if ((await checkHeader(nodeFiles, log)) === "absent") {
    throw new HoldfastError(
      "CANNOT_OPEN",
      `${log} is not there, or empty: there is nothing to copy. Name a JSONL directory.`,
      {
        details: { path: log },
      },
    );
  }
  const copy = join(target, logName);
  await nodeFiles.makeDirectory(target);
  try {
    await copyLog(log, copy, options);
    const { end } = await readLog(nodeFiles, copy, () => {});
    const file = await open(copy, "r+");
    try {
      await file.truncate(end);
      await file.sync();
    } finally {
      await file.close();
    }
    await nodeFiles.syncDirectory(target);
    return { path: target, url: `jsonl:${target}`, bytes: end };
  } catch (error) {
    await rm(target, { recursive: true, force: true });
    if (error instanceof HoldfastError) throw error;
    throw new HoldfastError(
      "STORAGE_FAILED",
      `${target} could not be written (${error instanceof Error ? error.message : String(error)}) and was removed. ` +
        "Free space, or give another path.",
      { cause: error, details: { path: target } },
    );
  }
}

async function copyLog(log: string, copy: string, { onProgress }: BackupOptions): Promise<void> {
  const source = await open(log, "r");
  try {
    const { size: total } = await source.stat();
    let copied = 0;
    const counted = new Transform({
      transform(piece: Buffer, _encoding, done) {
        copied += piece.length;
        onProgress?.({ copied, total: Math.max(total, copied) });
        done(undefined, piece);
      },
    });
    const options = { fd: source.fd, autoClose: false, start: 0, end: Math.max(0, total - 1) };
    await pipeline(createReadStream("", options), counted, createWriteStream(copy, { flags: "wx" }));
  } finally {
    await source.close();
  }
}
