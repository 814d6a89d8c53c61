/** Values of columns that are not ids. */

import type { EffectRow, EffectStatus } from "holdfast";
import { isWellFormed, wellFormed } from "../ids.ts";
import { type Packed, packDigest, packId, unpackDigest, unpackId } from "./ids.ts";

/**
 * A text column that must give back every JavaScript string. UTF-8 has no half surrogate pairs, so a string with one is
 * stored as its UTF-16 in a blob.
 */
export function storeText(text: string): string | Buffer {
  return isWellFormed(text) ? text : Buffer.from(text, "utf16le");
}

export function readText(stored: string | Buffer): string {
  return typeof stored === "string" ? stored : stored.toString("utf16le");
}

/** What `form` says of a blob row: `data` is a string, or the bytes that were given. */
export const STRING_FORM = 0;
export const BYTES_FORM = 1;

export function readBlob(form: number, data: string | Buffer): string | Uint8Array {
  if (form === STRING_FORM) return readText(data);
  // A plain Uint8Array as on every other backend, not a Buffer.
  const bytes = data as Buffer;
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** The columns of {@link EFFECT_COLUMNS}, in order. */
export type StoredEffect = [
  key: Packed,
  thread: Packed | null,
  ns: string,
  checkpoint: Packed,
  task: Packed,
  name: string,
  digest: Packed,
  ordinal: number,
  status: string,
  rev: number,
  attempt: number,
  owner: Packed,
  body: string | Buffer,
];

/** Of `holdfast_effects e left join holdfast_threads t on t.no = e.thread_no`. */
export const EFFECT_COLUMNS = /* sql */ `
  e.key, t.id, e.ns, e.checkpoint, e.task, e.name, e.digest, e.ordinal, e.status, e.rev, e.attempt, e.owner, e.body`;

/** The effect's columns after its key and thread number. */
export function storeEffect(row: EffectRow): unknown[] {
  return [
    wellFormed(row.ns),
    packId(row.checkpoint),
    packId(row.task),
    wellFormed(row.name),
    packDigest(row.digest),
    row.ordinal,
    row.status,
    row.rev,
    row.attempt,
    packId(row.owner),
    storeText(row.body),
  ];
}

export function readEffect(stored: StoredEffect): EffectRow {
  const [key, thread, ns, checkpoint, task, name, digest, ordinal, status, rev, attempt, owner, body] = stored;
  return {
    key: unpackDigest(key),
    thread: thread === null ? "" : unpackId(thread),
    ns,
    checkpoint: unpackId(checkpoint),
    task: unpackId(task),
    name,
    digest: unpackDigest(digest),
    ordinal,
    status: status as EffectStatus,
    rev,
    attempt,
    owner: unpackId(owner),
    body: readText(body),
  };
}
