/**
 * Text as it stands in the database. Postgres keeps UTF-8 without NUL; the columns are compared by their bytes (collation
 * "C"), that is by code point. The few characters that it cannot keep are escaped, one to one and in the same order:
 * U+0000 becomes 01 01, U+0001 becomes 01 02, half of a surrogate pair (only in bodies and blobs) 01 03 and its digits.
 */

import { isWellFormed, wellFormed } from "../ids.ts";

const ESCAPE = "\u0001";

/** @throws {HoldfastError} INVALID_ID */
export function packId(id: string): string {
  return packText(wellFormed(id));
}

/** Text that must come back as it is, whatever it holds. */
export function packText(text: string): string {
  if (!text.includes("\0") && !text.includes(ESCAPE) && isWellFormed(text)) return text;
  let packed = "";
  for (const character of text) {
    const code = character.codePointAt(0) as number;
    if (code === 0) packed += `${ESCAPE}\u0001`;
    else if (code === 1) packed += `${ESCAPE}\u0002`;
    else if (code >= 0xd800 && code <= 0xdfff) packed += `${ESCAPE}\u0003${code.toString(16)}`;
    else packed += character;
  }
  return packed;
}

export function unpackText(packed: string): string {
  if (!packed.includes(ESCAPE)) return packed;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is escaped
  return packed.replace(/\u0001(?:(\u0001)|(\u0002)|\u0003([0-9a-f]{4}))/g, (_, nul, one, half) => {
    if (nul !== undefined) return "\0";
    return one === undefined ? String.fromCharCode(Number.parseInt(half, 16)) : ESCAPE;
  });
}

/** A name in SQL. */
export function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
