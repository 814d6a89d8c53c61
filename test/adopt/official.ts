/** LangGraph's own savers over real databases, and what they say is stored. */

import { join } from "node:path";
import type { BaseCheckpointSaver, CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import Database from "better-sqlite3";
import { onTestFinished } from "vitest";
import { scratchDirectory } from "../backends/scratch.ts";

export interface Official {
  readonly saver: BaseCheckpointSaver;
  /** As `holdfast adopt` takes it. */
  readonly url: string;
  /** For connections of the test's own. */
  readonly file: string;
}

export async function officialSqlite(): Promise<Official> {
  const file = join(await scratchDirectory(), "official.db");
  const db = new Database(file);
  onTestFinished(() => void db.close());
  const saver = new SqliteSaver(db);
  // Tables are made by the first call that reads.
  await saver.getTuple({ configurable: { thread_id: "none" } });
  return { saver, url: `langgraph-sqlite:${file}`, file };
}

/** Everything a saver lists of a thread, by namespace and id. */
export async function listed(saver: BaseCheckpointSaver, thread: string): Promise<CheckpointTuple[]> {
  const tuples: CheckpointTuple[] = [];
  for await (const tuple of saver.list({ configurable: { thread_id: thread } })) tuples.push(tuple);
  const place = ({ config }: CheckpointTuple) =>
    JSON.stringify([config.configurable?.["checkpoint_ns"], config.configurable?.["checkpoint_id"]]);
  return tuples.sort((a, b) => (place(a) < place(b) ? -1 : 1));
}
