/** `holdfast/checkpointers/sqlite`: a checkpointer in an SQLite file, by better-sqlite3. */

import { Checkpointer, type CheckpointerOptions } from "holdfast";
import { CHECKPOINTER_OPTIONS } from "../options.ts";
import { sqliteBackend } from "./backend.ts";
import { checkNames, type SqliteOptions } from "./options.ts";

export { sqliteBackend } from "./backend.ts";
export type { SqliteOptions, Synchronous } from "./options.ts";

/**
 * A checkpointer in the file `file`, which is created where it is missing; the directory must exist.
 *
 * Any number of processes of one machine may have the file open. The disk must be a local one: SQLite's log cannot be
 * shared over a network. What survives is said by `synchronous`, see {@link SqliteOptions}.
 *
 * @throws {HoldfastError} what {@link sqliteBackend} throws
 */
export async function sqlite(file: string, options: SqliteOptions & CheckpointerOptions = {}): Promise<Checkpointer> {
  checkNames(options, CHECKPOINTER_OPTIONS);
  const { synchronous, busyTimeoutMs, leaseMs, readonly, ...checkpointer } = options;
  const backend = await sqliteBackend(file, { synchronous, busyTimeoutMs, leaseMs, readonly });
  return new Checkpointer(backend, checkpointer);
}
