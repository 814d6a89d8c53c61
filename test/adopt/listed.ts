import type { BaseCheckpointSaver, CheckpointTuple } from "@langchain/langgraph-checkpoint";

/** Everything a saver lists of a thread, by namespace and id. */
export async function listed(saver: BaseCheckpointSaver, thread: string): Promise<CheckpointTuple[]> {
  const tuples: CheckpointTuple[] = [];
  for await (const tuple of saver.list({ configurable: { thread_id: thread } })) tuples.push(tuple);
  const place = ({ config }: CheckpointTuple) =>
    JSON.stringify([config.configurable?.["checkpoint_ns"], config.configurable?.["checkpoint_id"]]);
  return tuples.sort((a, b) => (place(a) < place(b) ? -1 : 1));
}
