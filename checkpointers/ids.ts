/** Ids as every backend takes them: text with a UTF-8 form, in the order of its code points, which is that of its bytes. */

import { HoldfastError } from "holdfast";

/** Whether the text has a UTF-8 form, that is no half of a surrogate pair. */
export function isWellFormed(text: string): boolean {
  // In every supported Node, but only in the types of ES2024.
  return (text as string & { isWellFormed(): boolean }).isWellFormed();
}

/** The id as it is. @throws {HoldfastError} INVALID_ID where it has half a surrogate pair: it has no UTF-8 */
export function wellFormed(id: string): string {
  if (isWellFormed(id)) return id;
  throw new HoldfastError(
    "INVALID_ID",
    `The id ${JSON.stringify(id)} holds half a surrogate pair. Use well-formed text for ids.`,
    { details: { id } },
  );
}

/** Negative where `a` sorts before `b`. JavaScript's own `<` compares UTF-16 units and puts emoji before "\uFFFD". */
export function compareIds(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let at = 0; at < length; at++) {
    const x = a.charCodeAt(at);
    const y = b.charCodeAt(at);
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}

/** Moves the surrogates (0xD800–0xDFFF, code points above 0xFFFF) behind 0xE000–0xFFFF. */
function rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}

/** Puts a source of rows back among others that are sorted by their greatest id, `next`, ascending. */
export function insertByNext<S extends { readonly next: string | undefined }>(sources: S[], source: S): void {
  const next = source.next as string;
  let low = 0;
  let high = sources.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compareIds((sources[middle] as S).next as string, next) <= 0) low = middle + 1;
    else high = middle;
  }
  sources.splice(low, 0, source);
}
