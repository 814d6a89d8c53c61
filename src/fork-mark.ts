/** What a fork leaves in a checkpoint's metadata: where it came from, and what its branch does with effects. */

import type { Backend } from "./backend.ts";
import { type ParsedBody, parseBody } from "./checkpoint-row.ts";
import { isOnFork, type OnFork } from "./fork-policy.ts";
import type { CheckpointRow } from "./model.ts";
import type { Serde } from "./serde.ts";
import { ValueReader } from "./values.ts";

/** Metadata keys. They stand beside LangGraph's own and can be filtered for with `getStateHistory`. */
export const FORK_KEY = "holdfast_fork";
export const EFFECTS_KEY = "holdfast_effects";
/** On every root checkpoint of a branch that may have left effects behind. */
export const BRANCHED_KEY = "holdfast_branched";

/** Where a checkpoint was forked from. The link stays when that thread is deleted. */
export interface ForkMark {
  readonly kind: "fork" | "rollback";
  readonly thread: string;
  /** Of the root graph. */
  readonly checkpoint: string;
  /** Namespace → checkpoint, of the graphs inside that go on from there as well; their tasks had begun. */
  readonly inner?: Readonly<Record<string, string>>;
}

/** A checkpoint's metadata, as LangGraph and the forks made it. */
export async function readMetadata(
  backend: Backend,
  serde: Serde,
  row: CheckpointRow,
  body: ParsedBody = parseBody(serde, row),
): Promise<Readonly<Record<string, unknown>>> {
  const reader = new ValueReader(backend, serde, row.thread);
  await reader.fetch([serde.stringify(body.m)], []);
  return reader.revive(body.m, () => `metadata of checkpoint ${row.id}`) as Record<string, unknown>;
}

export function forkMarkOf(metadata: Readonly<Record<string, unknown>> | undefined): ForkMark | undefined {
  const mark = metadata?.[FORK_KEY];
  return typeof mark === "object" && mark !== null && "checkpoint" in mark ? (mark as ForkMark) : undefined;
}

export function forkPolicyOf(metadata: Readonly<Record<string, unknown>> | undefined): OnFork | undefined {
  const policy = metadata?.[EFFECTS_KEY];
  return isOnFork(policy) ? policy : undefined;
}
