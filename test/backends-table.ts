/** The backends as the tests of everything above them see them: one place that opens, reopens and reads a store. */

import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { type Backend, Checkpointer, type CheckpointerOptions } from "holdfast";
import { jsonlBackend } from "holdfast/checkpointers/jsonl";
import { MemoryState, memoryBackend } from "holdfast/checkpointers/memory";
import { postgresBackend } from "holdfast/checkpointers/postgres";
import { sqliteBackend } from "holdfast/checkpointers/sqlite";
import { inject, onTestFinished } from "vitest";
import { newSchema, query, quoted } from "./servers/schemas.ts";

export type StoreName = "memory" | "jsonl" | "sqlite" | "postgres";

export const storeNames: readonly StoreName[] = ["memory", "jsonl", "sqlite", "postgres"];

/** Backends that several openers may share at once, as several processes would. */
export const sharedStoreNames: readonly StoreName[] = ["memory", "sqlite", "postgres"];

/** One empty store of a test. Closed and removed when the test has finished. */
export interface Store {
  readonly name: StoreName;
  /** Opens it; again after a close, or while it is open where the backend allows that. */
  backend(): Promise<Backend>;
  open(options?: CheckpointerOptions, wrap?: (backend: Backend) => Backend): Promise<Checkpointer>;
  /** Everything that is stored, as text: what an id or a value would be found in. Close what is open before. */
  contents(): Promise<string>;
}

/** Speed, not loss of power, is what these tests want; what survives that is tested with the backends. */
const opener = (name: StoreName, directory: string, state: MemoryState, schema: string): (() => Promise<Backend>) => {
  switch (name) {
    case "memory":
      return async () => memoryBackend({ state });
    case "jsonl":
      return () => jsonlBackend(join(directory, "log"), { fsync: false });
    case "sqlite":
      return () => sqliteBackend(join(directory, "test.db"), { synchronous: "OFF" });
    case "postgres":
      return () => postgresBackend(inject("postgresUrl"), { schema });
    default: {
      const never: never = name;
      return never;
    }
  }
};

export async function newStore(name: StoreName): Promise<Store> {
  const directory = await mkdtemp(join(tmpdir(), `holdfast-${name}-`));
  const state = new MemoryState();
  const opened: { close(): Promise<void> }[] = [];
  onTestFinished(async () => {
    for (const one of opened) await one.close();
    await rm(directory, { recursive: true });
  });
  const schema = name === "postgres" ? await newSchema() : "";
  const open = opener(name, directory, state, schema);
  const backend = async () => {
    const fresh = await open();
    opened.push(fresh);
    return fresh;
  };
  return {
    name,
    backend,
    open: async (options = {}, wrap = (same) => same) => {
      const saver = new Checkpointer(wrap(await backend()), options);
      opened.unshift(saver);
      return saver;
    },
    contents: async () => {
      if (name === "memory") return JSON.stringify([...state.changes()]);
      if (name === "postgres") return tablesOf(schema);
      return name === "jsonl" ? filesOf(join(directory, "log")) : rowsOf(join(directory, "test.db"));
    },
  };
}

async function filesOf(directory: string): Promise<string> {
  let text = "";
  for (const file of await readdir(directory)) text += `${file}\n${await readFile(join(directory, file), "utf8")}\n`;
  return text;
}

/** Every cell of every table. The file itself keeps what SQLite has not overwritten yet. */
function rowsOf(file: string): string {
  const database = new Database(file, { readonly: true });
  try {
    const tables = database.prepare("select name from sqlite_master where type = 'table'").pluck().all() as string[];
    const rows = tables.flatMap((table) => database.prepare(`select * from "${table}"`).raw().all() as unknown[][]);
    return rows
      .map((row) => row.map((cell) => (Buffer.isBuffer(cell) ? cell.toString("latin1") : String(cell))).join(" "))
      .join("\n");
  } finally {
    database.close();
  }
}

/** Every cell of every table. */
async function tablesOf(schema: string): Promise<string> {
  const tables = await query("select tablename from pg_tables where schemaname = $1", [schema]);
  const rows: string[] = [];
  for (const { tablename } of tables) {
    const cells = await query(`select t::text as cells from ${quoted(schema)}.${quoted(String(tablename))} t`);
    rows.push(...cells.map(({ cells }) => String(cells)));
  }
  return rows.join("\n");
}
