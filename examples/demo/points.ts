/** `count` of the items, spread evenly from the first to the last; all of them where there are not more. */
export function spread<T>(items: readonly T[], count: number): readonly T[] {
  if (count >= items.length) return items;
  if (count <= 0) return [];
  const step = count === 1 ? 0 : (items.length - 1) / (count - 1);
  return Array.from({ length: count }, (_, index) => items[Math.round(index * step)] as T);
}

/**
 * The places of another program that correspond to `chosen`: the same points of effects, and of the moments at which it
 * stores something as many as are left, spread evenly.
 */
export function samePlaces(chosen: readonly string[], reachable: readonly string[]): readonly string[] {
  const isEffect = (point: string) => point.startsWith("effect:");
  const effects = chosen.filter((point) => isEffect(point) && reachable.includes(point));
  const rest = reachable.filter((point) => !isEffect(point));
  const places = new Set([...effects, ...spread(rest, chosen.length - effects.length)]);
  return reachable.filter((point) => places.has(point));
}
