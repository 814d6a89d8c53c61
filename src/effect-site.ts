/**
 * Where an effect is called: the task, its run and thread, and the calls this attempt of the task has made so far.
 * Refuses places where an effect could not be kept, instead of waiting for a checkpoint that never comes.
 */

import { type Checkpointer, isCheckpointer } from "./checkpointer.ts";
import type { StoredEffect } from "./effect-record.ts";
import { HoldfastError } from "./errors.ts";
import { currentTask, type Scratchpad, type TaskPlace, watchRetries } from "./langgraph.ts";
import { abortedError, type RunState, type RunThread, runOf } from "./run-state.ts";

/** The effect calls of one attempt of a task. */
export interface Attempt {
  /** What earlier attempts recorded, read once when the first call comes. */
  recorded: Promise<StoredEffect[]> | undefined;
  /** Keys called in this attempt. */
  readonly called: Set<string>;
  /** Equal calls so far, by name and input. */
  readonly ordinals: Map<string, number>;
}

const newAttempt = (): Attempt => ({ recorded: undefined, called: new Set(), ordinals: new Map() });

/** By scratchpad: LangGraph makes one for every task it prepares. */
const attempts = new WeakMap<Scratchpad, Attempt>();

/**
 * Makes the ids of inner `task()` calls and subgraphs the same in every attempt of a node under `retryPolicy`; every
 * effect does this too. Call it first in such a node when its first effect stands inside a `task()`: without it a second
 * attempt gives that task another id, and the effect counts as a new one.
 *
 * @throws EFFECT_OUTSIDE_GRAPH
 */
export function stableTaskIds(): void {
  attemptOf(placeHere("stableTaskIds()"));
}

export function attemptOf(place: TaskPlace): Attempt {
  const { scratchpad } = place;
  if (scratchpad === undefined) return newAttempt();
  let attempt = attempts.get(scratchpad);
  if (attempt === undefined) {
    attempt = newAttempt();
    attempts.set(scratchpad, attempt);
    watchRetries(scratchpad, () => attempts.set(scratchpad, newAttempt()));
  }
  return attempt;
}

export interface Site {
  readonly place: TaskPlace;
  readonly saver: Checkpointer;
  readonly thread: RunThread;
  readonly attempt: Attempt;
}

export function placeHere(what: string): TaskPlace {
  const place = currentTask();
  if (place !== undefined) return place;
  throw new HoldfastError(
    "EFFECT_OUTSIDE_GRAPH",
    `${what} was called outside a node, tool or task of a running graph, so there is no checkpoint to keep it with. ` +
      "Call it inside a node; in callbacks that lost LangGraph's async context (timers, event emitters) pass the work back to the node.",
  );
}

/** The site of an effect, see {@link siteAt}. */
export function siteOf(name: string): Site {
  const what = `Effect ${JSON.stringify(name)}`;
  const site = siteAt(what);
  assertSurvives(what, site);
  return site;
}

/**
 * Where something that must be kept is called; `what` names it in errors.
 * @throws EFFECT_OUTSIDE_GRAPH, FOREIGN_CHECKPOINTER, EFFECT_NOT_DURABLE, RUN_REFUSED, EFFECT_ABORTED, CLOSED
 */
export function siteAt(what: string): Site {
  const place = placeHere(what);
  const { saver } = place;
  if (!isCheckpointer(saver)) {
    const found =
      saver === undefined || saver === null || saver === false
        ? "no checkpointer"
        : `a ${(saver as object).constructor?.name ?? typeof saver}`;
    throw new HoldfastError(
      "FOREIGN_CHECKPOINTER",
      `${what} was called in a graph with ${found}; that is kept beside the checkpoints of a Holdfast checkpointer. ` +
        'Compile the outermost graph with one: graph.compile({ checkpointer: await sqlite("holdfast.db") }).',
    );
  }
  if (saver.closed) throw new HoldfastError("CLOSED", `${what}: the checkpointer ${saver.backend.name} is closed.`);
  const run = runOf(place.config);
  const thread = place.thread === undefined ? undefined : run?.thread(place.thread);
  if (run === undefined || thread === undefined)
    throw notDurable(what, place, "this graph has not loaded the thread through the checkpointer");
  assertKept(what, place, run, thread);
  if (place.signal?.aborted) throw abortedError(thread.thread);
  thread.assertMayWrite();
  return { place, saver, thread, attempt: attemptOf(place) };
}

/** E1: waits until every checkpoint the task hangs on, and every earlier write of the run, is durable. */
export async function barrier(site: Site): Promise<void> {
  const { place, saver, thread } = site;
  const run = runOf(place.config) as RunState;
  for (const [ns, checkpoint] of place.checkpoints) {
    await run.holderOf(ns, thread).whenKnown(ns, checkpoint, place.signal);
  }
  await saver.barrier();
  assertMayStart(site);
}

/** E5. */
export function assertMayStart({ place, thread }: Site): void {
  thread.assertMayWrite();
  if (place.signal?.aborted) throw abortedError(thread.thread);
}

function assertKept(what: string, place: TaskPlace, run: RunState, thread: RunThread): void {
  if (!thread.namespaces.has(place.ns)) {
    throw notDurable(
      what,
      place,
      "the graph it is called in is compiled with `checkpointer: false`, so its steps are never stored. Compile that subgraph without the option",
    );
  }
  for (const ns of place.checkpoints.keys()) {
    const durability = run.holderOf(ns, thread).namespaces.get(ns);
    if (durability === undefined)
      throw notDurable(what, place, `the enclosing graph ${JSON.stringify(ns)} stores no checkpoints`);
    if (durability === "exit") {
      throw notDurable(
        what,
        place,
        'the run has `durability: "exit"`, which stores nothing before its end. Use "sync" or "async": effects wait for what they need in both',
      );
    }
  }
}

/** E1: what the store may forget is no record of an effect. */
function assertSurvives(what: string, { place, saver }: Site): void {
  const { durability, ephemeral } = saver.backend.capabilities;
  if (durability !== "none" || ephemeral === true || saver.effectsOnVolatile) return;
  throw notDurable(
    what,
    place,
    `${saver.backend.name} states durability "none": a restart of it may take what it has acknowledged, and the effect would ` +
      "run again. Let it keep its data (Redis: `appendonly yes`), state `durability` where it cannot be read from the " +
      "server, or accept that with the checkpointer's option effectsOnVolatile: true",
  );
}

function notDurable(what: string, place: TaskPlace, why: string): HoldfastError {
  return new HoldfastError(
    "EFFECT_NOT_DURABLE",
    `${what} cannot be kept in thread ${JSON.stringify(place.thread)}: ${why}. It was not run.`,
    {
      details: { thread: place.thread, ns: place.ns, task: place.task },
    },
  );
}
