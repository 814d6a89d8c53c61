/** A database of `@langchain/langgraph-checkpoint-postgres`, read in one transaction and never written to. */

import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { type AdoptSource, HoldfastError, type SourceCheckpoint, type SourcePlace } from "holdfast";
import { newPool, type PgClient, type PgPool } from "../postgres/driver.ts";
import { quote } from "../postgres/text.ts";
import { type OfficialReader, postgresSaver } from "./official-savers.ts";

const TABLES = ["checkpoints", "checkpoint_blobs", "checkpoint_writes"];

/** @throws {HoldfastError} CANNOT_OPEN, FOREIGN_DATABASE, DRIVER_MISSING */
export async function langgraphPostgres(url: string, schema: string): Promise<AdoptSource> {
  const { name, open } = await postgresSaver();
  const pool = await newPool({ connectionString: url, max: 1 });
  // Between queries a connection that ends has nobody to tell; the next query says so.
  pool.on("error", () => {});
  const client = await connect(pool);
  try {
    // The first read decides on the state that every later one sees, also while the application goes on writing.
    await client.query("begin isolation level repeatable read read only");
    await requireTables(client, schema);
    return new PostgresSource(await nameOf(client), name, { pool, client, schema }, open(client, schema));
  } catch (error) {
    client.release(true);
    await pool.end();
    throw error;
  }
}

async function connect(pool: PgPool): Promise<PgClient> {
  try {
    const client = await pool.connect();
    client.on("error", () => {});
    return client;
  } catch (cause) {
    await pool.end();
    const message = cause instanceof Error ? cause.message || cause.name : String(cause);
    throw new HoldfastError(
      "CANNOT_OPEN",
      `The Postgres server of the source cannot be reached: ${message}. Check its address, user, password and database.`,
      { cause },
    );
  }
}

/** Without user and password. */
async function nameOf(client: PgClient): Promise<string> {
  const { rows } = await client.query<{ database: string }>("select current_database() as database");
  return `langgraph-postgres:${rows[0]?.database}`;
}

interface Connection {
  readonly pool: PgPool;
  readonly client: PgClient;
  readonly schema: string;
}

class PostgresSource implements AdoptSource {
  readonly name: string;
  readonly saver: string;
  readonly sharesValues = true;
  readonly #client: PgClient;
  readonly #pool: PgPool;
  readonly #tables: string;
  readonly #official: OfficialReader;

  constructor(name: string, saver: string, { pool, client, schema }: Connection, official: OfficialReader) {
    this.name = name;
    this.saver = saver;
    this.#client = client;
    this.#pool = pool;
    this.#tables = quote(schema);
    this.#official = official;
  }

  async threads(): Promise<readonly string[]> {
    const { rows } = await this.#client.query<{ thread_id: string }>(
      `select distinct thread_id collate "C" as thread_id from ${this.#tables}.checkpoints order by 1`,
    );
    return rows.map(({ thread_id }) => thread_id);
  }

  async places(thread: string): Promise<readonly SourcePlace[]> {
    const { rows } = await this.#client.query<
      Omit<SourcePlace, "bytes" | "parent"> & { bytes: string; parent: string | null }
    >(
      `select checkpoint_ns as ns, checkpoint_id as id, parent_checkpoint_id as parent,
         octet_length(checkpoint::text) + octet_length(metadata::text) + coalesce((
           select sum(octet_length(w.blob)) from ${this.#tables}.checkpoint_writes w
           where w.thread_id = c.thread_id and w.checkpoint_ns = c.checkpoint_ns and w.checkpoint_id = c.checkpoint_id
         ), 0) as bytes
       from ${this.#tables}.checkpoints c where thread_id = $1
       order by checkpoint_id collate "C" desc, checkpoint_ns collate "C"`,
      [thread],
    );
    return rows.map((row) => ({ ...row, bytes: Number(row.bytes), parent: row.parent || undefined }));
  }

  async read(thread: string, { ns, id }: SourcePlace): Promise<SourceCheckpoint> {
    const config = { configurable: { thread_id: thread, checkpoint_ns: ns, checkpoint_id: id } };
    return { tuple: (await this.#official.getTuple(config)) as CheckpointTuple, corrected: [] };
  }

  async orphanWrites(): Promise<number> {
    const { rows } = await this.#client.query<{ count: string }>(
      `select count(*) from ${this.#tables}.checkpoint_writes w where not exists (
         select 1 from ${this.#tables}.checkpoints c
         where c.thread_id = w.thread_id and c.checkpoint_ns = w.checkpoint_ns and c.checkpoint_id = w.checkpoint_id)`,
    );
    return Number(rows[0]?.count);
  }

  async close(): Promise<void> {
    // Not kept: its transaction is still open.
    this.#client.release(true);
    await this.#pool.end();
  }
}

async function requireTables(client: PgClient, schema: string): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    "select table_name::text as name from information_schema.tables where table_schema = $1",
    [schema],
  );
  const names = rows.map(({ name }) => name);
  if (TABLES.every((table) => names.includes(table))) return;
  throw new HoldfastError(
    "FOREIGN_DATABASE",
    `Schema ${JSON.stringify(schema)} has no tables of LangGraph's PostgresSaver (${TABLES.join(", ")}). ` +
      "Name the schema that was given to it: --schema NAME.",
    { details: { schema, tables: names } },
  );
}
