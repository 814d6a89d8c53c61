import { getConfig } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import Database from "better-sqlite3";
import { type CommitEvent, channels } from "holdfast";
import type { Call } from "holdfast/graphs";

/**
 * An action without Holdfast, as LangGraph's users write it by the book: the node calls the outside itself and passes
 * the id of its checkpoint as idempotency key.
 *
 * It publishes the events that an effect publishes, so that the same preload can kill it in the same places.
 */
export function plain<Input, Output>(
  name: string,
  action: { readonly run: (input: Input, call: Call) => Output | Promise<Output>; readonly timeoutMs?: number },
): (input: Input) => Promise<Output> {
  return async (input) => {
    const { checkpointId, threadId } = getConfig().executionInfo ?? {};
    if (checkpointId === undefined) throw new Error(`${name} was called outside a node.`);
    const event = { name, key: `${name} ${checkpointId}`, thread: threadId ?? "", attempt: 1 };
    channels.effectBefore.publish(event);
    try {
      return await action.run(input, {
        idempotencyKey: checkpointId,
        signal: AbortSignal.timeout(action.timeoutMs ?? 10_000),
      });
    } finally {
      channels.effectAfter.publish(event);
    }
  };
}

/**
 * The official SqliteSaver, publishing an event before and after everything it stores, for the same preload. Each of its
 * calls is one transaction of SQLite, so that "inside" is the same as "before".
 */
export class WatchedSqliteSaver extends SqliteSaver {
  #count = 0;

  static open(file: string): WatchedSqliteSaver {
    return new WatchedSqliteSaver(new Database(file));
  }

  override put(...args: Parameters<SqliteSaver["put"]>): ReturnType<SqliteSaver["put"]> {
    return this.#watched("checkpoint", () => super.put(...args));
  }

  override putWrites(...args: Parameters<SqliteSaver["putWrites"]>): Promise<void> {
    return this.#watched("writes", () => super.putWrites(...args));
  }

  async #watched<T>(kind: string, write: () => Promise<T>): Promise<T> {
    this.#count += 1;
    const event: CommitEvent = { number: this.#count, commits: 1, ops: 1, bytes: 0, kinds: [kind] };
    channels.commitBefore.publish(event);
    const result = await write();
    channels.commitAfter.publish({ ...event, durationMs: 0, refused: 0 } satisfies CommitEvent);
    return result;
  }
}
