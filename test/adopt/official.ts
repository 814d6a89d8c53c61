/** LangGraph's own savers over real databases, and what they say is stored. */

import { join } from "node:path";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import type { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { adopt, type AdoptReport, type Checkpointer } from "holdfast";
import { openCheckpointer, openSource } from "holdfast/checkpointers";
import { onTestFinished } from "vitest";
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
}

export async function officialSqlite(): Promise<Official> {
  const file = join(await scratchDirectory(), "official.db");
  const saver = await officialSaver("sqlite", file);
  onTestFinished(() => void (saver as SqliteSaver & { db: { close(): void } }).db.close());
  return { saver, url: `langgraph-sqlite:${file}`, kind: "sqlite", connection: file };
}

/** Where to: an empty SQLite database of ours. */
export async function target(): Promise<Checkpointer> {
  const checkpointer = await openCheckpointer(`sqlite:${join(await scratchDirectory(), "holdfast.db")}`);
  onTestFinished(() => checkpointer.close());
  return checkpointer;
}

export async function adopted(url: string, checkpointer: Checkpointer): Promise<AdoptReport> {
  const source = await openSource(url);
  try {
    return await adopt(source, checkpointer);
  } finally {
    await source.close();
  }
}
