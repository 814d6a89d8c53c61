/** Where a round keeps its state, as a value that can be handed to a process, and the backend that opens it. */

import type { Backend } from "holdfast";
import { postgresBackend } from "holdfast/checkpointers/postgres";
import { redisBackend } from "holdfast/checkpointers/redis";
import { sqliteBackend } from "holdfast/checkpointers/sqlite";

export type StorePlace =
  | { readonly backend: "sqlite"; readonly file: string }
  | { readonly backend: "postgres"; readonly url: string; readonly schema: string }
  | { readonly backend: "redis"; readonly url: string; readonly prefix: string };

/** The shortest that is allowed: how long the others wait for a worker that is gone. */
export const LEASE_MS = 1000;

export async function openStore(place: StorePlace): Promise<Backend> {
  switch (place.backend) {
    case "sqlite":
      // Processes die, the machine does not: what this level may lose is not at stake.
      return sqliteBackend(place.file, { synchronous: "NORMAL", leaseMs: LEASE_MS });
    case "postgres":
      return postgresBackend(place.url, { schema: place.schema, leaseMs: LEASE_MS });
    case "redis":
      return redisBackend(place.url, { prefix: place.prefix, leaseMs: LEASE_MS });
    default: {
      const never: never = place;
      return never;
    }
  }
}
