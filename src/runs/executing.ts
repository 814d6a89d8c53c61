/** The runs that workers of this process are executing: one that is ours by its row and not here was left by a failure. */

import type { Backend } from "../backend.ts";

const executing = new WeakMap<Backend, Set<string>>();

export function executingOn(backend: Backend): Set<string> {
  const known = executing.get(backend) ?? new Set<string>();
  executing.set(backend, known);
  return known;
}
