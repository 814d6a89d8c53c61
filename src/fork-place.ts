/** Where a fork begins: a checkpoint of the root graph, or of a graph inside it with all checkpoints around it. */

import type { Backend, Loaded } from "./backend.ts";
import type { ReadCheckpoint } from "./checkpoint-reader.ts";
import { HoldfastError } from "./errors.ts";
import type { DraftSaver, ForkableGraph } from "./fork-draft.ts";
import { sameTaskIn, TASKS } from "./langgraph.ts";

/** A checkpoint of one of the graphs around the place of a fork. */
export interface ForkLevel {
  readonly ns: string;
  readonly id: string;
  readonly read: ReadCheckpoint;
}

export interface ForkPlace {
  readonly thread: string;
  /** The thread's root as it was found. */
  readonly root: Loaded;
  /** Outermost first; the last one is where the fork begins. */
  readonly levels: readonly [ForkLevel, ...ForkLevel[]];
}

/** @throws UNKNOWN_CHECKPOINT */
export async function findPlace(
  backend: Backend,
  draft: DraftSaver,
  thread: string,
  checkpoint: string,
): Promise<ForkPlace> {
  const root = await backend.load(thread, "", undefined);
  const ns = await findNamespace(backend, thread, checkpoint);
  if (ns === undefined) throw unknownCheckpoint(thread, checkpoint);
  const last = await level(draft, thread, ns, checkpoint);
  const { parents = {} } = last.read.tuple.metadata ?? {};
  const levels: ForkLevel[] = [];
  let outer: string | undefined;
  for (const [around, id] of Object.entries(parents).sort(([a], [b]) => a.length - b.length)) {
    // Inner `task()` calls list their caller's checkpoint once more.
    if (ns === "" || id === outer) continue;
    levels.push(await level(draft, thread, around, id));
    outer = id;
  }
  return { thread, root, levels: [...levels, last] as unknown as [ForkLevel, ...ForkLevel[]] };
}

/** Where a checkpoint of the thread stands; undefined where there is none with this id. */
export async function findNamespace(backend: Backend, thread: string, id: string): Promise<string | undefined> {
  if ((await backend.load(thread, "", id)).checkpoint !== undefined) return "";
  for await (const { ns } of backend.checkpoints({ thread, id, limit: 1 })) return ns;
  return undefined;
}

async function level(draft: DraftSaver, thread: string, ns: string, id: string): Promise<ForkLevel> {
  const read = await draft.read(thread, ns, id);
  if (read === undefined) throw unknownCheckpoint(thread, id, ns);
  return { ns, id, read };
}

/**
 * The namespace that a graph inside has in a fork. Its last part names the task that runs it, and that task has another
 * id under another checkpoint.
 *
 * @param inner the graph's namespace and outer the checkpoint around it, as they are stored
 * @param to namespace and checkpoint around it in the fork
 * @throws NOT_SUPPORTED where the graph is run by an inner `task()` call
 */
export function namespaceIn(
  inner: ForkLevel,
  outer: ForkLevel,
  to: { readonly ns: string; readonly id: string; readonly step: number },
): string {
  // A graph that keeps its state across calls has a namespace without task ids.
  if (!inner.ns.includes(":")) return inner.ns;
  const rest = outer.ns === "" ? inner.ns : inner.ns.slice(outer.ns.length + 1);
  const [task = "", ...counters] = rest.split("|");
  const colon = task.indexOf(":");
  const prefix = to.ns === "" ? "" : `${to.ns}|`;
  const { checkpoint, metadata } = outer.read.tuple;
  const name = task.slice(0, colon);
  const sends = checkpoint.channel_values[TASKS];
  const from = { ns: outer.ns, id: outer.id, step: metadata?.step ?? -1 };
  const triggers = Object.keys(checkpoint.channel_versions);
  const known = counters.every((part) => /^\d+$/.test(part));
  const id = known
    ? sameTaskIn(name, task.slice(colon + 1), from, to, triggers, Array.isArray(sends) ? sends.length : 0)
    : undefined;
  if (id === undefined) {
    throw new HoldfastError(
      "NOT_SUPPORTED",
      `Checkpoint ${inner.id} belongs to a graph that was run inside a task() call or an error handler (${inner.ns}), and no fork can begin ` +
        `inside it. Fork at the checkpoint around it: ${outer.id}.`,
      { details: { checkpoint: inner.id, ns: inner.ns, around: outer.id } },
    );
  }
  return `${prefix}${[`${name}:${id}`, ...counters].join("|")}`;
}

/** The graph that stores this namespace, where it can be found among the nodes' subgraphs. */
export async function graphAt(app: ForkableGraph, ns: string): Promise<ForkableGraph | undefined> {
  if (ns === "") return app;
  const names = ns.split("|").filter((part) => !/^\d+$/.test(part));
  const path = names.map((part) => part.split(":")[0]).join("|");
  for await (const [, graph] of app.getSubgraphsAsync(path, true)) return graph as ForkableGraph;
  return undefined;
}

function unknownCheckpoint(thread: string, checkpoint: string, ns?: string): HoldfastError {
  return new HoldfastError(
    "UNKNOWN_CHECKPOINT",
    `Thread ${JSON.stringify(thread)} has no checkpoint ${JSON.stringify(checkpoint)}${ns === undefined ? "" : ` in namespace ${JSON.stringify(ns)}`}. ` +
      "history(thread) lists them.",
    { details: { thread, checkpoint } },
  );
}
