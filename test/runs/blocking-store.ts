/** A store by plain data, for processes that open the same one. */

import type { Checkpointer } from "holdfast";
import { postgres } from "holdfast/checkpointers/postgres";
import { redis } from "holdfast/checkpointers/redis";

/** A block of 5 s outlasts it by far. */
const LEASE_MS = 2000;

export type BlockingStore =
  | { readonly kind: "postgres"; readonly url: string; readonly schema: string }
  | { readonly kind: "redis"; readonly url: string; readonly prefix: string };

export function openBlocking(store: BlockingStore): Promise<Checkpointer> {
  switch (store.kind) {
    case "postgres":
      return postgres(store.url, { schema: store.schema, leaseMs: LEASE_MS });
    case "redis":
      return redis(store.url, { prefix: store.prefix, leaseMs: LEASE_MS, durability: "os" });
    default: {
      const never: never = store;
      return never;
    }
  }
}
