/**
 * A thread's past as one timeline, newest first: checkpoints as a tree with the head, their tasks, what effects did, and
 * what was asked and decided. Streams: an entry is read when it is asked for.
 */

import type { StoredCheckpoint } from "./backend.ts";
import type { Checkpointer } from "./checkpointer.ts";
import type { EffectRecord } from "./effect-record.ts";
import { HoldfastError } from "./errors.ts";
import type { ForkableGraph } from "./fork-draft.ts";
import { type ForkMark, forkMarkOf, forkPolicyOf } from "./fork-mark.ts";
import { graphAt } from "./fork-place.ts";
import type { OnFork } from "./fork-policy.ts";
import { byPlace, type Places } from "./history-places.ts";
import { type HistoryTask, TaskReader } from "./history-tasks.ts";
import type { EffectRow } from "./model.ts";
import type { DecisionRecord, WaitRecord } from "./wait-record.ts";

/**
 * `executed` the body ran, and its outcome is known · `reused` the outcome of an effect outside the lineage was taken ·
 * `simulated` nothing happened, on purpose · `unknown` begun, and nobody knows · `failed` the body threw, and the outside may
 * have seen it · `not-executed` nothing happened · `given-up` by a person.
 */
export type EffectDeed = "executed" | "reused" | "simulated" | "unknown" | "failed" | "not-executed" | "given-up";

export interface HistoryEffect extends EffectRecord {
  readonly deed: EffectDeed;
  /** Whether the head's lineage does not contain it. */
  readonly left: boolean;
}

export interface HistoryWait extends WaitRecord {
  /** Everything that was decided about it, oldest first; `decision` is the last one. */
  readonly decisions: readonly DecisionRecord[];
}

/** One checkpoint and what happened from it. */
export interface HistoryEntry {
  readonly thread: string;
  /** "" in the root graph. */
  readonly ns: string;
  readonly checkpoint: string;
  readonly parent: string | undefined;
  /** Checkpoints that continue it; more than one where branches begin. */
  readonly children: readonly string[];
  /** Whether it is the thread's head, from which a run goes on. Of subgraphs: whether nothing continues it. */
  readonly head: boolean;
  /** Whether the head continues it. Of subgraphs: whether the head's lineage contains the superstep they ran in. */
  readonly onHead: boolean;
  /** Whether what its tasks did is no part of the head's lineage: of another branch, or of an attempt that was left. */
  readonly left: boolean;
  /** LangGraph's: "input", "loop", "update" or "fork". */
  readonly source: string;
  readonly step: number;
  readonly createdAt: Date;
  /** Where it was forked from, or rolled back to. */
  readonly fork: ForkMark | undefined;
  /** What its branch does about effects that were left behind; undefined: what each says. */
  readonly effectsPolicy: OnFork | undefined;
  /** Nodes whose tasks run from here, done or not: what a fork at this checkpoint runs first. */
  readonly next: readonly string[];
  readonly tasks: readonly HistoryTask[];
  /** Effects of its tasks and, unless subgraphs are listed too, of the graphs inside them; oldest first. */
  readonly effects: readonly HistoryEffect[];
  /** Of the first checkpoint of a thread that was forked from another one: the effects that it took along. */
  readonly carried: readonly HistoryEffect[];
  readonly waits: readonly HistoryWait[];
  /** The state; only with `values: true`. */
  readonly values: unknown;
}

export interface HistoryOptions {
  /** At most so many entries; default all. */
  readonly limit?: number;
  /** Only entries before this checkpoint: where a page continues. */
  readonly before?: string;
  /** Whether checkpoints of subgraphs are entries too. Default false. */
  readonly subgraphs?: boolean;
  /** Whether the state is loaded. Default false. */
  readonly values?: boolean;
}

export async function* readHistory(
  app: ForkableGraph,
  saver: Checkpointer,
  thread: string,
  options: HistoryOptions,
): AsyncGenerator<HistoryEntry> {
  await saver.barrier();
  const { limit = Number.POSITIVE_INFINITY, before, subgraphs = false, values = false } = options;
  const { backend } = saver;
  const places = await byPlace(saver, thread, subgraphs);
  if (before !== undefined && !places.has(before)) throw unknownBefore(thread, before);
  const reader = new TaskReader(saver, thread, values);
  const graphs = new Map<string, Promise<ForkableGraph | undefined>>();
  const rows = backend.checkpoints({
    thread,
    ...(subgraphs ? {} : { ns: "" }),
    ...(before === undefined ? {} : { before }),
    ...(Number.isFinite(limit) ? { limit } : {}),
  });
  for await (const stored of rows) {
    let graph = graphs.get(stored.ns);
    if (graph === undefined) {
      graph = graphAt(app, stored.ns);
      graphs.set(stored.ns, graph);
    }
    yield await entryOf(saver, stored, await graph, reader, places);
  }
}

async function entryOf(
  saver: Checkpointer,
  stored: StoredCheckpoint,
  graph: ForkableGraph | undefined,
  reader: TaskReader,
  places: Places,
): Promise<HistoryEntry> {
  const { thread, ns, id, parent, source } = stored;
  const read = await reader.read(stored, graph);
  const { tasks, values } = graph === undefined ? { tasks: [], values: undefined } : await reader.tasksOf(read, graph);
  const metadata = (read.tuple.metadata ?? {}) as Readonly<Record<string, unknown>>;
  const place = places.at(ns, id, metadata);
  const effectOf = async (row: EffectRow): Promise<HistoryEffect> => {
    const { record } = await saver.effectLedger.read(row);
    return { ...record, deed: deedOf(record), left: await places.isLeft(record.checkpoints) };
  };
  const effects = await Promise.all(place.effects.map(effectOf));
  const carried = await Promise.all(place.carried.map(effectOf));
  const waits: HistoryWait[] = [];
  for (const row of place.waits) {
    const { record } = await saver.waitLedger.read(row);
    waits.push({ ...record, decisions: await places.decisionsOf(row.id) });
  }
  return {
    thread,
    ns,
    checkpoint: id,
    parent,
    children: place.children,
    head: place.head,
    onHead: place.onHead,
    left: place.left,
    source,
    step: Number(metadata["step"] ?? -1),
    createdAt: new Date(read.tuple.checkpoint.ts),
    fork: forkMarkOf(metadata),
    effectsPolicy: forkPolicyOf(metadata),
    next: tasks.map(({ name }) => name),
    tasks,
    effects: effects.sort(byTime),
    carried: carried.sort(byTime),
    waits,
    values,
  };
}

const byTime = (a: EffectRecord, b: EffectRecord) => a.begunAt.getTime() - b.begunAt.getTime();

export function deedOf({ status, links }: EffectRecord): EffectDeed {
  switch (status) {
    case "done":
      return links.simulated === true ? "simulated" : links.reusedFrom === undefined ? "executed" : "reused";
    case "intent":
      return "unknown";
    case "failed":
    case "not-executed":
    case "given-up":
      return status;
    default: {
      const never: never = status;
      return never;
    }
  }
}

const HISTORY_OPTIONS = ["limit", "before", "subgraphs", "values"];

/** @throws INVALID_ARGUMENT */
export function checkHistory(thread: unknown, options: HistoryOptions): void {
  const bad = (what: string) => new HoldfastError("INVALID_ARGUMENT", `history: ${what}`);
  if (typeof thread !== "string" || thread === "") throw bad(`thread is ${JSON.stringify(thread)}; use a thread's id.`);
  for (const option of Object.keys(options)) {
    if (!HISTORY_OPTIONS.includes(option))
      throw bad(`unknown option ${JSON.stringify(option)}. Known: ${HISTORY_OPTIONS.join(", ")}.`);
  }
  const { limit, before } = options;
  if (limit !== undefined && !(Number.isInteger(limit) && limit > 0))
    throw bad(`limit is ${JSON.stringify(limit)}; use a whole number from 1.`);
  if (before !== undefined && (typeof before !== "string" || before === ""))
    throw bad(`before is ${JSON.stringify(before)}; use the id of a checkpoint.`);
}

function unknownBefore(thread: string, before: string): HoldfastError {
  return new HoldfastError(
    "UNKNOWN_CHECKPOINT",
    `Thread ${JSON.stringify(thread)} has no checkpoint ${JSON.stringify(before)}; \`before\` is the checkpoint of an entry.`,
    { details: { thread, checkpoint: before } },
  );
}
