/** The checkpointers that are compared, by name. */

import { randomUUID } from "node:crypto";
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
  /** On the servers that `servers.ts` starts and names in the environment. */
  | "holdfast-postgres"
  | "official-postgres"
  | "holdfast-redis";

export interface OpenSaver {
  readonly saver: BaseCheckpointSaver | undefined;
  /** Only ours. */
  readonly checkpointer: Checkpointer | undefined;
  /** The database file, where there is one. */
  readonly file: string | undefined;
  /** Bytes of its tables, where there is no file. */
  readonly stored?: () => Promise<number>;
  close(): Promise<void>;
}

/** Opens a saver on the file (or directory) `name` in `dir`, which may be there already. */
export async function openSaver(saver: SaverName, dir: string, name: string): Promise<OpenSaver> {
  const file = join(dir, `${name}.db`);
  switch (saver) {
    case "engine":
      return { saver: undefined, checkpointer: undefined, file: undefined, close: async () => {} };
    case "holdfast-full":
      return ours(await sqlite(file), file);
    case "holdfast-normal":
      return ours(await sqlite(file, { synchronous: "NORMAL" }), file);
    case "holdfast-memory":
      return ours(memory(), undefined);
    case "holdfast-jsonl":
      return ours(await jsonl(join(dir, name)), undefined);
    case "official-full":
      return official(file, true);
    case "official-normal":
      return official(file, false);
    case "official-memory":
      return { saver: new MemorySaver(), checkpointer: undefined, file: undefined, close: async () => {} };
    case "holdfast-postgres":
      return onPostgres(async (url, schema) => {
        const checkpointer = await postgres(url, { schema });
        return { saver: checkpointer, checkpointer, close: () => checkpointer.close() };
      });
    case "official-postgres":
      return onPostgres(async (url, schema) => {
        const saver = PostgresSaver.fromConnString(url, { schema });
        await saver.setup();
        return { saver, checkpointer: undefined, close: () => saver.end() };
      });
    case "holdfast-redis":
      return ours(await redis(server("REDIS"), { prefix: `bench-${randomUUID()}` }), undefined);
    default: {
      const never: never = saver;
      return never;
    }
  }
}

function ours(checkpointer: Checkpointer, file: string | undefined): OpenSaver {
  return { saver: checkpointer, checkpointer, file, close: () => checkpointer.close() };
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
  return { saver, checkpointer: undefined, file, close };
}

/** The URL of a server that this benchmark was started with. */
function server(name: "POSTGRES" | "REDIS"): string {
  const url = process.env[`HOLDFAST_BENCH_${name}`];
  if (url === undefined) throw new Error(`HOLDFAST_BENCH_${name} is not set`);
  return url;
}

/** In a schema of its own; its tables are measured before it is closed. */
async function onPostgres(
  open: (url: string, schema: string) => Promise<Pick<OpenSaver, "saver" | "checkpointer" | "close">>,
): Promise<OpenSaver> {
  const url = server("POSTGRES");
  const schema = `bench_${randomUUID().replaceAll("-", "")}`;
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
