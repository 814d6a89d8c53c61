/**
 * One thread of a source: its checkpoints in an order in which they can be put, as they are to be stored, and what the
 * official saver has done to them.
 */

import { isDeepStrictEqual } from "node:util";
import { type CheckpointTuple, compareWritesSortKeys, writesSortKey } from "@langchain/langgraph-checkpoint";
import { NULL_TASK_ID, RESUME } from "../langgraph.ts";
import type { AdoptSource, SourcePlace } from "./source.ts";

/** What LangGraph's serializer stores in place of a value with a BigInt, or one that contains itself too deeply. */
const LOST = "[unable to serialize, circular reference is too complex to analyze]";

export class ThreadSource {
  readonly thread: string;
  readonly #source: AdoptSource;
  /** Newest first. */
  readonly places: readonly SourcePlace[];
  readonly #notes = new Set<string>();
  readonly #unreadable = new Map<string, string>();
  /** Namespace, channel and version → the checkpoint that brought it in. */
  readonly #introduced = new Map<string, string>();
  readonly #versions = new Map<string, Readonly<Record<string, string | number>>>();

  private constructor(source: AdoptSource, thread: string, places: readonly SourcePlace[]) {
    this.#source = source;
    this.thread = thread;
    this.places = places;
  }

  static async open(source: AdoptSource, thread: string): Promise<ThreadSource> {
    return new ThreadSource(source, thread, await source.places(thread));
  }

  get notes(): readonly string[] {
    return [...this.#notes];
  }

  /** Checkpoints that the official saver cannot read, and why, in words. */
  get unreadable(): readonly string[] {
    return [...this.#unreadable.values()];
  }

  isUnreadable(place: SourcePlace): boolean {
    return this.#unreadable.has(key(place));
  }

  /** Parents before their children, else by id: a put carries over what it shares with the checkpoint before it. */
  *inOrder(): Generator<SourcePlace> {
    const byKey = new Map(this.places.map((place) => [key(place), place]));
    const done = new Set<string>();
    for (const place of [...this.places].reverse()) {
      const line: SourcePlace[] = [];
      for (let at: SourcePlace | undefined = place; at !== undefined && !done.has(key(at)); ) {
        line.push(at);
        done.add(key(at));
        at = at.parent === undefined ? undefined : byKey.get(key({ ns: at.ns, id: at.parent }));
      }
      yield* line.reverse();
    }
  }

  /** The newest readable checkpoint of each namespace: what the official saver takes for the latest. */
  heads(): Map<string, SourcePlace> {
    const heads = new Map<string, SourcePlace>();
    for (const place of this.places) if (!heads.has(place.ns) && !this.isUnreadable(place)) heads.set(place.ns, place);
    return heads;
  }

  /** The checkpoint as it is to be stored; undefined where the official saver cannot read it. */
  async read(place: SourcePlace): Promise<CheckpointTuple | undefined> {
    if (this.isUnreadable(place)) return undefined;
    let tuple: CheckpointTuple;
    try {
      const read = await this.#source.read(this.thread, place);
      for (const note of read.corrected) this.#notes.add(note);
      tuple = read.tuple;
    } catch (error) {
      this.#lose(place, error instanceof Error ? error.message : String(error));
      return undefined;
    }
    if (typeof tuple.checkpoint !== "object" || tuple.checkpoint?.id !== place.id) {
      const lost = (tuple.checkpoint as unknown) === LOST;
      this.#lose(place, lost ? "the whole state was stored as “unable to serialize”" : "it holds no checkpoint");
      return undefined;
    }
    this.#noteLost(tuple, place);
    if (this.#source.sharesValues) this.#noteShared(tuple, place);
    return this.#withoutTakenAnswer(inOrderOfTasks(tuple), place);
  }

  #lose(place: SourcePlace, why: string): void {
    this.#unreadable.set(
      key(place),
      `checkpoint ${place.id}${within(place.ns)} cannot be read by ${this.#source.saver}: ${why}`,
    );
  }

  #noteLost({ checkpoint, pendingWrites = [] }: CheckpointTuple, { id, ns }: SourcePlace): void {
    const lost = (what: string) =>
      this.#notes.add(
        `checkpoint ${id}${within(ns)}: ${what} was stored as “unable to serialize” (a BigInt, for example); its value is lost in the source`,
      );
    for (const [channel, value] of Object.entries(checkpoint.channel_values))
      if (value === LOST) lost(`channel ${JSON.stringify(channel)}`);
    for (const [task, channel, value] of pendingWrites)
      if (value === LOST) lost(`the write of task ${task} to ${JSON.stringify(channel)}`);
  }

  /** Two checkpoints that both bring in the same version of a channel share one value in the source: the first one's. */
  #noteShared({ checkpoint }: CheckpointTuple, { ns, id, parent }: SourcePlace): void {
    const before = parent === undefined ? undefined : this.#versions.get(key({ ns, id: parent }));
    this.#versions.set(key({ ns, id }), checkpoint.channel_versions);
    for (const [channel, version] of Object.entries(checkpoint.channel_versions)) {
      if (before?.[channel] === version) continue;
      const slot = JSON.stringify([ns, channel, String(version)]);
      const first = this.#introduced.get(slot);
      if (first === undefined) this.#introduced.set(slot, id);
      else if (first !== id)
        this.#notes.add(
          `checkpoints ${first} and ${id}${within(ns)} stand on different branches and share one stored value of channel ${JSON.stringify(channel)} ` +
            `(version ${version}): ${this.#source.saver} keeps the first one only. Taken over as it reads it.`,
        );
    }
  }

  /**
   * A resume without a name stays in the official database after a question has taken it, and the next question of the
   * same superstep would take it once more. So one that a task has taken is left out.
   */
  #withoutTakenAnswer(tuple: CheckpointTuple, { id, ns }: SourcePlace): CheckpointTuple {
    const { pendingWrites = [] } = tuple;
    const given = pendingWrites.find(([task, channel]) => task === NULL_TASK_ID && channel === RESUME);
    if (given === undefined) return tuple;
    const taken = pendingWrites.some(
      ([task, channel, value]) =>
        task !== NULL_TASK_ID &&
        channel === RESUME &&
        Array.isArray(value) &&
        value.some((answer) => isDeepStrictEqual(answer, given[2])),
    );
    if (!taken) return tuple;
    this.#notes.add(
      `checkpoint ${id}${within(ns)}: an answer that was taken already is left out; it would have answered the next question too`,
    );
    return { ...tuple, pendingWrites: pendingWrites.filter((write) => write !== given) };
  }
}

/** LangGraph's own order of writes. A database sorts by its collation, which may be another one. */
function inOrderOfTasks(tuple: CheckpointTuple): CheckpointTuple {
  const { pendingWrites = [] } = tuple;
  const sorted = pendingWrites.toSorted(([a], [b]) =>
    compareWritesSortKeys(writesSortKey("", a), writesSortKey("", b)),
  );
  return { ...tuple, pendingWrites: sorted };
}

export const key = ({ ns, id }: { readonly ns: string; readonly id: string }): string => JSON.stringify([ns, id]);

const within = (ns: string): string => (ns === "" ? "" : ` of namespace ${JSON.stringify(ns)}`);
