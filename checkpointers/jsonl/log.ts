/**
 * The log file of a directory: appended to, now and then written anew.
 *
 * Invariants:
 * - L1 `#end` is the length that is acknowledged. Nothing is appended while the file may hold bytes behind it.
 * - L2 An append is whole and durable when it resolves. When it rejects, the next one begins by removing what it left.
 * - L3 After a failed sync nothing the kernel says of that file is believed, and after a rename of unknown outcome it may
 *   have no name any more: the next append writes the log anew.
 * - L4 A log of an earlier version is written anew before anything is appended to it.
 * - L5 The log is written anew beside the old one and takes its name when it is durable: a crash leaves one or the other.
 *
 * Calls must not overlap; the backend sees to that.
 */

import { join } from "node:path";
import { channels, HoldfastError } from "holdfast";
import { type Change, weightOf } from "../memory/change.ts";
import type { Files, OpenFile } from "./files.ts";
import { checkHeader, readLog, type TornRecord } from "./read-log.ts";
import { encodeChanges, formatVersion, headerLine, recordOf } from "./record.ts";

export const logName = "log.jsonl";
const newLogName = "log.jsonl.new";

/** A rewritten log puts this many changes, or characters, into a line. */
const batchChanges = 100;
const batchCharacters = 1 << 16;
/** Lines are handed to the file system in pieces of about this size. */
const pieceBytes = 1 << 20;

const NOTHING_WRITTEN = "the file system accepted no byte";

export interface LogOptions {
  readonly directory: string;
  readonly files: Files;
  /** Whether an append waits for the disk. */
  readonly fsync: boolean;
  /** Changes that make an empty state equal to the acknowledged one. */
  readonly live: () => Iterable<Change>;
}

/** What has to happen before the next append, from harmless to grave. */
type Repair = "none" | "truncate" | "sync directory" | "rewrite";

export class Log {
  readonly #options: LogOptions;
  readonly #path: string;
  readonly #newPath: string;
  #file: OpenFile;
  #end: number;
  #lines: number;
  #repair: Repair;
  /** What was dropped when the log was opened. */
  readonly torn: TornRecord | undefined;

  private constructor(
    options: LogOptions,
    file: OpenFile,
    read: { version?: number; end: number; lines: number; torn?: TornRecord | undefined },
  ) {
    this.#options = options;
    this.#path = join(options.directory, logName);
    this.#newPath = join(options.directory, newLogName);
    this.#file = file;
    this.#end = read.end;
    this.#lines = read.lines;
    this.torn = read.torn;
    if (read.version !== undefined && read.version < formatVersion) this.#repair = "rewrite";
    else this.#repair = read.torn === undefined ? "none" : "truncate";
  }

  /** Opens the directory's log, or begins one, and hands what it holds to `apply`. */
  static async open(options: LogOptions, apply: (change: Change) => void): Promise<Log> {
    const { files, directory } = options;
    const path = join(directory, logName);
    if ((await checkHeader(files, path)) === "ours") {
      const read = await readLog(files, path, apply);
      // A rewrite that did not come to its end.
      await files.remove(join(directory, newLogName));
      return new Log(options, await files.open(path, "existing"), read);
    }
    const { file, end, lines } = await writeNewLog(files, join(directory, newLogName), []);
    await files.rename(join(directory, newLogName), path);
    await files.syncDirectory(directory);
    return new Log(options, file, { end, lines });
  }

  /** Bytes of the log. */
  get size(): number {
    return this.#end;
  }

  /**
   * Appends a record for each payload; undefined where that is done when it returns.
   * @throws {HoldfastError} STORAGE_FAILED, by rejecting: the log is as before, see L2.
   */
  append(payloads: readonly Buffer[]): Promise<void> | undefined {
    const { now } = this.#file;
    if (now === undefined || this.#repair !== "none" || channels.commitInside.hasSubscribers)
      return this.#appendInTurns(payloads);
    const bytes = this.#records(payloads);
    this.#repair = "truncate";
    try {
      for (let done = 0; done < bytes.length; ) {
        const written = now.write(bytes.subarray(done), this.#end + done);
        if (written === 0) throw new Error(NOTHING_WRITTEN);
        done += written;
      }
      if (this.#options.fsync) {
        this.#repair = "rewrite";
        now.sync();
      }
    } catch (error) {
      return this.#takeBack(error);
    }
    this.#appended(bytes.length, payloads.length);
    return undefined;
  }

  async #appendInTurns(payloads: readonly Buffer[]): Promise<void> {
    // First of all: a log that is written anew has other line numbers.
    await this.#makeAppendable();
    const bytes = this.#records(payloads);
    this.#repair = "truncate";
    try {
      if (channels.commitInside.hasSubscribers) {
        const middle = bytes.length >> 1;
        await writeAll(this.#file, bytes.subarray(0, middle), this.#end);
        channels.commitInside.publish(undefined);
        await writeAll(this.#file, bytes.subarray(middle), this.#end + middle);
      } else {
        await writeAll(this.#file, bytes, this.#end);
      }
      if (this.#options.fsync) await this.#sync();
    } catch (error) {
      return this.#takeBack(error);
    }
    this.#appended(bytes.length, payloads.length);
  }

  #records(payloads: readonly Buffer[]): Buffer {
    const first = this.#lines + 1;
    return Buffer.concat(payloads.flatMap((payload, at) => recordOf(first + at, payload)));
  }

  #appended(bytes: number, lines: number): void {
    this.#repair = "none";
    this.#end += bytes;
    this.#lines += lines;
  }

  /** Sooner is better than at the next append: a crash until then would bring back what was not acknowledged. */
  async #takeBack(error: unknown): Promise<never> {
    await this.#makeAppendable().catch(() => {});
    throw this.#failed("Appending to", error);
  }

  /**
   * Replaces the log by one that holds these changes and calls `replaced` in the moment it has taken the old one's
   * place.
   *
   * @throws {HoldfastError} STORAGE_FAILED. If `replaced` was not called, the log is as before.
   */
  async rewrite(changes: Iterable<Change>, replaced: () => void): Promise<void> {
    const { files, directory } = this.#options;
    try {
      const written = await writeNewLog(files, this.#newPath, changes);
      if (channels.commitInside.hasSubscribers) channels.commitInside.publish(undefined);
      try {
        await this.#rename();
      } catch (error) {
        await written.file.close().catch(() => {});
        throw error;
      }
      const old = this.#file;
      this.#file = written.file;
      this.#end = written.end;
      this.#lines = written.lines;
      // Until the new name is durable a power cut may bring the old log back: no append before that.
      this.#repair = "sync directory";
      replaced();
      await old.close().catch(() => {});
      await files.syncDirectory(directory);
      this.#repair = "none";
    } catch (error) {
      await files.remove(this.#newPath).catch(() => {});
      throw this.#failed("Rewriting", error);
    }
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  /**
   * Gives the new log the old one's name. A rename that reports an error may have happened: then it has succeeded. Where
   * that cannot be told either, the open file may be one without a name, so nothing is appended to it.
   */
  async #rename(): Promise<void> {
    const { files } = this.#options;
    try {
      await files.rename(this.#newPath, this.#path);
    } catch (error) {
      const repair = this.#repair;
      this.#repair = "rewrite";
      if ((await files.size(this.#newPath)) === undefined) return;
      this.#repair = repair;
      throw error;
    }
  }

  /** L1: brings the file back to what is acknowledged. */
  async #makeAppendable(): Promise<void> {
    const { files, directory, live } = this.#options;
    try {
      if (this.#repair === "truncate") await this.#file.truncate(this.#end);
      else if (this.#repair === "sync directory") await files.syncDirectory(directory);
      else if (this.#repair === "rewrite") await this.rewrite(live(), () => {});
    } catch (error) {
      throw this.#failed("Repairing", error);
    }
    this.#repair = "none";
  }

  async #sync(): Promise<void> {
    try {
      await this.#file.sync();
    } catch (error) {
      this.#repair = "rewrite";
      throw error;
    }
  }

  #failed(what: string, cause: unknown): HoldfastError {
    if (cause instanceof HoldfastError) return cause;
    return new HoldfastError(
      "STORAGE_FAILED",
      `${what} ${this.#path} failed (${cause instanceof Error ? cause.message : String(cause)}). What was acknowledged before is ` +
        "kept; this group of commits is not acknowledged. Make the disk writable, or free space on it, and try again.",
      { cause, details: { path: this.#path } },
    );
  }
}

/** Writes a whole log to a file of its own and makes it durable; leaves no open file behind when it fails. */
async function writeNewLog(
  files: Files,
  path: string,
  changes: Iterable<Change>,
): Promise<{ file: OpenFile; end: number; lines: number }> {
  const file = await files.open(path, "empty");
  try {
    let end = 0;
    let lines = 1;
    let piece: Buffer[] = [headerLine];
    let pieceLength = headerLine.length;
    const flush = async () => {
      await writeAll(file, Buffer.concat(piece), end);
      end += pieceLength;
      piece = [];
      pieceLength = 0;
    };
    for (const batch of batches(changes)) {
      lines += 1;
      for (const part of recordOf(lines, encodeChanges(batch))) {
        piece.push(part);
        pieceLength += part.length;
      }
      if (pieceLength >= pieceBytes) await flush();
    }
    await flush();
    await file.sync();
    return { file, end, lines };
  } catch (error) {
    await file.close().catch(() => {});
    throw error;
  }
}

function* batches(changes: Iterable<Change>): Generator<Change[]> {
  let batch: Change[] = [];
  let characters = 0;
  for (const change of changes) {
    batch.push(change);
    characters += weightOf(change);
    if (batch.length >= batchChanges || characters >= batchCharacters) {
      yield batch;
      batch = [];
      characters = 0;
    }
  }
  if (batch.length > 0) yield batch;
}

async function writeAll(file: OpenFile, bytes: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const written = await file.write(bytes.subarray(done), position + done);
    if (written === 0) throw new Error(NOTHING_WRITTEN);
    done += written;
  }
}
