/** Reads a log from its beginning, and tells what a crash leaves from what nobody may repair. */

import { HoldfastError } from "holdfast";
import type { Change } from "../memory/change.ts";
import type { Files } from "./files.ts";
import { decodeRecord, formatVersion, headerBytesMax, readHeader } from "./record.ts";

/** What a crash in the middle of a write left: the last line, without its end or not as it was written. */
export interface TornRecord {
  readonly line: number;
  readonly bytes: number;
}

export interface ReadLog {
  /** Of the log's format. */
  readonly version: number;
  /** Bytes up to the end of the last whole record. */
  readonly end: number;
  /** Lines up to there, the header included. */
  readonly lines: number;
  readonly torn: TornRecord | undefined;
}

interface Line {
  readonly bytes: Buffer;
  readonly terminated: boolean;
}

/**
 * Whether the file is a log that this version can read. Looks at its first line only and changes nothing; a file
 * without any byte is as good as none.
 *
 * @throws {HoldfastError} FOREIGN_DATABASE, UNSUPPORTED_FORMAT
 */
export async function checkHeader(files: Files, path: string): Promise<"absent" | "ours"> {
  const size = await files.size(path);
  if (size === undefined || size === 0) return "absent";
  for await (const line of linesOf(files.read(path), headerBytesMax)) {
    requireOurs(path, line);
    break;
  }
  return "ours";
}

/**
 * Hands every record's changes to `apply`, in order.
 *
 * The last record may be torn: it was never acknowledged, since an acknowledgement waits for the whole write. Anything
 * else that is not as it was written is damage: what came after it depended on it.
 *
 * @throws {HoldfastError} CORRUPT_DATA with the file and the line, FOREIGN_DATABASE, UNSUPPORTED_FORMAT
 */
export async function readLog(files: Files, path: string, apply: (change: Change) => void): Promise<ReadLog> {
  let end = 0;
  let lines = 0;
  let version = formatVersion;
  let torn: TornRecord | undefined;
  for await (const line of linesOf(files.read(path))) {
    if (torn !== undefined) throw corrupt(path, torn.line);
    if (lines === 0) version = requireOurs(path, line);
    else {
      const changes = decodeRecord(lines + 1, line.bytes, line.terminated);
      if (changes === "damaged") throw corrupt(path, lines + 1);
      if (changes === "torn") {
        torn = { line: lines + 1, bytes: line.bytes.length + (line.terminated ? 1 : 0) };
        continue;
      }
      for (const change of changes) apply(change);
    }
    lines += 1;
    end += line.bytes.length + 1;
  }
  return { version, end, lines, torn };
}

/** Lines without their line feed. Holds one line in memory at a time, and stops at one that is longer than `bytesMax`. */
async function* linesOf(pieces: AsyncIterable<Uint8Array>, bytesMax = Number.POSITIVE_INFINITY): AsyncGenerator<Line> {
  let parts: Buffer[] = [];
  let held = 0;
  for await (const piece of pieces) {
    let rest = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
    for (let at = rest.indexOf(0x0a); at >= 0; at = rest.indexOf(0x0a)) {
      parts.push(rest.subarray(0, at));
      yield { bytes: parts.length === 1 ? rest.subarray(0, at) : Buffer.concat(parts), terminated: true };
      parts = [];
      held = 0;
      rest = rest.subarray(at + 1);
    }
    if (rest.length > 0) parts.push(rest);
    held += rest.length;
    if (held > bytesMax) break;
  }
  if (held > 0) yield { bytes: Buffer.concat(parts), terminated: false };
}

/** The version of a log that this code can read. */
function requireOurs(path: string, line: Line): number {
  const header = line.terminated && line.bytes.length <= headerBytesMax ? readHeader(line.bytes) : "foreign";
  if (header === "foreign") {
    throw new HoldfastError(
      "FOREIGN_DATABASE",
      `${path} is not a log of Holdfast: its first line says nothing of the kind. It is left as it is. Give another directory.`,
      { details: { path } },
    );
  }
  const { version } = header;
  if (typeof version === "number" && Number.isInteger(version) && version >= 1 && version <= formatVersion)
    return version;
  throw new HoldfastError(
    "UNSUPPORTED_FORMAT",
    `${path} was written in version ${JSON.stringify(version)} of the log format; this Holdfast reads versions up to ` +
      `${formatVersion}. It is left as it is. Update Holdfast.`,
    { details: { path, version, supported: formatVersion } },
  );
}

function corrupt(path: string, line: number): HoldfastError {
  return new HoldfastError(
    "CORRUPT_DATA",
    `${path} is damaged at line ${line}: the record is not as it was written, and records follow it. This is not what a ` +
      "crash leaves. Nothing was changed. Restore the directory from a backup; the lines before the damage are whole.",
    { details: { path, line } },
  );
}
