/**
 * The lines of a log. Each is a JSON value of its own:
 *
 * ```
 * {"format":"holdfast-jsonl","version":3}
 * {"line":2,"bytes":41,"crc32":"0f3a9c11","changes":[{"kind":"era","digest":"…","era":1}]}
 * ```
 *
 * A record is one commit. `bytes` and `crc32` speak of the text of `changes`; `line` is the record's place in the
 * file, so that a line that is missing or doubled is noticed. Line ends inside values are escaped by JSON: a line feed
 * byte always ends a record.
 *
 * Version 2 added waits and decisions, version 3 runs. A log of an earlier version is read as it is, and written anew before
 * the first append to it: code that knows that version only refuses it from then on, instead of passing over what it does
 * not know.
 */

import { constants } from "node:buffer";
import { crc32 } from "node:zlib";
import { HoldfastError, type RunRow, type WaitRow } from "holdfast";
import type { Change } from "../memory/change.ts";

/** The version that is written. Earlier ones can be read; later ones are refused. */
export const formatVersion = 3;
const format = "holdfast-jsonl";

export const headerLine = Buffer.from(`${JSON.stringify({ format, version: formatVersion })}\n`);

/** A first line that is longer than this is none of ours. */
export const headerBytesMax = 1024;

/** The version that the first line of a file names; `line` is without its line feed. */
export function readHeader(line: Uint8Array): "foreign" | { readonly version: unknown } {
  try {
    const header: unknown = JSON.parse(Buffer.from(line).toString("utf8"));
    if (typeof header !== "object" || header === null || !("format" in header) || header.format !== format) {
      return "foreign";
    }
    return { version: "version" in header ? header.version : undefined };
  } catch {
    return "foreign";
  }
}

/**
 * The text of one commit's changes, of which {@link recordOf} makes a line.
 *
 * @throws {HoldfastError} VALUE_TOO_LARGE where the line could not be read back: JavaScript strings end at 512 MB.
 */
export function encodeChanges(changes: readonly Change[]): Buffer {
  const text = textOf(changes);
  const payload = text === undefined ? undefined : Buffer.from(text);
  if (payload !== undefined && payload.length <= constants.MAX_STRING_LENGTH) return payload;
  throw new HoldfastError(
    "VALUE_TOO_LARGE",
    `A commit of more than ${constants.MAX_STRING_LENGTH} bytes does not fit into a line of a JSONL log. ` +
      "Keep large values outside the graph's state and store a reference, or use SQLite.",
  );
}

/** The pieces of a line, its line feed included. */
export function recordOf(line: number, payload: Buffer): Buffer[] {
  const checksum = crc32(payload).toString(16).padStart(8, "0");
  const prefix = `{"line":${line},"bytes":${payload.length},"crc32":"${checksum}","changes":`;
  return [Buffer.from(prefix), payload, recordEnd];
}

const recordEnd = Buffer.from("}\n");
const prefixPattern = /^\{"line":(\d{1,15}),"bytes":(\d{1,15}),"crc32":"([0-9a-f]{8})","changes":/;
const prefixBytesMax = 100;

/**
 * The changes of a line without its line feed; otherwise what has happened to it:
 * - `torn`: a crash may have cut it off while it was written, provided that nothing follows;
 * - `damaged`: it was once whole. Its checksum is right, and then comes what should have been another line.
 */
export function decodeRecord(line: number, bytes: Buffer, terminated: boolean): Change[] | "torn" | "damaged" {
  const prefix = prefixPattern.exec(bytes.subarray(0, prefixBytesMax).toString("latin1"));
  if (prefix === null) return "torn";
  const [whole, number, length, checksum] = prefix;
  const end = whole.length + Number(length);
  const payload = bytes.subarray(whole.length, end);
  if (Number(number) !== line || end > bytes.length || Number.parseInt(checksum ?? "", 16) !== crc32(payload))
    return "torn";
  const rest = bytes.subarray(end).toString("latin1");
  if (rest === "}" && terminated) return (JSON.parse(payload.toString("utf8")) as StoredChange[]).map(restore);
  return unfinishedEnd.test(rest) ? "torn" : "damaged";
}

/** One byte at most instead of the brace; or zeros, which a power cut may leave where bytes should be. */
const unfinishedEnd = /^(?:.?|\}?\0*)$/s;

/** Bytes as base64; a deletion as the era it leaves. JSON drops `undefined` fields. */
type StoredChange =
  | Exclude<Change, { kind: "blob" | "delete" }>
  | { kind: "blob"; thread: string; hash: string; text: string }
  | { kind: "blob"; thread: string; hash: string; base64: string };

function textOf(changes: readonly Change[]): string | undefined {
  try {
    return JSON.stringify(changes.map(store));
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function store(change: Change): StoredChange {
  if (change.kind === "blob") {
    const { kind, thread, hash, data } = change;
    if (typeof data === "string") return { kind, thread, hash, text: data };
    return { kind, thread, hash, base64: Buffer.from(data.buffer, data.byteOffset, data.length).toString("base64") };
  }
  if (change.kind === "delete") return { kind: "era", digest: change.digest, era: change.era };
  return change;
}

function restore(stored: StoredChange): Change {
  switch (stored.kind) {
    case "checkpoint":
      return { kind: "checkpoint", row: Object.freeze({ ...stored.row, parent: stored.row.parent }) };
    case "writes":
      return { ...stored, row: Object.freeze({ ...stored.row, run: stored.row.run }) };
    case "items":
      return { ...stored, row: Object.freeze(stored.row), base: stored.base && Object.freeze(stored.base) };
    case "blob": {
      const { kind, thread, hash } = stored;
      return {
        kind,
        thread,
        hash,
        data: "text" in stored ? stored.text : new Uint8Array(Buffer.from(stored.base64, "base64")),
      };
    }
    case "effect":
      return { kind: "effect", row: Object.freeze(stored.row) };
    case "wait":
      return { kind: "wait", row: Object.freeze(restoreWait(stored.row)) };
    case "decision":
      return { kind: "decision", row: Object.freeze(stored.row) };
    case "run":
      return { kind: "run", row: Object.freeze(restoreRun(stored.row)) };
    case "era":
      return stored;
    default: {
      const never: never = stored;
      return never;
    }
  }
}

/** With every field, also those that JSON has dropped. */
function restoreWait(row: WaitRow): WaitRow {
  const { due, graph, assignee, owner, decision, holder } = row;
  return { ...row, due, graph, assignee, owner, decision, holder };
}

function restoreRun(row: RunRow): RunRow {
  const { worker, due, key, owner } = row;
  return { ...row, worker, due, key, owner };
}
