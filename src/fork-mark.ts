/** What a fork leaves in a checkpoint's metadata: where it came from, and what its branch does with effects. */

import type { Backend } from "./backend.ts";
import type { ReadCheckpoint } from "./checkpoint-reader.ts";
import { parseBody } from "./checkpoint-row.ts";
import { isOnFork, type OnFork } from "./fork-policy.ts";
import type { CheckpointRow } from "./model.ts";
import type { Serde } from "./serde.ts";
import { ValueReader } from "./values.ts";

/** Metadata keys. They stand beside LangGraph's own and can be filtered for with `getStateHistory`. */
export const FORK_KEY = "holdfast_fork";
export const EFFECTS_KEY = "holdfast_effects";

/** Where a checkpoint was forked from. The link stays when that thread is deleted. */
export interface ForkMark {
  readonly kind: "fork" | "rollback";
  readonly thread: string;
  /** Of the root graph. */
  readonly checkpoint: string;
  /** Namespace → checkpoint, of the graphs inside that go on from there as well; their tasks had begun. */
  readonly inner?: Readonly<Record<string, string>>;
}

/** What a root checkpoint hands on to those that continue it. */
export interface Branch {
  /** What its fork says about effects that were left behind. */
  readonly effects: OnFork | undefined;
  /** Whether effects of other lineages may stand in the thread. */
  readonly branched: boolean;
  /** LangGraph's `versions_seen`: an input marks the tasks that it discards as seen. */
  readonly seen: VersionsSeen;
}

type VersionsSeen = Readonly<Record<string, Readonly<Record<string, string | number>>>>;

export function branchOf({ tuple, body }: ReadCheckpoint, isHead: boolean): Branch {
  const { metadata, checkpoint } = tuple;
  return {
    effects: forkPolicyOf(metadata as Readonly<Record<string, unknown>> | undefined),
    branched: !isHead || body.br === 1,
    seen: checkpoint.versions_seen,
  };
}

/** What a thread knows of its branches: of a run, or of looks from outside. */
interface KnownBranches {
  /** The root checkpoint on which a command of the run has written. */
  readonly commanded: string | undefined;
  branchAt(checkpoint: string | undefined): Branch | undefined;
}

/**
 * What a root checkpoint hands on that is about to be put. A fork and an edit leave the tasks of their parent behind; an
 * input does where it discards some, or came by a command, which gives those that go on new ids.
 */
export function branchAfter(
  known: KnownBranches,
  parent: string | undefined,
  source: string,
  checkpoint: { readonly versions_seen: VersionsSeen },
): Branch {
  const before = known.branchAt(parent);
  const { effects, branched = false, seen = {} } = before ?? {};
  const discards = parent !== undefined && (parent === known.commanded || !sameSeen(seen, checkpoint.versions_seen));
  const left = source === "fork" || source === "update" || (source === "input" && discards);
  return { effects, branched: branched || left, seen: checkpoint.versions_seen };
}

function sameSeen(before: VersionsSeen, after: VersionsSeen): boolean {
  return Object.entries(after).every(([node, channels]) => {
    if (node.startsWith("__")) return true;
    const old = before[node] ?? {};
    return Object.entries(channels).every(([channel, version]) => old[channel] === version);
  });
}

/** Metadata of a root checkpoint with its fork's policy. */
export function withPolicy<T extends object>(metadata: T, { effects }: Branch): T {
  return effects === undefined || EFFECTS_KEY in metadata ? metadata : { ...metadata, [EFFECTS_KEY]: effects };
}

/** A checkpoint's metadata, as LangGraph and the forks made it. */
export async function readMetadata(
  backend: Backend,
  serde: Serde,
  row: CheckpointRow,
): Promise<Readonly<Record<string, unknown>>> {
  const { m } = parseBody(serde, row);
  const reader = new ValueReader(backend, serde, row.thread);
  await reader.fetch([serde.stringify(m)], []);
  return reader.revive(m, () => `metadata of checkpoint ${row.id}`) as Record<string, unknown>;
}

export function forkMarkOf(metadata: Readonly<Record<string, unknown>> | undefined): ForkMark | undefined {
  const mark = metadata?.[FORK_KEY];
  return typeof mark === "object" && mark !== null && "checkpoint" in mark ? (mark as ForkMark) : undefined;
}

export function forkPolicyOf(metadata: Readonly<Record<string, unknown>> | undefined): OnFork | undefined {
  const policy = metadata?.[EFFECTS_KEY];
  return isOnFork(policy) ? policy : undefined;
}
