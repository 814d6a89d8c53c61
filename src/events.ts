/**
 * What Holdfast publishes on `node:diagnostics_channel`; free where nobody listens. Metrics, traces, the journal's
 * observers and the crash kit are subscribers; nothing in the library reads these channels.
 */

import { channel } from "node:diagnostics_channel";

/** Around every group of commits handed to a backend. */
export interface CommitEvent {
  /** Counts the groups of this checkpointer, from 1. */
  readonly number: number;
  /** Commits in the group; each has its own verdict. */
  readonly commits: number;
  readonly ops: number;
  /** Characters and bytes of all encoded values in the group. */
  readonly bytes: number;
  /** Kinds of the group's operations, for example `["writes", "checkpoint"]`. */
  readonly kinds: readonly string[];
  /** Only after the commit. */
  readonly durationMs?: number;
  /** Only after the commit: commits that were refused. */
  readonly refused?: number;
  /** Only after a commit that failed as a whole. */
  readonly error?: unknown;
}

/** Around every call of an effect's body. */
export interface EffectEvent {
  readonly name: string;
  readonly key: string;
  readonly thread: string;
  readonly attempt: number;
}

/** A checkpoint or value that is larger than it should be. */
export interface LargeCheckpointEvent {
  readonly thread: string;
  readonly ns: string;
  readonly checkpoint: string;
  /** The channel with the largest value, and its characters. */
  readonly channel: string;
  readonly channelBytes: number;
  readonly bytes: number;
}

/** A task asked, caught the pause in its own code, and finished all the same. */
export interface SwallowedWaitEvent {
  readonly id: string;
  readonly thread: string;
  readonly task: string;
  readonly name: string;
}

export const channels = {
  /** {@link CommitEvent}, before the group is handed to the backend. */
  commitBefore: channel("holdfast:commit:before"),
  /** No payload; published by a backend when a commit is half done: before COMMIT, or after part of a line. */
  commitInside: channel("holdfast:commit:inside"),
  /** {@link CommitEvent} with its duration, after the backend has answered. */
  commitAfter: channel("holdfast:commit:after"),
  /** {@link EffectEvent}, after the intent is durable and before the body is called. */
  effectBefore: channel("holdfast:effect:before"),
  /** {@link EffectEvent}, when the body has returned or thrown and nothing is recorded yet. */
  effectAfter: channel("holdfast:effect:after"),
  /** {@link SwallowedWaitEvent}. */
  waitSwallowed: channel("holdfast:wait:swallowed"),
  /** {@link LargeCheckpointEvent}. */
  largeCheckpoint: channel("holdfast:checkpoint:large"),
} as const;
