/**
 * Everything of LangGraph's inside that Holdfast relies on, in one file. `test/langgraph-internals.test.ts` has a test
 * for each item, so that a LangGraph version that changes one is found before a user finds it.
 *
 * - A run's `getTuple` receives a config with `control`; that of `getState` and `updateState` has none.
 * - A symbol-keyed property of `configurable` set in that `getTuple` reaches every later saver call of the run and every
 *   node, tool, lambda and subgraph in it, and never the caller's own object.
 * - In a task `configurable` holds the saver, the task id, the task's namespace, the map of all enclosing checkpoints and
 *   the scratchpad, also where `executionInfo` is hidden (tools, lambdas).
 * - The scratchpad is one object per prepared task; a retry sets its `interruptCounter` to −1.
 * - An inner `task()` call and an error handler list their caller's checkpoint once more, under the caller's namespace.
 * - In async durability no put of a graph is called after one that failed.
 * - `configurable.__pregel_strict_resume` set in that `getTuple` makes the resume strict.
 * - A resume arrives as a write of the null task, one with names under the names' ids; a subgraph repeats the null task's.
 * - A run that goes on marks all channels of its graph as seen by interrupts; one that begins with an input does not.
 * - A breakpoint stops a run where any channel is newer than what interrupts have seen, also one that the graph has lost.
 * - `getState` and `updateState` use a saver that `configurable` lends them, with one `put` for an update.
 * - A task's id is made of its namespace, step, name, trigger and the id of its checkpoint.
 * - A context variable that `getTuple` sets before it returns its promise is seen by the run's tasks. LangChain asks it for a
 *   handler before each node, takes it for one where `awaitHandlers` is a boolean, and waits for it where that is true.
 * - A DeltaChannel that has pending writes is stored whole by an update; its `lc_graph_name` tells it.
 */

import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import { getContextVariable, registerConfigureHook, setContextVariable } from "@langchain/core/context";
import { AsyncLocalStorageProviderSingleton } from "@langchain/core/singletons";
import type { ChannelVersions, Checkpoint } from "@langchain/langgraph-checkpoint";
import { uuid5 } from "@langchain/langgraph-checkpoint";

/** The parts of a LangGraph run config that we read. */
export interface GraphConfig {
  readonly configurable?: Record<PropertyKey, unknown>;
  readonly metadata?: Record<string, unknown>;
  readonly signal?: AbortSignal;
  readonly durability?: string;
  readonly control?: unknown;
}

export type Durability = "sync" | "async" | "exit";

/** Pending writes under this task id are the input or resume of a Command, not of a task. */
export const NULL_TASK_ID = "00000000-0000-0000-0000-000000000000";

/** The channels of a task's pauses, and of what was answered to them. */
export const INTERRUPT = "__interrupt__";
export const RESUME = "__resume__";
/** The channel of a task's error. */
export const TASK_ERROR = "__error__";

/** The channel of pending Sends. */
export const TASKS = "__pregel_tasks";

/** Writes under these channels have a fixed index of their own and are replaced, not kept. */
export const SPECIAL_WRITES: ReadonlyMap<string, number> = new Map([
  [TASK_ERROR, -1],
  ["__scheduled__", -2],
  [INTERRUPT, -3],
  [RESUME, -4],
]);

export interface Scratchpad {
  interruptCounter: number;
  callCounter: number;
  subgraphCounter: number;
}

/** Where a piece of user code runs. */
export interface TaskPlace {
  readonly config: GraphConfig;
  readonly saver: unknown;
  readonly thread: string | undefined;
  readonly task: string;
  /** Namespace of the graph the task belongs to; "" is the root. */
  readonly ns: string;
  /** The checkpoint the task runs from. */
  readonly checkpoint: string;
  /** Namespace → checkpoint id, of the task's graph and all graphs around it. */
  readonly checkpoints: ReadonlyMap<string, string>;
  readonly scratchpad: Scratchpad | undefined;
  readonly signal: AbortSignal | undefined;
}

/** The config of the running node, tool or lambda; undefined outside a graph. */
export function ambientConfig(): GraphConfig | undefined {
  return AsyncLocalStorageProviderSingleton.getRunnableConfig() as GraphConfig | undefined;
}

/** Where the caller runs, or undefined where it is not inside a task of a graph. */
export function currentTask(config: GraphConfig | undefined = ambientConfig()): TaskPlace | undefined {
  const configurable = config?.configurable;
  const task = configurable?.["__pregel_task_id"];
  if (config === undefined || configurable === undefined || typeof task !== "string") return undefined;
  const graphs = graphsAround(
    configurable["checkpoint_map"] as Readonly<Record<string, string>> | undefined,
    String(configurable["checkpoint_ns"] ?? ""),
  );
  const [ns, checkpoint] = [...graphs].at(-1) ?? ["", ""];
  return {
    config,
    saver: configurable["__pregel_checkpointer"],
    thread: configurable["thread_id"] === undefined ? undefined : String(configurable["thread_id"]),
    task,
    ns,
    checkpoint,
    checkpoints: graphs,
    scratchpad: configurable["__pregel_scratchpad"] as Scratchpad | undefined,
    signal: config.signal,
  };
}

/**
 * The graphs around a task, outermost first. Inner `task()` calls and error handlers belong to the graph of their
 * caller: LangGraph lists them under a namespace of their own with the same checkpoint, which is never stored.
 */
function graphsAround(map: Readonly<Record<string, string>> = {}, task: string): Map<string, string> {
  const graphs = new Map<string, string>();
  let outer: string | undefined;
  for (const [ns, checkpoint] of Object.entries(map).sort(([a], [b]) => a.length - b.length)) {
    // Where a state of a subgraph is addressed, LangGraph hands its map on, also to tasks that are not in that subgraph.
    if (checkpoint === outer || !(ns === "" || task.startsWith(`${ns}|`))) continue;
    graphs.set(ns, checkpoint);
    outer = checkpoint;
  }
  return graphs;
}

/** The checkpoints that a saver call belongs to: of its own namespace, and of the graphs around it. */
export function checkpointsAround(
  config: GraphConfig,
  { ns, checkpoint }: { readonly ns: string; readonly checkpoint: string | undefined },
): Map<string, string> {
  const map = (config.configurable?.["checkpoint_map"] ?? {}) as Readonly<Record<string, string>>;
  return new Map([...Object.entries(map), [ns, checkpoint ?? ""]]);
}

/** A run's durability as its saver calls carry it. LangGraph's default is "async". */
export function durabilityOf(config: GraphConfig): Durability {
  const value = config.durability ?? config.configurable?.["__pregel_durability"];
  return value === "sync" || value === "exit" ? value : "async";
}

/**
 * Turns LangGraph's strict resume on, unless the caller has decided: a resume that names no open question, or none where
 * several are open, is refused before anything is written. Without it such an answer is given to every question, or kept
 * for the next one.
 */
export function resumeStrictly(config: GraphConfig): void {
  const { configurable } = config;
  if (configurable !== undefined) configurable["__pregel_strict_resume"] ??= true;
}

/** Where a store has fallen behind, and when it has caught up. */
export interface Pressure {
  readonly crowded: boolean;
  room(): Promise<void>;
}

const GATE = "holdfast_gate";

/** A callback handler that is waited for before each node. Without pressure LangChain does not take it for a handler. */
class Gate extends BaseCallbackHandler {
  override readonly name = GATE;
  readonly #pressure: Pressure;

  constructor(pressure: Pressure) {
    super();
    this.#pressure = pressure;
    Object.defineProperty(this, "awaitHandlers", { get: () => pressure.crowded || undefined });
  }

  override async handleChainStart(): Promise<void> {
    await this.#pressure.room();
  }
}

/**
 * Lets the nodes of the run that is being loaded wait while `pressure` is high: LangGraph itself waits for no saver in async
 * durability. To be called by `getTuple` before it returns for the first time: what is set there stays with the run.
 */
export function holdUnder(pressure: Pressure): void {
  if (getContextVariable(GATE) === undefined) registerConfigureHook({ contextVar: GATE, inheritable: false });
  setContextVariable(GATE, new Gate(pressure));
}

/**
 * A graph compiled with `checkpointer: true` keeps its state across calls. Where what it has loaded is of an earlier call
 * (it ran from other checkpoints around it, `parents`), this call is no continuation of it, whatever the run around it is:
 * LangGraph would take the earlier call's result for this one's.
 */
export function beginAnew(config: GraphConfig, parents: Readonly<Record<string, string>> = {}): void {
  const { configurable = {} } = config;
  const around = (configurable["checkpoint_map"] ?? {}) as Readonly<Record<string, string>>;
  // A map that was handed over by a caller may hold more namespaces than those around.
  const other = Object.entries(parents).some(
    ([ns, checkpoint]) => Object.hasOwn(around, ns) && around[ns] !== checkpoint,
  );
  if (other) delete configurable["__pregel_resuming"];
}

/** Makes a version that a load marks as seen one that LangGraph itself never gives. */
const MARK = 0.5;

/**
 * What a run loads, with every channel marked as seen by interrupts. LangGraph itself marks those of its graph when a
 * run goes on; where the graph has lost a channel since, that one would count as news for ever, and a breakpoint would
 * stop the thread again each time. A run that begins with an input writes channels, so its breakpoints stop it as before.
 *
 * The marks can be told from LangGraph's own, and {@link withoutMarks} takes them away before anything is stored.
 */
export function withMarks(checkpoint: Checkpoint): Checkpoint {
  const news = Object.entries(unseen(checkpoint)).filter(([, version]) => typeof version === "number");
  if (news.length === 0) return checkpoint;
  const { versions_seen } = checkpoint;
  const marks = Object.fromEntries(news.map(([channel, version]) => [channel, (version as number) + MARK]));
  return { ...checkpoint, versions_seen: { ...versions_seen, [INTERRUPT]: { ...versions_seen[INTERRUPT], ...marks } } };
}

/** A checkpoint as it is stored: channels that LangGraph has not marked itself since the load are as they were `before`. */
export function withoutMarks(checkpoint: Checkpoint, before: ChannelVersions | undefined): Checkpoint {
  const seen = checkpoint.versions_seen[INTERRUPT];
  if (seen === undefined || Object.values(seen).every(Number.isInteger)) return checkpoint;
  const kept = Object.entries(seen).flatMap(([channel, version]): [string, string | number][] => {
    const own = typeof version !== "number" || Number.isInteger(version) ? version : before?.[channel];
    return own === undefined ? [] : [[channel, own]];
  });
  const { [INTERRUPT]: _, ...others } = checkpoint.versions_seen;
  const none = kept.length === 0 && before === undefined;
  return {
    ...checkpoint,
    versions_seen: none ? others : { ...checkpoint.versions_seen, [INTERRUPT]: Object.fromEntries(kept) },
  };
}

/** Channels that were written since interrupts have last seen them. */
export function unseen({ channel_versions, versions_seen }: Checkpoint): ChannelVersions {
  const seen: ChannelVersions = versions_seen[INTERRUPT] ?? {};
  return Object.fromEntries(Object.entries(channel_versions).filter(([channel, version]) => seen[channel] !== version));
}

/**
 * Whether the run that made a checkpoint went on with what it had loaded; otherwise it began with an input of its own.
 * `news` is what was {@link unseen} at the load. Channels that the graph has lost since are marked in neither case.
 */
export function wentOn(checkpoint: Checkpoint, news: ChannelVersions): boolean {
  const seen: ChannelVersions = checkpoint.versions_seen[INTERRUPT] ?? {};
  const channels = Object.entries(news);
  return channels.length === 0 || channels.some(([channel, version]) => seen[channel] === version);
}

/** The id of a question, as a resume names it. */
export const isInterruptId = (id: string): boolean => /^[0-9a-f]{32}$/.test(id);

const retryWatchers = new WeakMap<Scratchpad, (() => void)[]>();

/**
 * Makes the ids of a node's inner `task()` calls and subgraphs the same in every attempt under `retryPolicy`, and calls
 * `onRetry` when LangGraph starts another attempt. LangGraph makes those ids from counters that it does not reset, so
 * without this finished inner work runs again.
 */
export function watchRetries(scratchpad: Scratchpad, onRetry?: () => void): void {
  let watchers = retryWatchers.get(scratchpad);
  if (watchers === undefined) {
    watchers = [];
    retryWatchers.set(scratchpad, watchers);
    let counter = scratchpad.interruptCounter;
    Object.defineProperty(scratchpad, "interruptCounter", {
      configurable: true,
      enumerable: true,
      get: () => counter,
      set(value: number) {
        counter = value;
        if (value !== -1) return;
        scratchpad.callCounter = 0;
        scratchpad.subgraphCounter = 0;
        for (const watcher of retryWatchers.get(scratchpad) ?? []) watcher();
      },
    });
  }
  if (onRetry !== undefined) watchers.push(onRetry);
}

/** The scratchpad of the task that a nested graph runs in; undefined for an outermost graph. */
export function enclosingScratchpad(config: GraphConfig): Scratchpad | undefined {
  return config.configurable?.["__pregel_scratchpad"] as Scratchpad | undefined;
}

/** Whether a task path is that of a node's error handler. */
export const isHandlerPath = (path: string): boolean => path.endsWith(", node_error_handler, 0000000000");

/** The node a task path belongs to, for messages: `~__pregel_pull, a` → `a`; undefined for pushed tasks. */
export function nodeOfPath(path: string): string | undefined {
  const match = /__pregel_pull, ([^,]+)$/.exec(path);
  return match?.[1]?.trim();
}

/** Makes `getState` and `updateState` of a graph read and write through another saver than its own. */
export function lentSaver(saver: unknown): Record<string, unknown> {
  return { __pregel_checkpointer: saver };
}

/** A graph's DeltaChannels: their values stand in the writes of earlier checkpoints, not in the checkpoint itself. */
export function deltaChannelsOf(channels: Readonly<Record<string, unknown>>): string[] {
  return Object.keys(channels).filter(
    (name) => (channels[name] as { lc_graph_name?: unknown } | undefined)?.lc_graph_name === "DeltaChannel",
  );
}

/** A checkpoint as the ids of its tasks are made from it. */
export interface TaskOrigin {
  readonly id: string;
  /** Of the checkpoint's metadata; its tasks belong to the next step. */
  readonly step: number;
}

/**
 * The id in checkpoint `to` of the task that has `id` in checkpoint `from`: LangGraph makes ids of the task's place and its
 * checkpoint's id. Undefined where the task is none of a node (an inner `task()` call, an error handler).
 *
 * @param ns namespace of the graph, in `from` and in `to`
 * @param triggers channels that may have started the task
 * @param sends how many Sends `from` holds
 */
export function sameTaskIn(
  name: string,
  id: string,
  from: TaskOrigin & { readonly ns: string },
  to: TaskOrigin & { readonly ns: string },
  triggers: readonly string[],
  sends: number,
): string | undefined {
  const parts: (readonly unknown[])[] = triggers.map((channel) => ["__pregel_pull", [channel]]);
  for (let i = 0; i < sends; i += 1) parts.push(["__pregel_push", String(i)]);
  const idIn = (place: TaskOrigin & { readonly ns: string }, part: readonly unknown[]) =>
    uuid5(
      JSON.stringify([place.ns === "" ? name : `${place.ns}|${name}`, String(place.step + 1), name, ...part]),
      place.id,
    );
  const part = parts.find((candidate) => idIn(from, candidate) === id);
  return part === undefined ? undefined : idIn(to, part);
}
