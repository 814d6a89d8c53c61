/**
 * Which graph a thread belongs to, and whose it is: `configurable.graph_id` and `configurable.owner` of its runs, kept in
 * the metadata of the root namespace's checkpoints and carried on by every later one, also by `updateState`. So a thread
 * without a single wait can be told apart from another owner's as well. Beside them the last run of the queue that has put a
 * checkpoint: whoever executes that run again sees that its input has been taken in.
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import type { CheckpointMetadata, CheckpointTuple } from "@langchain/langgraph-checkpoint";

export interface ThreadOrigin {
  readonly graph_id?: string;
  readonly owner?: string;
  readonly run_id?: string;
}

/** What a checkpoint says about its thread. */
export function originOf(tuple: Pick<CheckpointTuple, "metadata"> | undefined): ThreadOrigin {
  const { run_id, ...origin } = (tuple?.metadata ?? {}) as Readonly<Record<string, unknown>>;
  return { ...pick(origin), ...(typeof run_id === "string" ? { run_id } : {}) };
}

/** What a run's config says about its thread. */
export function originOfRun(config: { readonly configurable?: Readonly<Record<PropertyKey, unknown>> }): ThreadOrigin {
  return pick(config.configurable ?? {});
}

/** The metadata with the thread's origin: what the run's config says, else what the thread said before. */
export function withOrigin(
  metadata: CheckpointMetadata,
  config: RunnableConfig,
  before: ThreadOrigin,
  run?: string,
): CheckpointMetadata {
  return { ...metadata, ...before, ...originOfRun(config), ...(run === undefined ? {} : { run_id: run }) };
}

function pick({ graph_id, owner }: Readonly<Record<PropertyKey, unknown>>): ThreadOrigin {
  return {
    ...(typeof graph_id === "string" ? { graph_id } : {}),
    ...(typeof owner === "string" ? { owner } : {}),
  };
}
