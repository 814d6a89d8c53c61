/** The order of ids, the same in every backend: by code point, which is the order of their UTF-8 bytes. */

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
