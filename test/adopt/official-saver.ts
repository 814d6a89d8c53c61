/** LangGraph's own savers, opened on a file or a server. */

import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";

export async function officialSaver(
  kind: "sqlite" | "postgres",
  connection: string,
  schema = "public",
): Promise<BaseCheckpointSaver> {
  if (kind === "sqlite") {
    const saver = SqliteSaver.fromConnString(connection);
    // Tables are made by the first call that reads.
    await saver.getTuple({ configurable: { thread_id: "none" } });
    return saver;
  }
  const saver = PostgresSaver.fromConnString(connection, { schema });
  await saver.setup();
  return saver;
}
