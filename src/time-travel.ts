/** `timeTravel`: looking back at a thread, and going on from an earlier place, without paying twice. */

import { type Checkpointer, isCheckpointer } from "./checkpointer.ts";
import { HoldfastError } from "./errors.ts";
import { checkFork, type Forked, type ForkOptions, forkThread } from "./fork.ts";
import type { ForkableGraph } from "./fork-draft.ts";
import { type ForkPreview, previewFork } from "./fork-preview.ts";
import { checkHistory, type HistoryEntry, type HistoryOptions, readHistory } from "./history.ts";
import { checkPlace, diffStates, type StateDiff, type StatePlace } from "./state-diff.ts";

/** The tools for one compiled graph. */
export interface TimeTravel {
  /**
   * The thread's checkpoints, newest first (by id, as LangGraph lists them), each with its tasks, effects, waits and
   * decisions. Streams; a thread that does not exist has none.
   *
   * A page that continues another one (`before`) reads the ids of the whole thread again; going on with the iterator
   * does not.
   *
   * @throws INVALID_ARGUMENT, UNKNOWN_CHECKPOINT (`before`)
   */
  history(thread: string, options?: HistoryOptions): AsyncIterable<HistoryEntry>;
  /**
   * What differs between two states, channel by channel, as plain JSON: see {@link Change}. The states may be of two threads.
   *
   * @throws UNKNOWN_CHECKPOINT, INVALID_ARGUMENT, NOT_SUPPORTED
   */
  diff(before: StatePlace, after: StatePlace): Promise<StateDiff>;
  /**
   * What `fork` with the same arguments would do: which nodes run, and what the effects that are left behind do, each
   * with the reason. Runs nothing and writes nothing.
   *
   * @throws as `fork`
   */
  preview(thread: string, checkpoint: string, options?: ForkOptions): Promise<ForkPreview>;
  /**
   * Begins a branch at a checkpoint, with an edited state or as it was. Nothing runs: go on with
   * `app.invoke(null, forked.config)`. In the same thread the new checkpoint becomes the head, and what the old head waits
   * for is closed; with `to` a new thread begins, which lives on when the old one is deleted. One commit.
   *
   * A checkpoint of a subgraph begins the branch inside it: its earlier nodes do not run again.
   *
   * @throws UNKNOWN_CHECKPOINT, THREAD_EXISTS, INVALID_ARGUMENT, NOT_SUPPORTED, before anything is written
   */
  fork(thread: string, checkpoint: string, options?: ForkOptions): Promise<Forked>;
  /**
   * Makes the state of a checkpoint the thread's newest again. Nothing is removed: the new head is a copy. What effects did
   * since stays done, see `onFork`.
   *
   * @throws UNKNOWN_CHECKPOINT, INVALID_ARGUMENT, NOT_SUPPORTED
   */
  rollbackTo(thread: string, checkpoint: string): Promise<Forked>;
}

/**
 * @param app a graph compiled with a Holdfast checkpointer
 * @throws FOREIGN_CHECKPOINTER, NOT_SUPPORTED (a graph on `durable(…)`)
 */
export function timeTravel(app: ForkableGraph): TimeTravel {
  const saver = checkpointerOf(app);
  return {
    history: (thread, options = {}) => {
      checkHistory(thread, options);
      return readHistory(app, saver, thread, options);
    },
    diff: async (before, after) => {
      checkPlace("the first state", before);
      checkPlace("the second state", after);
      return diffStates(app, saver, before, after);
    },
    preview: async (thread, checkpoint, options = {}) => {
      checkFork("preview", thread, checkpoint, options);
      return previewFork(app, saver, { ...options, thread, checkpoint, kind: "fork" });
    },
    fork: async (thread, checkpoint, options = {}) => {
      checkFork("fork", thread, checkpoint, options);
      return forkThread(app, saver, { ...options, thread, checkpoint, kind: "fork" });
    },
    rollbackTo: async (thread, checkpoint) => {
      checkFork("rollbackTo", thread, checkpoint);
      return forkThread(app, saver, { thread, checkpoint, kind: "rollback" });
    },
  };
}

function checkpointerOf(app: ForkableGraph): Checkpointer {
  const saver = app?.checkpointer;
  if (isCheckpointer(saver) && saver.keepsValues) return saver;
  if (isCheckpointer(saver)) {
    throw new HoldfastError(
      "NOT_SUPPORTED",
      "timeTravel() needs the checkpoints themselves, and this graph keeps them in another saver, see durable(). Take them over " +
        "with holdfast adopt, or use app.getStateHistory and app.updateState.",
    );
  }
  throw new HoldfastError(
    "FOREIGN_CHECKPOINTER",
    "timeTravel() needs a graph compiled with a Holdfast checkpointer: graph.compile({ checkpointer: await sqlite(file) }).",
  );
}
