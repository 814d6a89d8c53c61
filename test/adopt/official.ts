/** LangGraph's own savers over real databases, and what they say is stored. */

import { randomUUID } from "node:crypto";
import { join } from "node:path";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import type { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { adopt, type AdoptReport, type Checkpointer } from "holdfast";
import { openCheckpointer, openSource } from "holdfast/checkpointers";
import type { Pool } from "pg";
import { inject, onTestFinished } from "vitest";
import { scratchDirectory } from "../backends/scratch.ts";
import { officialSaver } from "./official-saver.ts";

export { listed } from "./listed.ts";

export interface Official {
  readonly saver: BaseCheckpointSaver;
  /** As `holdfast adopt` takes it. */
  readonly url: string;
  readonly kind: "sqlite" | "postgres";
  /** File or URL, for connections of a test's own. */
  readonly connection: string;
  readonly schema?: string;
}

export async function officialSqlite(): Promise<Official> {
  const file = join(await scratchDirectory(), "official.db");
  const saver = await officialSaver("sqlite", file);
  onTestFinished(() => void (saver as SqliteSaver & { db: { close(): void } }).db.close());
  return { saver, url: `langgraph-sqlite:${file}`, kind: "sqlite", connection: file };
}

/** In a schema of its own on the server of the tests, with a name that must be quoted. */
export async function officialPostgres(): Promise<Official> {
  const connection = inject("postgresUrl");
  const schema = `Official ${randomUUID()}`;
  const saver = await officialSaver("postgres", connection, schema);
  onTestFinished(async () => {
    const { pool } = saver as unknown as { pool: Pool };
    await pool.query(`drop schema "${schema}" cascade`);
    await pool.end();
  });
  return { saver, url: `langgraph-postgres:${connection}`, kind: "postgres", connection, schema };
}

/** Where to: an empty SQLite database of ours. */
export async function target(): Promise<Checkpointer> {
  const checkpointer = await openCheckpointer(`sqlite:${join(await scratchDirectory(), "holdfast.db")}`);
  onTestFinished(() => checkpointer.close());
  return checkpointer;
}

export async function adopted(
  { url, schema }: Pick<Official, "url" | "schema">,
  checkpointer: Checkpointer,
): Promise<AdoptReport> {
  const source = await openSource(url, { schema });
  try {
    return await adopt(source, checkpointer);
  } finally {
    await source.close();
  }
}
