/** Copies of databases that are in use, each by its own means. */

import { lstatSync } from "node:fs";
import { resolve } from "node:path";
import { HoldfastError } from "holdfast";

export interface BackupProgress {
  /** Bytes so far, and of the whole as it is now. */
  readonly copied: number;
  readonly total: number;
}

export interface BackupOptions {
  readonly onProgress?: ((progress: BackupProgress) => void) | undefined;
}

export interface Backup {
  /** The copy, and what opens it. */
  readonly path: string;
  readonly url: string;
  readonly bytes: number;
}

/** Servers are copied with their own tools, which know of what else they hold. */
export function refuseServer(url: unknown): void {
  const [server] = /^(?:postgres(?:ql)?|rediss?|valkey):/.exec(String(url)) ?? [];
  if (server === undefined) return;
  throw new HoldfastError(
    "NOT_SUPPORTED",
    server.startsWith("postgres")
      ? "A Postgres database is copied with its own tool, while it is in use: pg_dump --format=custom --file=FILE URL, and " +
          "back with pg_restore --dbname=URL FILE. With another schema than public: --schema=NAME."
      : "A Redis server is copied with its own tool: redis-cli --rdb FILE writes a snapshot while it is in use.",
    { details: { server } },
  );
}

/** The copy by scheme, see `backup` in open.ts. */
export async function copyDatabase(
  scheme: "memory" | "jsonl" | "sqlite",
  path: string,
  to: string,
  options: BackupOptions,
): Promise<Backup> {
  if (scheme === "memory")
    throw new HoldfastError(
      "NOT_SUPPORTED",
      "memory: lives in one process and ends with it; there is nothing to copy.",
    );
  const target = resolve(to);
  if (lstatSync(target, { throwIfNoEntry: false }) !== undefined) {
    throw new HoldfastError(
      "INVALID_ARGUMENT",
      `${target} is there already, and a backup replaces nothing. Give another path, or remove it first.`,
      { details: { path: target } },
    );
  }
  switch (scheme) {
    case "sqlite":
      return (await import("./sqlite/backup.ts")).backupSqlite(path, target, options);
    case "jsonl":
      return (await import("./jsonl/backup.ts")).backupJsonl(path, target, options);
    default: {
      const never: never = scheme;
      return never;
    }
  }
}
