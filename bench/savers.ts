/** The checkpointers that are compared, by name. */

import { createHash } from "node:crypto";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { MemorySaver } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import Database from "better-sqlite3";
import type { Checkpointer } from "holdfast";
import { jsonl } from "holdfast/checkpointers/jsonl";
import { memory } from "holdfast/checkpointers/memory";
import { postgres } from "holdfast/checkpointers/postgres";
import { redis } from "holdfast/checkpointers/redis";
import { sqlite } from "holdfast/checkpointers/sqlite";
import { Redis } from "ioredis";
import pg from "pg";

export type SaverName =
  /** The same graph without a checkpointer. */
  | "engine"
  | "holdfast-full"
  | "holdfast-normal"
  | "holdfast-memory"
  | "holdfast-jsonl"
  /** The published SqliteSaver with `pragma synchronous=FULL`, and as it ships (NORMAL). */
  | "official-full"
  | "official-normal"
  | "official-memory"
  /** On the servers that `servers.ts` starts. */
  | "holdfast-postgres"
  | "official-postgres"
  | "holdfast-redis";

export interface OpenSaver {
  readonly saver: BaseCheckpointSaver | undefined;
  /** Only ours. */
  readonly checkpointer: Checkpointer | undefined;
  /** The database file, where there is one. */
  readonly file: string | undefined;
  /** Bytes of all that is kept, also by others on the same place; 0 where nothing is. */
  stored(): Promise<number>;
  close(): Promise<void>;
}

/** Opens a saver on the file (or directory) `name` in `dir`, which may be there already; on a server in a place of its own. */
export async function openSaver(saver: SaverName, dir: string, name: string): Promise<OpenSaver> {
  const file = join(dir, `${name}.db`);
  /** On a server: the same again for the same directory and name, and no other's. */
  const place = `bench_${createHash("sha256").update(file).digest("hex").slice(0, 32)}`;
  switch (saver) {
    case "engine":
      return { saver: undefined, checkpointer: undefined, ...nothingStored, close: async () => {} };
    case "holdfast-full":
      return onSqlite(await sqlite(file), file);
    case "holdfast-normal":
      return onSqlite(await sqlite(file, { synchronous: "NORMAL" }), file);
    case "holdfast-memory":
      return { ...ours(memory()), ...nothingStored };
    case "holdfast-jsonl": {
      const directory = join(dir, name);
      return { ...ours(await jsonl(directory)), file: undefined, stored: async () => bytesOfFiles(directory) };
    }
    case "official-full":
      return official(file, true);
    case "official-normal":
      return official(file, false);
    case "official-memory":
      return { saver: new MemorySaver(), checkpointer: undefined, ...nothingStored, close: async () => {} };
    case "holdfast-postgres":
      return onPostgres(place, async (url, schema) => ours(await postgres(url, { schema })));
    case "official-postgres":
      return onPostgres(place, async (url, schema) => {
        const official = PostgresSaver.fromConnString(url, { schema });
        await official.setup();
        return { saver: official, checkpointer: undefined, close: () => official.end() };
      });
    case "holdfast-redis": {
      const url = serverUrl("REDIS");
      const open = ours(await redis(url, { prefix: place }));
      return { ...open, file: undefined, stored: () => bytesInRedis(url, place) };
    }
    default: {
      const never: never = saver;
      return never;
    }
  }
}

type Opened = Pick<OpenSaver, "saver" | "checkpointer" | "close">;

const nothingStored = { file: undefined, stored: async () => 0 };

function ours(checkpointer: Checkpointer): Opened {
  return { saver: checkpointer, checkpointer, close: () => checkpointer.close() };
}

function onSqlite(checkpointer: Checkpointer, file: string): OpenSaver {
  return { ...ours(checkpointer), file, stored: async () => bytesOfDatabase(file) };
}

function official(file: string, full: boolean): OpenSaver {
  const db = new Database(file);
  const saver = new SqliteSaver(db);
  const close = async () => {
    db.close();
  };
  if (full) {
    // Its own setup, made at the first use, sets only journal_mode=WAL and leaves this as it is.
    db.pragma("journal_mode=WAL");
    db.pragma("synchronous=FULL");
  }
  return { saver, checkpointer: undefined, file, stored: async () => bytesOfDatabase(file), close };
}

/** Bytes of the main file once the log is brought over. */
export function bytesOfDatabase(file: string): number {
  const db = new Database(file);
  db.pragma("wal_checkpoint(TRUNCATE)");
  db.close();
  return statSync(file).size;
}

function bytesOfFiles(directory: string): number {
  return readdirSync(directory).reduce((sum, name) => sum + statSync(join(directory, name)).size, 0);
}

/** The memory that the keys of a store take. */
async function bytesInRedis(url: string, prefix: string): Promise<number> {
  const client = new Redis(url);
  let bytes = 0;
  for await (const keys of client.scanStream({ match: `*${prefix}*`, count: 1000 })) {
    for (const key of keys as string[]) bytes += Number(await client.memory("USAGE", key, "SAMPLES", 0));
  }
  client.disconnect();
  return bytes;
}

/** The URL of a server that this benchmark was started with. */
export function serverUrl(name: "POSTGRES" | "REDIS"): string {
  const url = process.env[`HOLDFAST_BENCH_${name}`];
  if (url === undefined) throw new Error(`HOLDFAST_BENCH_${name} is not set`);
  return url;
}

/** In a schema of its own, named after the place. */
async function onPostgres(schema: string, open: (url: string, schema: string) => Promise<Opened>): Promise<OpenSaver> {
  const url = serverUrl("POSTGRES");
  const stored = async () => {
    const client = new pg.Client(url);
    await client.connect();
    const { rows } = await client.query<{ bytes: string }>(
      "select sum(pg_total_relation_size(format('%I.%I', schemaname, tablename)))::text as bytes from pg_tables where schemaname = $1",
      [schema],
    );
    await client.end();
    return Number(rows[0]?.bytes);
  };
  return { ...(await open(url, schema)), file: undefined, stored };
}
