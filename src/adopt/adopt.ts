/**
 * Takes over what LangGraph's own savers have stored.
 *
 * - A1 A thread whose id the target uses for something else is refused before anything is written for it.
 * - A2 Killed at any point and begun again it finishes: what is there is compared, and only what is missing is put.
 * - A3 After it is put, every checkpoint is read back and compared with what the official saver gives: values, versions,
 *   metadata, parent, pending writes in their order, and the order of the checkpoints. What differs is named.
 * - A4 The head of each namespace is the official saver's latest, and an open interrupt is an open wait.
 *
 * Not done: the source is never written to, and what is put into it after the opening is not seen. No graph may run on a
 * thread in the target while it is adopted.
 */

import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import type { Checkpointer } from "../checkpointer.ts";
import { checkpointDifferences, isPartOf, writeDifferences } from "./differences.ts";
import { type Head, openPauses, openWaits } from "./open-waits.ts";
import { type AdoptedThread, type AdoptProgress, type AdoptReport, type AdoptStatus, reportOf } from "./report.ts";
import type { AdoptSource, SourcePlace } from "./source.ts";
import { key, ThreadSource } from "./thread-source.ts";
import { AdoptTarget, ThreadTarget } from "./thread-target.ts";

export interface AdoptOptions {
  /** Called after every checkpoint, and with each thread's result. */
  readonly onProgress?: (progress: AdoptProgress) => void;
}

/**
 * Takes over every thread of a source. Threads that cannot be taken over stop none of the others; the report names them.
 *
 * @param source closed by the caller
 * @param checkpointer where to; the caller closes it
 * @throws what the source or the target throws where no thread can be read or stored, for example STORAGE_FAILED
 */
export async function adopt(
  source: AdoptSource,
  checkpointer: Checkpointer,
  { onProgress }: AdoptOptions = {},
): Promise<AdoptReport> {
  await checkpointer.barrier();
  const target = new AdoptTarget(checkpointer);
  const ids = await source.threads();
  const threads: AdoptedThread[] = [];
  for (const [i, thread] of ids.entries()) {
    const place = { thread, number: i + 1, threads: ids.length };
    const tell: Tell = (step, done, checkpoints) => onProgress?.({ ...place, step, done, checkpoints });
    const result = await adoptThread(source, target, thread, tell);
    threads.push(result);
    onProgress?.({ ...place, step: "done", done: result.checkpoints, checkpoints: result.checkpoints, result });
  }
  const orphans = await source.orphanWrites();
  const notes = orphans === 0 ? [] : [`${orphans} writes of checkpoints that were never stored are left out`];
  return reportOf(source, target.name, threads, notes);
}

type Tell = (step: "copying" | "comparing", done: number, checkpoints: number) => void;

async function adoptThread(
  source: AdoptSource,
  target: AdoptTarget,
  thread: string,
  tell: Tell,
): Promise<AdoptedThread> {
  const adoption = new ThreadAdoption(await ThreadSource.open(source, thread), tell);
  let status: AdoptStatus;
  let differences: readonly string[];
  try {
    ({ status, differences } = await adoption.run(await ThreadTarget.open(target, thread)));
  } catch (error) {
    status = "failed";
    differences = [error instanceof Error ? error.message : String(error)];
  }
  return { thread, status, differences, ...adoption.counts };
}

/** What the target holds of a thread, compared with the source. */
interface Compared {
  /** By {@link key}: "whole" equal in everything; "part" equal, but for writes that are missing. */
  readonly found: ReadonlyMap<string, "whole" | "part">;
  /** What stands against taking the thread for the same one. */
  readonly differences: readonly string[];
}

class ThreadAdoption {
  readonly #source: ThreadSource;
  readonly #tell: Tell;
  readonly #heads = new Map<string, Head>();
  /** By {@link key}: pending writes of what was read. */
  readonly #writes = new Map<string, number>();
  #waits = 0;

  constructor(source: ThreadSource, tell: Tell) {
    this.#source = source;
    this.#tell = tell;
  }

  get counts() {
    const { places, notes } = this.#source;
    const bytes = places.reduce((sum, place) => sum + place.bytes, 0);
    const writes = [...this.#writes.values()].reduce((sum, count) => sum + count, 0);
    return { checkpoints: places.length, writes, waits: this.#waits, bytes, notes };
  }

  async run(target: ThreadTarget): Promise<{ status: AdoptStatus; differences: readonly string[] }> {
    const before = await this.#compare(target);
    if (before.differences.length > 0) return { status: "refused", differences: before.differences };
    const changed = await this.#putMissing(target, before.found);
    const opened = await this.#openWaits(target);
    const after = changed ? await this.#compare(target) : before;
    const missing = this.#source.places
      .filter((place) => !this.#source.isUnreadable(place) && after.found.get(key(place)) !== "whole")
      .map(({ id }) => `checkpoint ${id}: it, or a write of it, is missing`);
    const wrong = [...after.differences, ...missing, ...opened, ...(await this.#headDifferences(target))];
    if (wrong.length > 0) return { status: "different", differences: wrong };
    const { unreadable } = this.#source;
    if (unreadable.length > 0) return { status: "damaged", differences: unreadable };
    return { status: changed ? "adopted" : "equal", differences: [] };
  }

  async #compare(target: ThreadTarget): Promise<Compared> {
    const places = new Map(this.#source.places.map((place) => [key(place), place]));
    const found = new Map<string, "whole" | "part">();
    const differences: string[] = [];
    let last: string | undefined;
    for await (const stored of target.stored()) {
      const { id } = stored.checkpoint;
      const place = places.get(key({ ns: String(stored.config.configurable?.["checkpoint_ns"] ?? ""), id }));
      const expected = place === undefined ? undefined : await this.#read(place);
      if (place === undefined || expected === undefined) {
        differences.push(`checkpoint ${id} is not one of the source`);
        continue;
      }
      if (last !== undefined && id > last) differences.push(`checkpoint ${id} is listed after ${last}`);
      last = id;
      const writes = writeDifferences(expected, stored);
      const part = writes.length > 0 && isPartOf(stored, expected);
      differences.push(...checkpointDifferences(expected, stored), ...(part ? [] : writes));
      found.set(key(place), part ? "part" : "whole");
      this.#tell("comparing", found.size, places.size);
    }
    return { found, differences };
  }

  async #read(place: SourcePlace): Promise<CheckpointTuple | undefined> {
    const tuple = await this.#source.read(place);
    this.#writes.set(key(place), tuple?.pendingWrites?.length ?? 0);
    return tuple;
  }

  /** Whether anything was put. */
  async #putMissing(target: ThreadTarget, found: Compared["found"]): Promise<boolean> {
    let changed = false;
    let done = 0;
    const { places } = this.#source;
    for (const place of this.#source.inOrder()) {
      const state = found.get(key(place));
      const tuple = state === "whole" ? undefined : await this.#read(place);
      if (tuple !== undefined) {
        if (state === undefined) await target.put(tuple, place);
        else await target.putWrites(tuple, place);
        changed = true;
      }
      done += 1;
      this.#tell("copying", done, places.length);
    }
    for (const [ns, place] of this.#source.heads()) {
      const tuple = (await this.#read(place)) as CheckpointTuple;
      this.#heads.set(ns, { place, tuple });
      if ((await target.head(ns)) === place.id) continue;
      await target.put(tuple, place);
      changed = true;
    }
    return changed;
  }

  /** Opens what waits; what of it is not as it should be afterwards. */
  async #openWaits(target: ThreadTarget): Promise<string[]> {
    const { pauses } = openPauses(this.#heads);
    this.#waits = pauses.length;
    await openWaits(target, this.#heads);
    const rows = await target.target.backend.waits({ thread: target.thread });
    const ids = new Set(rows.map(({ id }) => id));
    return pauses
      .filter(({ interrupt }) => !ids.has(interrupt.id as string))
      .map(({ interrupt }) => `question ${interrupt.id} is not there`);
  }

  async #headDifferences(target: ThreadTarget): Promise<string[]> {
    const differences: string[] = [];
    for (const [ns, { place }] of this.#heads) {
      const head = await target.head(ns);
      if (head !== place.id)
        differences.push(`the newest checkpoint of namespace ${JSON.stringify(ns)} is ${head} instead of ${place.id}`);
    }
    return differences;
  }
}
