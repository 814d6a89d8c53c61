/**
 * What one run (or update) knows of the threads it has loaded, and whether it may still write.
 *
 * The head rule (S2): a checkpoint of the root namespace may continue the thread's head, or the checkpoint the run
 * loaded as long as the head is still what it was at that load (that is how a run or update addressed to an old
 * checkpoint begins a branch). So a run needs for each load the head at that moment. Simpler rules refuse honest runs.
 *
 * A run that was refused once stays refused: its later checkpoints hang on one that was never stored.
 */

import type { ChannelVersions } from "@langchain/langgraph-checkpoint";
import type { Op } from "./backend.ts";
import { type ErrorCode, HoldfastError } from "./errors.ts";
import type { Branch } from "./fork-mark.ts";
import type { OnFork } from "./fork-policy.ts";
import type { Durability, GraphConfig } from "./langgraph.ts";
import type { ThreadOrigin } from "./thread-origin.ts";
import { ThreadWaits } from "./thread-waits.ts";

/** Where a run is found in `configurable`; a symbol, so that it reaches no HTTP body, trace or stored config. */
export const RUN_KEY = Symbol.for("holdfast.run");

/** Where a worker's claim is found in `configurable`. */
export const CLAIM_KEY = Symbol.for("holdfast.claim");

/** A run of the queue as it was claimed: everything that is stored for it is refused once somebody else has it. */
export interface Claim {
  readonly run: string;
  readonly thread: string;
  readonly epoch: number;
}

export function claimOf(config: {
  readonly configurable?: Readonly<Record<PropertyKey, unknown>> | undefined;
}): Claim | undefined {
  return config.configurable?.[CLAIM_KEY] as Claim | undefined;
}

/** A run as it stands in a checkpoint map, with LangGraph's own object for it: the map may be the caller's, used again. */
interface RunInMap {
  readonly control: unknown;
  readonly run: RunState;
}

/**
 * The run of a saver call, node, tool or lambda. LangGraph loads a root that is addressed through a checkpoint map with a
 * copy of the config, so that what is set on the copy is lost; the map itself reaches every later call.
 */
export function runOf(config: GraphConfig): RunState | undefined {
  const { configurable } = config;
  const map = configurable?.["checkpoint_map"] as { readonly [RUN_KEY]?: RunInMap } | undefined;
  return (configurable?.[RUN_KEY] as RunState | undefined) ?? map?.[RUN_KEY]?.run;
}

/** The run of a config that loads; begun where there is none. */
export function enterRun(config: GraphConfig, begin: () => RunState): RunState {
  const configurable = config.configurable as Record<PropertyKey, unknown>;
  const own = configurable[RUN_KEY] as RunState | undefined;
  if (own !== undefined) return own;
  const map = configurable["checkpoint_map"] as { [RUN_KEY]?: RunInMap } | undefined;
  const inMap = map?.[RUN_KEY];
  const run = inMap !== undefined && inMap.control === config.control ? inMap.run : begin();
  configurable[RUN_KEY] = run;
  if (map !== undefined) map[RUN_KEY] = { control: config.control, run };
  return run;
}

/** What a caller did to a thread that waits. */
const CALLERS_FAULT: ReadonlySet<ErrorCode> = new Set([
  "THREAD_WAITING",
  "ALREADY_ANSWERED",
  "AMBIGUOUS_ANSWER",
  "INVALID_ANSWER",
]);

interface Waiter {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** Prefix that no checkpoint id has. */
const COPY = "\u0000copy:";

const place = (ns: string, checkpoint: string) => `${ns}\u0000${checkpoint}`;

/** One thread as one run sees it. */
export class RunThread {
  readonly thread: string;
  /** Deletions of the thread id at the first load. */
  readonly era: number;
  /** What every commit of a claimed run begins with; undefined for a run that nobody claimed. */
  readonly fence: Op | undefined;
  /** Durability of each namespace the run has loaded; a namespace that is missing here is never stored. */
  readonly namespaces = new Map<string, Durability>();
  /** Root checkpoints whose superstep is complete in this run's lineage; undefined until somebody asked, see lineage.ts. */
  committed: Set<string> | undefined;

  /** Namespaces whose graph had a put that failed: LangGraph calls none of its later ones. Until it is loaded again. */
  readonly failed = new Map<string, HoldfastError>();

  /** What the thread waits for, as far as this run knows. */
  readonly waits = new ThreadWaits();
  /** What interrupts had seen of each namespace's channels when the run loaded it. */
  readonly seen = new Map<string, ChannelVersions | undefined>();
  /** What the run's own branch hands on; of a look from outside, that of the last one. */
  branch: Branch | undefined;
  /** The root checkpoint on which a command of this run has written. */
  commanded: string | undefined;
  /** The same of other root checkpoints that were looked at. */
  readonly #branches = new Map<string, Branch>();
  /** Graph and owner, as the loaded checkpoint says; carried on by every later one. */
  origin: ThreadOrigin = {};

  readonly #early = new Map<string, () => void>();
  readonly #headAtLoad = new Map<string | null, string | null>();
  readonly #known = new Set<string>();
  readonly #waiters = new Map<string, Waiter[]>();
  #refused: HoldfastError | undefined;

  constructor(thread: string, era: number, claim?: Claim) {
    this.thread = thread;
    this.era = era;
    this.fence =
      claim?.thread === thread ? { kind: "fence", thread, era, run: claim.run, epoch: claim.epoch } : undefined;
  }

  /** Remembers a load of the root namespace. In a run the first one counts: a later look does not entitle to more. */
  loadedRoot(loaded: string | null, head: string | null): void {
    if (!this.#headAtLoad.has(loaded)) this.#headAtLoad.set(loaded, head);
  }

  /** The same outside a run, where the newest look counts, and a copy may hang on the parent of what was loaded. */
  lookedAtRoot(loaded: string | null, head: string | null, parent: string | null): void {
    if (this.#headAtLoad.size > 64) this.#headAtLoad.clear();
    this.#headAtLoad.set(loaded, head);
    this.#headAtLoad.set(COPY + (parent ?? ""), head);
  }

  /** What a root checkpoint hands on. In a run the first one loaded is the run's own: LangGraph looks at the head as well. */
  knowBranch(checkpoint: string, branch: Branch, inRun: boolean): void {
    if (this.#branches.size > 64) this.#branches.clear();
    this.#branches.set(checkpoint, branch);
    if (!inRun || this.branch === undefined) this.branch = branch;
  }

  /** A root checkpoint was put, and the run goes on from it. */
  putBranch(checkpoint: string, branch: Branch): void {
    this.branch = branch;
    this.#branches.set(checkpoint, branch);
  }

  /** What the checkpoint hands on to the one that is put on it. */
  branchAt(checkpoint: string | undefined): Branch | undefined {
    return checkpoint === undefined ? undefined : (this.#branches.get(checkpoint) ?? this.branch);
  }

  /** What the branch says about effects that were left behind. */
  get effectsPolicy(): OnFork | undefined {
    return this.branch?.effects;
  }

  /** Whether effects of other lineages may stand in the thread. */
  get branched(): boolean {
    return this.branch?.branched ?? false;
  }

  /** Whether this thread's root was ever loaded here. */
  get looked(): boolean {
    return this.#headAtLoad.size > 0;
  }

  /** The heads on which a root checkpoint with this parent may be put. */
  headsFor(parent: string | null, copy = false): readonly (string | null)[] {
    const heads = [
      parent,
      this.#headAtLoad.get(parent),
      copy ? this.#headAtLoad.get(COPY + (parent ?? "")) : undefined,
    ];
    return heads.filter((head) => head !== undefined);
  }

  /**
   * A put in async durability: its promise settles when it is durable, or earlier, by `release`, when the run has gone on.
   * So the engine, which begins a put only when the one before it has settled, can queue many for one fsync, and the last
   * put of a run settles only when it is durable.
   */
  early(ns: string, release: () => void): void {
    this.#early.set(ns, release);
  }

  /** The run has gone on to the tasks of the namespace's last checkpoint. */
  release(ns: string): void {
    this.#early.get(ns)?.();
    this.#early.delete(ns);
  }

  /** A root superstep of this run is complete: its checkpoint has a child. */
  complete(checkpoint: string | undefined): void {
    if (checkpoint !== undefined) this.committed?.add(checkpoint);
  }

  /** The checkpoint is stored, or queued before everything queued from now on. */
  know(ns: string, checkpoint: string): void {
    const key = place(ns, checkpoint);
    this.#known.add(key);
    for (const waiter of this.#waiters.get(key) ?? []) waiter.resolve();
    this.#waiters.delete(key);
  }

  /** Resolves once the checkpoint is stored or queued; rejects when the run is refused or `signal` is aborted. */
  async whenKnown(ns: string, checkpoint: string, signal: AbortSignal | undefined): Promise<void> {
    this.assertMayWrite();
    const key = place(ns, checkpoint);
    if (this.#known.has(key)) return;
    const failed = this.failed.get(ns);
    if (failed !== undefined) throw this.#refusal(failed);
    let onAbort: (() => void) | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        const waiters = this.#waiters.get(key) ?? [];
        waiters.push({ resolve, reject });
        this.#waiters.set(key, waiters);
        onAbort = () => reject(abortedError(this.thread));
        if (signal?.aborted) onAbort();
        signal?.addEventListener("abort", onAbort, { once: true });
      });
    } finally {
      if (onAbort !== undefined) signal?.removeEventListener("abort", onAbort);
    }
  }

  get refused(): HoldfastError | undefined {
    return this.#refused;
  }

  /** Ends the run's right to write to this thread; the first reason stays. */
  refuse(reason: HoldfastError): void {
    if (this.#refused !== undefined) return;
    this.#refused = reason;
    for (const waiters of this.#waiters.values()) for (const waiter of waiters) waiter.reject(this.#refusal());
    this.#waiters.clear();
  }

  /**
   * A put of the namespace failed, before anything of it was queued: whoever waits for its later checkpoints is told so.
   * No refusal of the run: what it queued before is sound and is still to be stored.
   */
  fail(ns: string, reason: HoldfastError): void {
    this.failed.set(ns, reason);
    for (const [key, waiters] of this.#waiters) {
      if (!key.startsWith(place(ns, ""))) continue;
      for (const waiter of waiters) waiter.reject(this.#refusal(reason));
      this.#waiters.delete(key);
    }
  }

  /** Throws RUN_REFUSED once the run was refused. */
  assertMayWrite(): void {
    if (this.#refused !== undefined) throw this.#refusal();
  }

  #refusal(reason = this.#refused): HoldfastError {
    // What the caller did, not what happened to the run: said in its own words, wherever it surfaces first.
    if (reason !== undefined && CALLERS_FAULT.has(reason.code)) return reason;
    return new HoldfastError(
      "RUN_REFUSED",
      `This run of thread ${JSON.stringify(this.thread)} was refused and neither stores anything nor starts an effect any more. ` +
        `Reason: ${reason?.message ?? "unknown"}`,
      { cause: reason, details: { thread: this.thread, reason: reason?.code } },
    );
  }
}

/** One `invoke` or `stream`, with all threads it touches. */
export class RunState {
  readonly id: string;
  /** The worker's claim, where a worker executes it. */
  readonly claim: Claim | undefined;
  readonly #threads = new Map<string, RunThread>();

  constructor(id: string, claim?: Claim) {
    this.id = id;
    this.claim = claim;
  }

  thread(thread: string): RunThread | undefined {
    return this.#threads.get(thread);
  }

  /** Which of the run's threads holds a namespace: `own`, or another one whose node invoked a graph on `own`. */
  holderOf(ns: string, own: RunThread): RunThread {
    if (own.namespaces.has(ns)) return own;
    for (const thread of this.#threads.values()) if (thread.namespaces.has(ns)) return thread;
    return own;
  }

  /** The thread as this run knows it; `era` counts only at the first load. */
  load(thread: string, era: number): RunThread {
    let known = this.#threads.get(thread);
    if (known === undefined) {
      known = new RunThread(thread, era, this.claim);
      this.#threads.set(thread, known);
    }
    return known;
  }
}

export function abortedError(thread: string): HoldfastError {
  return new HoldfastError(
    "EFFECT_ABORTED",
    `The run of thread ${JSON.stringify(thread)} was aborted; no effect is started.`,
    {
      details: { thread },
    },
  );
}
