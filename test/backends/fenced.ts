/** A backend whose every commit begins with the same operation, as a worker's does with its fence. */

import type { Backend, Commit, Op } from "holdfast";

export function fenced(backend: Backend, op: Op): Backend {
  return new Proxy(backend, {
    get(target, name) {
      if (name === "commit") return (group: readonly Commit[]) => target.commit(group.map((commit) => [op, ...commit]));
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}
