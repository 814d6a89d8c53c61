/**
 * Whether a recorded effect is part of the lineage that a task stands in, or was left behind: on a branch that was
 * left, or in an attempt whose superstep never completed because an update, a new input or a replay gave it new ids.
 *
 * A superstep is complete where its checkpoint has a child that the loop made (`source: "loop"`); children made by
 * input, update or fork abandon the tasks of their parent. A fork inside a subgraph keeps one thing of such a superstep:
 * what that subgraph had completed.
 */

import type { Backend } from "./backend.ts";
import { forkMarkOf, readMetadata } from "./fork-mark.ts";
import type { CheckpointRow } from "./model.ts";
import type { Serde } from "./serde.ts";

/** Namespace → checkpoint, of a task's graph and the graphs around it. */
export type CheckpointMap = ReadonlyMap<string, string>;

/** One thread as a run knows it. */
export interface LineageThread {
  readonly thread: string;
  /** Root checkpoints whose superstep is complete; undefined until read. */
  committed: Set<string> | undefined;
}

interface Level {
  readonly ns: string;
  readonly checkpoint: string;
}

/** What a fork inside a subgraph goes on from: the superstep, and how far the graphs inside it had come. */
type Kept = readonly Level[];

const levelsOf = (map: CheckpointMap): Level[] =>
  [...map].map(([ns, checkpoint]) => ({ ns, checkpoint })).sort((a, b) => a.ns.length - b.ns.length);

/** Read together with {@link LineageThread.committed}. */
const keptOf = new WeakMap<LineageThread, readonly Kept[]>();

export class Lineage {
  readonly #backend: Backend;
  readonly #serde: Serde;
  readonly #thread: LineageThread;
  readonly #here: readonly Level[];
  readonly #from: string;
  readonly #inner = new Map<string, Promise<ReadonlySet<string>>>();

  /**
   * @param here the checkpoints of the calling task, all of them durable
   * @param planned where `here` is only planned: the stored checkpoints that it will go on from
   */
  constructor(backend: Backend, serde: Serde, thread: LineageThread, here: CheckpointMap, planned?: CheckpointMap) {
    this.#backend = backend;
    this.#serde = serde;
    this.#thread = thread;
    this.#here = levelsOf(here);
    this.#from = (planned ?? here).get("") ?? "";
    if (planned !== undefined && planned.size > 1) this.#plannedInside = levelsOf(planned);
  }

  readonly #plannedInside: Kept | undefined;

  /** Whether what was done from these checkpoints counts as done here. */
  async includes(map: CheckpointMap): Promise<boolean> {
    const there = levelsOf(map);
    for (const [i, level] of there.entries()) {
      const here = this.#here[i];
      // The same superstep up to here: a sibling's, or an enclosing or inner call of the same task.
      if (here === undefined || here.ns !== level.ns) return true;
      if (here.checkpoint === level.checkpoint) continue;
      const completed = here.ns === "" ? await this.#completedRoot() : await this.#completed(here.ns, here.checkpoint);
      if (completed.has(level.checkpoint)) return this.#innerComplete(there.slice(i + 1));
      return i === 0 && (await this.#wasKept(there));
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

  /** Of a superstep that a fork inside one of its subgraphs left: whether that subgraph had completed this. */
  async #wasKept(there: readonly Level[]): Promise<boolean> {
    const kept = [...(keptOf.get(this.#thread) ?? []), ...(this.#plannedInside ? [this.#plannedInside] : [])];
    for (const levels of kept) if (await this.#keptBy(levels, there)) return true;
    return false;
  }

  async #keptBy(levels: Kept, there: readonly Level[]): Promise<boolean> {
    for (const [i, level] of there.entries()) {
      const fork = levels[i];
      if (fork === undefined || fork.ns !== level.ns) return false;
      if (fork.checkpoint === level.checkpoint) continue;
      if (i === 0 || !(await this.#completed(fork.ns, fork.checkpoint)).has(level.checkpoint)) return false;
      return this.#innerComplete(there.slice(i + 1));
    }
    // Done by the very tasks that run again.
    return false;
  }

  /** Read once per run; supersteps that the run completes itself are added as it goes. */
  async #completedRoot(): Promise<ReadonlySet<string>> {
    const thread = this.#thread;
    if (thread.committed === undefined) {
      const { completed, forks } = await completedBefore(this.#backend, thread.thread, "", this.#from);
      const kept = await Promise.all(forks.map((row) => this.#keptFrom(row)));
      keptOf.set(
        thread,
        kept.filter((levels) => levels !== undefined),
      );
      thread.committed ??= completed;
      for (const checkpoint of completed) thread.committed.add(checkpoint);
    }
    return thread.committed;
  }

  async #keptFrom(row: CheckpointRow): Promise<Kept | undefined> {
    const mark = forkMarkOf(await readMetadata(this.#backend, this.#serde, row));
    if (mark?.inner === undefined || mark.thread !== row.thread) return undefined;
    return levelsOf(new Map([["", mark.checkpoint], ...Object.entries(mark.inner)]));
  }

  #completed(ns: string, from: string): Promise<ReadonlySet<string>> {
    const key = JSON.stringify([ns, from]);
    let completed = this.#inner.get(key);
    if (completed === undefined) {
      completed = completedBefore(this.#backend, this.#thread.thread, ns, from).then((read) => read.completed);
      this.#inner.set(key, completed);
    }
    return completed;
  }
}

async function completedBefore(
  backend: Backend,
  thread: string,
  ns: string,
  from: string,
): Promise<{ readonly completed: Set<string>; readonly forks: readonly CheckpointRow[] }> {
  const completed = new Set<string>();
  const forks: CheckpointRow[] = [];
  for await (const row of backend.ancestors(thread, ns, from)) {
    if (row.source === "loop" && row.parent !== undefined) completed.add(row.parent);
    if (row.source === "fork") forks.push(row);
  }
  return { completed, forks };
}
