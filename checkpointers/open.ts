/** `holdfast/checkpointers`: a checkpointer by URL, for programs that take theirs from configuration. */

import { type Checkpointer, type CheckpointerOptions, HoldfastError } from "holdfast";
import { type Backup, type BackupOptions, copyDatabase, refuseServer } from "./backup.ts";
import type { JsonlOptions } from "./jsonl/index.ts";
import { nearest } from "./nearest.ts";
import type { PostgresOptions } from "./postgres/index.ts";
import type { RedisOptions } from "./redis/index.ts";
import type { SqliteOptions } from "./sqlite/index.ts";

export type { Backup, BackupOptions, BackupProgress } from "./backup.ts";
export { openSource, type SourceOptions } from "./langgraph/open-source.ts";

/** Options of the scheme's own factory; those of another scheme are refused where they are no options of it. */
export type OpenOptions = CheckpointerOptions & JsonlOptions & PostgresOptions & RedisOptions & SqliteOptions;

const schemes = ["memory", "jsonl", "sqlite", "postgres", "redis", "rediss"] as const;
type Scheme = (typeof schemes)[number];

const placeholders: Record<Scheme, string> = {
  memory: '"memory:"',
  jsonl: '"jsonl:directory"',
  sqlite: '"sqlite:file.db"',
  postgres: '"postgres://user@host/database"',
  redis: '"redis://host:6379"',
  rediss: '"rediss://host:6379"',
};
const known =
  `${placeholders.memory}, ${placeholders.jsonl}, ${placeholders.sqlite}, ${placeholders.postgres} or ` +
  placeholders.redis;

/**
 * Opens a checkpointer: `"memory:"`, `"jsonl:directory"`, `"sqlite:file.db"`, `"postgres://user@host/database"` (also
 * `postgresql:`) or `"redis://host:6379/0"` (also `rediss:`). What follows the colon of a directory or file is a path as the
 * system has it, relative to the working directory: no escapes, no `//`.
 *
 * @throws {HoldfastError} INVALID_ARGUMENT for another URL; otherwise what the scheme's own factory throws
 */
export async function openCheckpointer(url: string, options: OpenOptions = {}): Promise<Checkpointer> {
  const { scheme, path } = parse(url);
  // Loaded on demand: who opens one needs no driver of another.
  switch (scheme) {
    case "memory":
      return (await import("./memory/index.ts")).memory(options);
    case "jsonl":
      return (await import("./jsonl/index.ts")).jsonl(path, options);
    case "sqlite":
      return (await import("./sqlite/index.ts")).sqlite(path, options);
    case "postgres":
      return (await import("./postgres/index.ts")).postgres(url, options);
    case "redis":
    case "rediss":
      return (await import("./redis/index.ts")).redis(url, options);
    default: {
      const never: never = scheme;
      return never;
    }
  }
}

/**
 * Copies a database while it is in use: everything that was acknowledged before the call is in the copy. The copy is checked
 * before this resolves; a call that fails leaves none. Writers go on.
 *
 * @param url `"sqlite:file.db"` or `"jsonl:directory"`
 * @param to path of the copy, a file or a directory like the original; must not be there yet
 * @throws {HoldfastError} INVALID_ARGUMENT (also: the target is there already) · NOT_SUPPORTED (memory, servers) ·
 *   CANNOT_OPEN · FOREIGN_DATABASE · CORRUPT_DATA (the copy does not pass its check) · STORAGE_FAILED
 */
export async function backup(url: string, to: string, options: BackupOptions = {}): Promise<Backup> {
  refuseServer(url);
  const { scheme, path } = parse(url);
  // Refused above, in words of its own.
  if (scheme === "postgres" || scheme === "redis" || scheme === "rediss") {
    throw invalid(url, "A server is copied with its own tools.");
  }
  return copyDatabase(scheme, path, to, options);
}

function parse(url: string): { readonly scheme: Scheme; readonly path: string } {
  const colon = typeof url === "string" ? url.indexOf(":") : -1;
  if (colon < 0) throw invalid(url, `It has no scheme: give ${known}.`);
  const [name, path] = [url.slice(0, colon), url.slice(colon + 1)];
  if (name === "postgres" || name === "postgresql") return { scheme: "postgres", path };
  const scheme = schemes.find((candidate) => candidate === name);
  if (scheme === undefined) {
    const meant = nearest(name, schemes) as Scheme | undefined;
    throw invalid(url, `${meant === undefined ? "" : `Did you mean ${placeholders[meant]}? `}Known are ${known}.`);
  }
  if (scheme === "memory" ? path !== "" : path === "") {
    throw invalid(url, `Write ${placeholders[scheme]}${scheme === "memory" ? ", with nothing behind the colon" : ""}.`);
  }
  if (scheme === "redis" || scheme === "rediss") return { scheme, path };
  if (path.startsWith("//")) {
    throw invalid(
      url,
      `A path follows the colon at once: "${scheme}:${path.replace(/^\/{2,}/, "")}", or one that begins with "/".`,
    );
  }
  return { scheme, path };
}

function invalid(given: unknown, advice: string): HoldfastError {
  const url = typeof given === "string" ? withoutPassword(given) : given;
  return new HoldfastError("INVALID_ARGUMENT", `${JSON.stringify(url)} names no checkpointer. ${advice}`, {
    details: { url },
  });
}

/** Messages are logged. */
function withoutPassword(url: string): string {
  return url.replace(/(\/\/[^/@:]*):[^/]*@/, "$1:***@");
}
