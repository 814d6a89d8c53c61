/** Schemas of the test server, one for each store of a test. */

import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterAll, inject } from "vitest";

const made: string[] = [];

/** The name of a schema that nobody else uses; dropped when the test file has ended. */
export async function newSchema(): Promise<string> {
  // With what has to be quoted.
  const schema = `Test "${randomUUID()}"`;
  made.push(schema);
  return schema;
}

/** Runs statements on the test server, on a connection of its own. */
export async function query(text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(inject("postgresUrl"));
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text, values)).rows;
  } finally {
    await client.end();
  }
}

/** As it stands in SQL. */
export const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

afterAll(async () => {
  // A few at a time: each table takes a lock.
  for (const schema of made.splice(0)) await query(`drop schema if exists ${quoted(schema)} cascade`);
});
