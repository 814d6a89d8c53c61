/** `holdfast/checkpointers/postgres`: a checkpointer in a Postgres database, by pg. */

import { Checkpointer, type CheckpointerOptions } from "holdfast";
import { CHECKPOINTER_OPTIONS } from "../options.ts";
import { postgresBackend } from "./backend.ts";
import type { PgPool } from "./driver.ts";
import { checkNames, type PostgresOptions } from "./options.ts";

export { postgresBackend } from "./backend.ts";
export type { PostgresOptions } from "./options.ts";

/**
 * A checkpointer in the database at `target`: a URL (`postgres://user@host/database`), or a `Pool` of pg that stays yours.
 *
 * Any number of processes of any number of machines may share it. What survives is what the server is set to: with `fsync` and
 * `synchronous_commit` on, as is Postgres' default, also a loss of power.
 *
 * @throws {HoldfastError} what {@link postgresBackend} throws
 */
export async function postgres(
  target: string | PgPool,
  options: PostgresOptions & CheckpointerOptions = {},
): Promise<Checkpointer> {
  checkNames(options, CHECKPOINTER_OPTIONS);
  const { schema, leaseMs, retryForMs, answerTimeoutMs, ...checkpointer } = options;
  return new Checkpointer(
    await postgresBackend(target, { schema, leaseMs, retryForMs, answerTimeoutMs }),
    checkpointer,
  );
}
