/** `count` of the items, spread evenly from the first to the last; all of them where there are not more. */
export function spread<T>(items: readonly T[], count: number): readonly T[] {
  if (count >= items.length) return items;
  const step = count === 1 ? 0 : (items.length - 1) / (count - 1);
  return Array.from({ length: count }, (_, index) => items[Math.round(index * step)] as T);
}
