/** pg, an optional peer: loaded when it is first needed, with one error that says what to do. */

import { HoldfastError } from "holdfast";
import type { Client, ClientConfig } from "pg";

export type PostgresClient = Client;

/**
 * A connected client. Its errors between queries are taken care of: a connection that ends shows at the next query.
 *
 * @throws {HoldfastError} DRIVER_MISSING, CANNOT_OPEN
 */
export async function connectPostgres(config: ClientConfig): Promise<PostgresClient> {
  const Driver = await loadDriver();
  let client: PostgresClient;
  try {
    client = new Driver(config);
    client.on("error", () => {});
    await client.connect();
  } catch (cause) {
    throw new HoldfastError(
      "CANNOT_OPEN",
      `The Postgres server cannot be reached: ${cause instanceof Error ? cause.message || cause.name : String(cause)}. Check address, user, password and database.`,
      { cause },
    );
  }
  return client;
}

async function loadDriver(): Promise<typeof Client> {
  try {
    return (await import("pg")).default.Client;
  } catch (cause) {
    throw new HoldfastError(
      "DRIVER_MISSING",
      "The package pg is not installed. Holdfast needs it for Postgres: npm install pg",
      {
        cause,
      },
    );
  }
}
