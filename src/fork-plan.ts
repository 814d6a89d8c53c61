/**
 * What a fork will store, decided and checked before anything is written: the new checkpoint, those of the graphs around it,
 * and, for graphs that keep their state across calls, that state as it was then.
 */

import {
  type Checkpoint,
  type CheckpointMetadata,
  copyCheckpoint,
  emptyCheckpoint,
  uuid6,
} from "@langchain/langgraph-checkpoint";
import type { Checkpointer } from "./checkpointer.ts";
import { HoldfastError } from "./errors.ts";
import { type Draft, DraftSaver, type Edit, type ForkableGraph } from "./fork-draft.ts";
import { EFFECTS_KEY, FORK_KEY, type ForkMark, forkPolicyOf, readMetadata } from "./fork-mark.ts";
import { type ForkLevel, type ForkPlace, findPlace, graphAt, namespaceIn } from "./fork-place.ts";
import type { OnFork } from "./fork-policy.ts";
import { Lineage } from "./lineage.ts";
import { originOf } from "./thread-origin.ts";

export interface ForkRequest extends Edit {
  readonly thread: string;
  readonly checkpoint: string;
  readonly effects?: OnFork | undefined;
  /** Another thread to begin; undefined: in the same one. */
  readonly to?: string | undefined;
  readonly kind: ForkMark["kind"];
}

/** A checkpoint to be stored. */
export interface Placement {
  readonly ns: string;
  readonly parent: string | undefined;
  readonly source: string;
  readonly checkpoint: Checkpoint;
  readonly metadata: CheckpointMetadata;
  /** The stored checkpoint of the forked thread that it continues: what did not change is as it stands there. */
  readonly from: { readonly ns: string; readonly id: string };
}

export interface ForkPlan {
  readonly request: ForkRequest;
  readonly place: ForkPlace;
  readonly draft: DraftSaver;
  /** The root's one is the last. */
  readonly placements: readonly Placement[];
  readonly effects: OnFork | undefined;
  /** What counts as done on the new branch. */
  readonly lineage: Lineage;
}

/** @throws UNKNOWN_CHECKPOINT, INVALID_ARGUMENT, NOT_SUPPORTED */
export async function planFork(app: ForkableGraph, saver: Checkpointer, request: ForkRequest): Promise<ForkPlan> {
  await saver.barrier();
  const draft = new DraftSaver(saver);
  const place = await findPlace(saver.backend, draft, request.thread, request.checkpoint);
  const [root, ...inner] = place.levels;
  const effects = request.effects ?? forkPolicyOf(root.read.tuple.metadata as Record<string, unknown> | undefined);
  const mark: ForkMark = {
    kind: request.kind,
    thread: request.thread,
    checkpoint: root.id,
    ...(inner.length === 0 ? {} : { inner: Object.fromEntries(inner.map(({ ns, id }) => [ns, id])) }),
  };
  const marked = {
    [FORK_KEY]: mark,
    ...(effects === undefined ? {} : { [EFFECTS_KEY]: effects }),
  };
  const levels = await draftLevels(app, draft, place, request, marked);
  const planned = new Map(place.levels.map(({ ns, id }) => [ns, id]));
  const here = new Map(levels.map(({ ns, checkpoint }) => [ns, checkpoint.id]));
  const { backend } = saver;
  const lineage = new Lineage(
    backend,
    saver.effectLedger.serde,
    { thread: request.thread, committed: undefined },
    here,
    planned,
  );
  const states = await keptStates(app, saver, draft, place, levels, request.to !== undefined);
  return { request, place, draft, placements: [...states, ...levels.reverse()], effects, lineage };
}

/** One placement a level, outermost first. */
async function draftLevels(
  app: ForkableGraph,
  draft: DraftSaver,
  { thread, levels }: ForkPlace,
  { values, asNode, to }: ForkRequest,
  marked: Readonly<Record<string, unknown>>,
): Promise<Placement[]> {
  const placements: Placement[] = [];
  const parents: Record<string, string> = {};
  for (const [i, level] of levels.entries()) {
    const last = i === levels.length - 1;
    const edits = last && (values !== undefined || asNode !== undefined);
    const outer = placements[i - 1];
    const from = levels[i - 1];
    const ns =
      outer === undefined || from === undefined
        ? ""
        : namespaceIn(level, from, { ns: outer.ns, id: outer.checkpoint.id, step: outer.metadata.step });
    const made = await draftLevel(app, draft, thread, level, edits ? { values, asNode } : {}, edits);
    const source = edits ? made.metadata.source : "fork";
    placements.push({
      ns,
      // In a namespace of its own, and in a thread of its own, it is the first.
      parent: to === undefined && ns === level.ns ? level.id : undefined,
      source,
      checkpoint: made.checkpoint,
      metadata: {
        ...made.metadata,
        source,
        parents: { ...parents },
        ...(ns === "" ? { ...originOf(level.read.tuple), ...marked } : {}),
      } as CheckpointMetadata,
      from: level,
    });
    parents[ns] = made.checkpoint.id;
  }
  return placements;
}

async function draftLevel(
  app: ForkableGraph,
  draft: DraftSaver,
  thread: string,
  { ns, id, read }: ForkLevel,
  edit: Edit,
  edits: boolean,
): Promise<Draft> {
  const graph = await graphAt(app, ns);
  if (graph !== undefined) {
    return draft.draft(graph, { configurable: { thread_id: thread, checkpoint_ns: ns, checkpoint_id: id } }, edit);
  }
  const { checkpoint, metadata } = read.tuple;
  const whole = Object.keys(metadata ?? {}).every((key) => !key.includes("delta"));
  if (!edits && whole && metadata !== undefined) return copyOf(checkpoint, metadata);
  throw new HoldfastError(
    "NOT_SUPPORTED",
    `The graph of namespace ${JSON.stringify(ns)} is not found among the subgraphs of the nodes (it is called inside a node), so LangGraph ` +
      `cannot ${edits ? "edit its state" : "copy a state with DeltaChannels"}. Add it as a node, name it in addNode's \`subgraphs\`, or fork at the checkpoint around it.`,
    { details: { checkpoint: id, ns } },
  );
}

function copyOf(checkpoint: Checkpoint, metadata: CheckpointMetadata): Draft {
  const step = metadata.step + 1;
  return {
    checkpoint: { ...copyCheckpoint(checkpoint), id: uuid6(step), ts: new Date().toISOString() },
    metadata: { ...metadata, source: "fork", step },
  };
}

/**
 * Graphs compiled with `checkpointer: true` keep their state across calls, in one namespace for all branches. Their newest
 * state is made that of the place of the fork again, so that every later run finds it, whoever starts it.
 */
async function keptStates(
  app: ForkableGraph,
  saver: Checkpointer,
  draft: DraftSaver,
  place: ForkPlace,
  levels: readonly Placement[],
  elsewhere: boolean,
): Promise<Placement[]> {
  const placements: Placement[] = [];
  const taken = new Set(levels.map(({ ns }) => ns));
  let done: readonly string[] | undefined;
  for await (const [ns, graph] of app.getSubgraphsAsync(undefined, true)) {
    if ((graph as ForkableGraph).checkpointer !== true || taken.has(ns)) continue;
    taken.add(ns);
    const { head } = await saver.backend.load(place.thread, ns, undefined);
    if (head === undefined) continue;
    done ??= await completedOf(saver, place);
    const id = await stateThen(saver, place.thread, ns, done);
    if (id === undefined ? elsewhere : id === head && !elsewhere) continue;
    const level = id === undefined ? undefined : await draft.read(place.thread, ns, id);
    const made =
      level === undefined || id === undefined
        ? { checkpoint: emptyCheckpoint(), metadata: { source: "fork", step: -2, parents: {} } as CheckpointMetadata }
        : await draftLevel(app, draft, place.thread, { ns, id, read: level }, {}, false);
    const parents = level?.tuple.metadata?.parents ?? {};
    placements.push({
      ns,
      parent: elsewhere ? undefined : id,
      source: "fork",
      checkpoint: made.checkpoint,
      metadata: { ...made.metadata, source: "fork", parents },
      from: { ns, id: id ?? "" },
    });
  }
  return placements;
}

/** Root checkpoints whose superstep is complete at the place, newest first. */
async function completedOf(saver: Checkpointer, { thread, levels }: ForkPlace): Promise<string[]> {
  const done: string[] = [];
  for await (const row of saver.backend.ancestors(thread, "", levels[0].id)) {
    if (row.source === "loop" && row.parent !== undefined) done.push(row.parent);
  }
  return done;
}

/** The namespace's last checkpoint of the newest of these supersteps that ran it. */
async function stateThen(
  saver: Checkpointer,
  thread: string,
  ns: string,
  done: readonly string[],
): Promise<string | undefined> {
  const { backend, effectLedger } = saver;
  const rank = new Map(done.map((id, i) => [id, i]));
  let best: { readonly id: string; readonly rank: number } | undefined;
  for await (const row of backend.checkpoints({ thread, ns })) {
    const { parents } = await readMetadata(backend, effectLedger.serde, row);
    const at = rank.get((parents as Record<string, string> | undefined)?.[""] ?? "");
    if (at === undefined || (best !== undefined && at >= best.rank)) continue;
    best = { id: row.id, rank: at };
    if (at === 0) break;
  }
  return best?.id;
}
