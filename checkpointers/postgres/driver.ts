/** pg, an optional peer: loaded when it is first needed, with one error that says what to do. */

import { HoldfastError } from "holdfast";
import type pg from "pg";

export type PgPool = pg.Pool;
export type PgClient = pg.PoolClient;
export type PgPoolConfig = pg.PoolConfig;

/** @throws {HoldfastError} DRIVER_MISSING */
export async function newPool(config: PgPoolConfig): Promise<PgPool> {
  let driver: typeof pg;
  try {
    driver = (await import("pg")).default;
  } catch (cause) {
    throw new HoldfastError(
      "DRIVER_MISSING",
      "The package pg is not installed. Holdfast needs it for Postgres: npm install pg",
      { cause },
    );
  }
  return new driver.Pool(config);
}
