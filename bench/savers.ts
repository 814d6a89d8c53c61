/** The checkpointers that are compared, by name. */

import { join } from "node:path";
import { MemorySaver } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import Database from "better-sqlite3";
import type { Checkpointer } from "holdfast";
import { jsonl } from "holdfast/checkpointers/jsonl";
import { memory } from "holdfast/checkpointers/memory";
import { sqlite } from "holdfast/checkpointers/sqlite";

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
  | "official-memory";

export interface OpenSaver {
  readonly saver: BaseCheckpointSaver | undefined;
  /** Only ours. */
  readonly checkpointer: Checkpointer | undefined;
  /** The database file, where there is one. */
  readonly file: string | undefined;
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
