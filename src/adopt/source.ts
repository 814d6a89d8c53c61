/** What is adopted: a database that one of LangGraph's own savers has written. */

import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";

/** Where a checkpoint of the source stands. */
export interface SourcePlace {
  readonly ns: string;
  readonly id: string;
  /** The checkpoint it continues; it need not be there. */
  readonly parent: string | undefined;
  /** Stored bytes of the checkpoint and its pending writes. */
  readonly bytes: number;
}

/** One checkpoint as the official saver gives it, with what is known to be wrong about that. */
export interface SourceCheckpoint {
  readonly tuple: CheckpointTuple;
  /** What the official saver gives otherwise than it was stored; the tuple has it as it was stored. */
  readonly corrected: readonly string[];
}

/**
 * A database of an official saver, open for reading. All calls see one state of it: what is written after the opening is not
 * seen.
 */
export interface AdoptSource {
  /** For messages, for example `langgraph-sqlite:agent.db`. */
  readonly name: string;
  /** Class and version of the saver that reads it. */
  readonly saver: string;
  /** Whether the saver keeps one value for all checkpoints with the same version of a channel, so that branches mix. */
  readonly sharesValues: boolean;
  /** Ids of all threads that have a checkpoint, sorted. */
  threads(): Promise<readonly string[]>;
  /** The thread's checkpoints in all namespaces, newest first by id. */
  places(thread: string): Promise<readonly SourcePlace[]>;
  /** One of them. Rejects where the official saver cannot read it. */
  read(thread: string, place: SourcePlace): Promise<SourceCheckpoint>;
  /** Writes whose checkpoint was never stored: no saver shows them, and nobody can use them. */
  orphanWrites(): Promise<number>;
  close(): Promise<void>;
}
