import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import type { AdoptSource, SourceCheckpoint } from "holdfast";
import { listed } from "./listed.ts";

/** A source over any saver of this process, of one thread. `change` is told of every reading after the first of a checkpoint. */
export function memorySource(
  saver: BaseCheckpointSaver,
  thread: string,
  change: (read: SourceCheckpoint) => void = () => {},
): AdoptSource {
  const seen = new Set<string>();
  return {
    name: "a saver in memory",
    saver: saver.constructor.name,
    sharesValues: false,
    threads: async () => [thread],
    places: async () => {
      const places = (await listed(saver, thread)).map(({ config, checkpoint: { id }, parentConfig }) => ({
        ns: String(config.configurable?.["checkpoint_ns"] ?? ""),
        id,
        parent: parentConfig?.configurable?.["checkpoint_id"] as string | undefined,
        bytes: 0,
      }));
      return places.sort((a, b) => (a.id < b.id ? 1 : -1));
    },
    read: async (_thread, { ns, id }) => {
      const tuple = await saver.getTuple({ configurable: { thread_id: thread, checkpoint_ns: ns, checkpoint_id: id } });
      if (tuple === undefined) throw new Error(`no checkpoint ${id}`);
      const read = { tuple, corrected: [] };
      if (seen.has(id)) change(read);
      seen.add(id);
      return read;
    },
    orphanWrites: async () => 0,
    close: async () => {},
  };
}
