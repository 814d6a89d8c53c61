/**
 * Ids as they stand in the database. Packing is one to one, so equal means equal, and no other id is changed:
 * - a canonical lower-case UUID becomes its 16 bytes; bytes sort as the text does;
 * - digests and tokens are packed where the caller says that a column holds such;
 * - everything else is text. SQLite compares text by its UTF-8 bytes, that is by code point, NUL included.
 */

import { hash } from "node:crypto";
import { wellFormed } from "../ids.ts";

/** What a column of packed ids holds. */
export type Packed = string | Buffer;

const DASHES = [8, 13, 18, 23];
const UUID_LENGTH = 36;
const HEX = "0123456789abcdef";

/** Value of a lower-case hex digit's char code; −1 for anything else. */
const NIBBLES = new Int8Array(128).fill(-1);
for (let i = 0; i < HEX.length; i++) NIBBLES[HEX.charCodeAt(i)] = i;
const nibble = (code: number): number => (code < 128 ? (NIBBLES[code] as number) : -1);

/** Packs an id. Throws INVALID_ID where the id has half a surrogate pair: it has no UTF-8. */
export function packId(id: string): Packed {
  return (id.length === UUID_LENGTH ? packUuid(id) : undefined) ?? wellFormed(id);
}

function packUuid(id: string): Buffer | undefined {
  const bytes = Buffer.allocUnsafe(16);
  let at = 0;
  for (let i = 0; i < UUID_LENGTH; i += 2) {
    if (i === 8 || i === 13 || i === 18 || i === 23) {
      if (id.charCodeAt(i) !== 45) return undefined;
      i += 1;
    }
    const high = nibble(id.charCodeAt(i));
    const low = nibble(id.charCodeAt(i + 1));
    if (high < 0 || low < 0) return undefined;
    bytes[at++] = (high << 4) | low;
  }
  return bytes;
}

export function unpackId(packed: Packed): string {
  if (typeof packed === "string") return packed;
  const hex = packed.toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

const DIGEST = /^[0-9a-f]{64}$/;

/** Packs 64 lower-case hex digits to 32 bytes: keys and digests of effects. */
export function packDigest(digest: string): Packed {
  return DIGEST.test(digest) ? Buffer.from(digest, "hex") : wellFormed(digest);
}

export function unpackDigest(packed: Packed): string {
  return typeof packed === "string" ? packed : packed.toString("hex");
}

const TOKEN = /^(?:[A-Za-z0-9_-]{4})+$/;

/** Packs base64url text without a rest to three quarters of its length: hashes of blobs and ids of lists. */
export function packToken(token: string): Packed {
  return TOKEN.test(token) ? Buffer.from(token, "base64url") : wellFormed(token);
}

export function unpackToken(packed: Packed): string {
  return typeof packed === "string" ? packed : packed.toString("base64url");
}

/** What stands for the id of a deleted thread: 32 bytes, so it equals no packed id. */
export function threadDigest(thread: string): Buffer {
  return hash("sha256", `holdfast thread ${thread}`, "buffer");
}

/**
 * The bound for packed UUIDs that stands for any text: a UUID's bytes are below it exactly where its text sorts before
 * `text`. Text that is no UUID lies between two of them.
 */
export function uuidBound(text: string): Buffer {
  let hex = "";
  for (let i = 0; i < UUID_LENGTH; i++) {
    // A beginning of UUIDs sorts before all of them.
    if (i >= text.length) return bound(hex, "0");
    const code = text.charCodeAt(i);
    if (DASHES.includes(i)) {
      if (code !== 45) return bound(hex, code < 45 ? "0" : "f");
    } else if (nibble(code) >= 0) {
      hex += text[i];
    } else {
      // Where the digits end in which this text can go on: before 0, between 9 and a, or after f.
      if (code < 48) return bound(hex, "0");
      return code < 97 ? bound(`${hex}a`, "0") : bound(hex, "f");
    }
  }
  const exact = Buffer.from(hex, "hex");
  return text.length === UUID_LENGTH ? exact : Buffer.concat([exact, Buffer.of(0)]);
}

/** The first of the UUIDs that begin with `hex` (fill "0"), or a value right after the last of them (fill "f"). */
function bound(hex: string, fill: "0" | "f"): Buffer {
  const bytes = Buffer.from(hex.padEnd(32, fill), "hex");
  return fill === "0" ? bytes : Buffer.concat([bytes, Buffer.of(0)]);
}
