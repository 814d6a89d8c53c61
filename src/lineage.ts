/**
 * Whether a recorded effect is part of the lineage that a task stands in, or was left behind: on a branch that was
 * left, or in an attempt whose superstep never completed because an update, a new input or a replay gave it new ids.
 *
 * A superstep is complete where its checkpoint has a child that the loop made (`source: "loop"`); children made by
 * input, update or fork abandon the tasks of their parent.
 */

import type { Backend } from "./backend.ts";
import type { RunThread } from "./run-state.ts";

/** Namespace → checkpoint, of a task's graph and the graphs around it. */
export type CheckpointMap = ReadonlyMap<string, string>;

interface Level {
  readonly ns: string;
  readonly checkpoint: string;
}

const levelsOf = (map: CheckpointMap): Level[] =>
  [...map].map(([ns, checkpoint]) => ({ ns, checkpoint })).sort((a, b) => a.ns.length - b.ns.length);

export class Lineage {
  readonly #backend: Backend;
  readonly #thread: RunThread;
  readonly #here: readonly Level[];
  readonly #inner = new Map<string, Promise<ReadonlySet<string>>>();

  /** `here`: the checkpoints of the calling task, all of them durable. */
  constructor(backend: Backend, thread: RunThread, here: CheckpointMap) {
    this.#backend = backend;
    this.#thread = thread;
    this.#here = levelsOf(here);
  }

  /** Whether what was done from these checkpoints counts as done here. */
  async includes(map: CheckpointMap): Promise<boolean> {
    const there = levelsOf(map);
    for (const [i, level] of there.entries()) {
      const here = this.#here[i];
      // The same superstep up to here: a sibling's, or an enclosing or inner call of the same task.
      if (here === undefined || here.ns !== level.ns) return true;
      if (here.checkpoint === level.checkpoint) continue;
      const completed =
        here.ns === "" ? await this.#completedRoot(here.checkpoint) : await this.#completed(here.ns, here.checkpoint);
      if (!completed.has(level.checkpoint)) return false;
      return this.#innerComplete(there.slice(i + 1));
    }
    return true;
  }

  /** The inner graphs' own supersteps, judged by where those graphs ended. */
  async #innerComplete(levels: readonly Level[]): Promise<boolean> {
    for (const { ns, checkpoint } of levels) {
      const { head } = await this.#backend.load(this.#thread.thread, ns, undefined);
      if (head !== checkpoint && !(head !== undefined && (await this.#completed(ns, head)).has(checkpoint)))
        return false;
    }
    return true;
  }

  /** Read once per run; supersteps that the run completes itself are added as it goes. */
  async #completedRoot(from: string): Promise<ReadonlySet<string>> {
    if (this.#thread.committed === undefined) {
      const completed = await completedBefore(this.#backend, this.#thread.thread, "", from);
      this.#thread.committed ??= completed;
      for (const checkpoint of completed) this.#thread.committed.add(checkpoint);
    }
    return this.#thread.committed;
  }

  #completed(ns: string, from: string): Promise<ReadonlySet<string>> {
    const key = JSON.stringify([ns, from]);
    let completed = this.#inner.get(key);
    if (completed === undefined) {
      completed = completedBefore(this.#backend, this.#thread.thread, ns, from);
      this.#inner.set(key, completed);
    }
    return completed;
  }
}

async function completedBefore(backend: Backend, thread: string, ns: string, from: string): Promise<Set<string>> {
  const completed = new Set<string>();
  for await (const row of backend.ancestors(thread, ns, from)) {
    if (row.source === "loop" && row.parent !== undefined) completed.add(row.parent);
  }
  return completed;
}
