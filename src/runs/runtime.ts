/** `createRuntime`: what a program holds in its hand to start runs, look at them, and execute them. */

import type { RunnableConfig } from "@langchain/core/runnables";
import { type Checkpointer, isCheckpointer } from "../checkpointer.ts";
import { HoldfastError } from "../errors.ts";
import { isEnded, type RunStatus } from "../model.ts";
import { placeOf } from "../place.ts";
import type { RunnableGraph } from "../run.ts";
import { cancelRun } from "./cancel.ts";
import type { Delivery } from "./delivery.ts";
import { ACTIVE, makeWay, type Multitask, threadHasRun } from "./multitask.ts";
import { RunLedger } from "./run-ledger.ts";
import type { RunNotes, RunRecord } from "./run-record.ts";
import { wakeWorkers, WakeUp } from "./wake-up.ts";
import { type Reason, reasonOf } from "./why.ts";
import { Worker } from "./worker.ts";
import type { WorkerOptions } from "./worker-parts.ts";

export interface RuntimeOptions {
  readonly checkpointer: Checkpointer;
  /** Graphs by name, each compiled with `checkpointer`. A process that only starts runs may give none. */
  readonly graphs: Readonly<Record<string, RunnableGraph>>;
  /** What a run's config holds beside `thread_id`, `graph_id` and `owner`: context, callbacks, `durability`. */
  readonly config?: ((run: { readonly thread: string; readonly graph: string }) => RunnableConfig) | undefined;
  /** Failures of runs, and of the worker itself. Default `console.error`. */
  readonly onError?: ((error: unknown, run: { readonly id?: string; readonly thread?: string }) => void) | undefined;
  /**
   * Told of every run that a worker of this runtime is done with, as it is stored then: ended, waiting, parked, retrying, or
   * queued where it was handed back. Not of one that somebody else has taken over.
   */
  readonly onRun?: ((run: RunRecord) => void) | undefined;
  /** A queue that tells workers of runs and finds out when one of them dies, beside their own looks at the store. */
  readonly delivery?: Delivery | undefined;
}

export interface StartOptions {
  readonly threadId: string;
  /** The same key again is answered with the run that was started first. Unique in the whole store. */
  readonly key?: string | undefined;
  /** Whose thread it is. */
  readonly owner?: string | undefined;
  /** Not before this moment, by the backend's clock. Default: at once. */
  readonly at?: Date | undefined;
  /** A whole number; higher ones are claimed first. Default 0. */
  readonly priority?: number | undefined;
  /** When a run that has not ended is cancelled. */
  readonly deadline?: Date | undefined;
  /** Waits so long for another start of the same thread and graph, which takes its place and waits again. */
  readonly debounceMs?: number | undefined;
  /**
   * What happens where the thread has a run that has not ended: `enqueue` (default) this one comes after it, `reject`
   * it is refused, `interrupt` the other one is cancelled, `rollback` it is cancelled and the thread goes back to before it.
   */
  readonly multitask?: Multitask | undefined;
  /** Supersteps that one claim of the run may take. Default LangGraph's. */
  readonly recursionLimit?: number | undefined;
}

export interface Started {
  readonly run: RunRecord;
  /** True where an earlier start with the same key was found. */
  readonly replayed: boolean;
}

export interface RunFilter {
  readonly thread?: string | undefined;
  readonly status?: readonly RunStatus[] | undefined;
  readonly graph?: string | undefined;
  readonly owner?: string | undefined;
  /** Where a page continues: the last run of the one before. */
  readonly after?: RunRecord | undefined;
  /** Default 100. */
  readonly limit?: number | undefined;
}

const PAGE = 100;
/** How often `wait` looks where the backend does not tell of other processes. */
const LOOK_MS = 500;

export class Runtime {
  readonly checkpointer: Checkpointer;
  readonly #options: RuntimeOptions;
  readonly #ledger: RunLedger;
  readonly #report: (error: unknown, run: { readonly id?: string; readonly thread?: string }) => void;
  readonly #workers = new Set<Worker>();

  constructor(options: RuntimeOptions) {
    this.#report =
      options.onError ?? ((error: unknown, run: object) => console.error("holdfast: a run failed", run, error));
    this.checkpointer = options.checkpointer;
    this.#options = options;
    this.#ledger = new RunLedger(options.checkpointer);
  }

  /**
   * Stores a run; it is durable, with its input, when this resolves, and some worker executes it. With `input` undefined
   * or null the run goes on with what the thread has.
   * @throws INVALID_ARGUMENT · RUN_KEY_REUSED · THREAD_HAS_RUN (`multitask: "reject"`) · THREAD_DELETED
   */
  async start(graph: string, input: unknown, options: StartOptions): Promise<Started> {
    const { thread, priority, due, notes } = await this.#checked(graph, options);
    const { key, owner, multitask = "enqueue", debounceMs } = options;
    const request = { thread, graph, input: input ?? undefined, key, owner, priority, due, notes };
    if (debounceMs !== undefined) {
      const replaced = await this.#ledger.replaceQueued(request);
      if (replaced !== undefined) return { run: await this.#tellOf(replaced.record), replayed: false };
    }
    const takesPlace = await makeWay(multitask, thread, {
      ledger: this.#ledger,
      checkpointer: this.checkpointer,
      graphs: this.#options.graphs,
      cancelHere: (id) => this.#cancelHere(id),
    });
    const added = await this.#ledger.add(
      takesPlace ? { ...request, notes: { ...notes, onPaused: "supersede" } } : request,
    );
    if (multitask === "reject" && !added.replayed) await this.#withdrawSecond(added.stored.row.id, thread);
    wakeWorkers(this.#ledger.backend);
    return { run: await this.#tellOf(added.stored.record), replayed: added.replayed };
  }

  /** @throws UNKNOWN_RUN */
  async get(id: string, { owner }: { readonly owner?: string } = {}): Promise<RunRecord> {
    return (await this.#ledger.find(id, owner)).record;
  }

  /** Oldest first, a page at a time. */
  async list(filter: RunFilter = {}): Promise<readonly RunRecord[]> {
    const { after, limit = PAGE, ...query } = filter;
    const place = after === undefined ? undefined : { createdAt: after.createdAt.getTime(), id: after.id };
    return this.#ledger.records({ ...query, after: place, limit });
  }

  /** The runs of a thread that have not ended, in the order in which they are executed. */
  async activeRuns(thread: string): Promise<readonly RunRecord[]> {
    return this.#ledger.records({ thread, status: ACTIVE });
  }

  /**
   * Resolves when the run has ended, or waits for somebody: with status succeeded, failed, cancelled, waiting or parked.
   * @throws UNKNOWN_RUN (also: its thread is deleted meanwhile) · the reason of `signal`
   */
  async wait(id: string, { signal }: { readonly signal?: AbortSignal } = {}): Promise<RunRecord> {
    const wake = new WakeUp(this.#ledger.backend);
    await wake.open();
    const stop = () => wake.now();
    signal?.addEventListener("abort", stop, { once: true });
    try {
      for (;;) {
        signal?.throwIfAborted();
        const record = await this.get(id);
        if (isEnded(record.status) || record.status === "waiting" || record.status === "parked") return record;
        await wake.sleep(LOOK_MS);
      }
    } finally {
      signal?.removeEventListener("abort", stop);
      await wake.close();
    }
  }

  /**
   * Ends a run that has not ended. A run that is executed is told to end and is `cancelled` when its worker says so, or when the
   * worker is gone; what its nodes still return is not stored. The cancel is recorded before this resolves and wins over whatever
   * becomes of the run. Again: answered with the same record.
   * @throws UNKNOWN_RUN · RUN_ENDED where it has ended otherwise
   */
  async cancel(id: string, { by, reason }: { readonly by: string; readonly reason?: string }): Promise<RunRecord> {
    if (typeof by !== "string" || by === "") throw invalid("`by` must name who cancels");
    const record = await cancelRun(this.#ledger, id, { by, reason });
    this.#cancelHere(id);
    wakeWorkers(this.#ledger.backend);
    return record;
  }

  /** Why a run is where it is, in one reason that names what has to happen next. @throws UNKNOWN_RUN */
  async why(id: string): Promise<Reason> {
    return reasonOf(this.#ledger, this.checkpointer, await this.#ledger.find(id));
  }

  /** A worker of this process; it claims runs of this runtime's graphs once it is started. @throws INVALID_ARGUMENT */
  worker(options: WorkerOptions = {}): Worker {
    const { checkpointer, graphs, config, onRun, delivery } = this.#options;
    const told = onRun ?? (() => {});
    const parts = { checkpointer, ledger: this.#ledger, graphs, config, report: this.#report, told, delivery };
    const worker = new Worker(parts, checkedWorker(options));
    this.#workers.add(worker);
    return worker;
  }

  /** Drains every worker that was made here. The checkpointer stays open. */
  async close(): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.drain()));
    this.#workers.clear();
  }

  #cancelHere(id: string): void {
    for (const worker of this.#workers) worker.cancelHere(id);
  }

  /**
   * A message for a run that is stored by now; a replayed one may have lost its own. Where that fails the run is no less accepted:
   * workers find it.
   */
  async #tellOf(run: RunRecord): Promise<RunRecord> {
    const { delivery } = this.#options;
    if (delivery === undefined || run.status !== "queued") return run;
    try {
      await delivery.send(run.id, { at: run.due ?? run.createdAt });
    } catch (error) {
      this.#report(error, { id: run.id, thread: run.thread });
    }
    return run;
  }

  /** Of two that were started at once the earlier one stays. */
  async #withdrawSecond(id: string, thread: string): Promise<void> {
    const [first] = await this.#ledger.rows({ thread, status: ACTIVE, limit: 1 });
    if (first === undefined || first.id === id) return;
    await cancelRun(this.#ledger, id, { by: "holdfast", reason: "the thread has a run" });
    throw threadHasRun(thread, first.id);
  }

  async #checked(graph: string, options: StartOptions) {
    const { graphs } = this.#options;
    const names = Object.keys(graphs);
    if (names.length > 0 && !names.includes(graph))
      throw invalid(`there is no graph ${JSON.stringify(graph)}; there are: ${names.join(", ")}`);
    const { thread } = placeOf({ configurable: { thread_id: options.threadId } });
    const { key, priority = 0, at, deadline, debounceMs, recursionLimit } = options;
    if (key !== undefined && (typeof key !== "string" || key === "")) throw invalid("`key` must be a text");
    if (!Number.isSafeInteger(priority)) throw invalid(`priority is ${String(priority)}; use a whole number`);
    if (key !== undefined && debounceMs !== undefined)
      throw invalid("`key` and `debounceMs` exclude each other: a debounced run has the input of its last start");
    const delay = debounceMs === undefined ? undefined : positive("debounceMs", debounceMs);
    const due = delay === undefined ? momentOf("at", at) : (await this.#ledger.backend.now()) + delay;
    const notes: RunNotes = {
      ...(deadline === undefined ? {} : { deadline: momentOf("deadline", deadline) }),
      ...(recursionLimit === undefined ? {} : { recursionLimit: positive("recursionLimit", recursionLimit) }),
    };
    return { thread, priority, due, notes };
  }
}

/** Runs of one checkpointer and its graphs. @throws INVALID_ARGUMENT, FOREIGN_CHECKPOINTER */
export function createRuntime(options: RuntimeOptions): Runtime {
  const { checkpointer, graphs, ...rest } = options;
  for (const name of Object.keys(rest))
    if (!["config", "onError", "onRun", "delivery"].includes(name))
      throw invalid(`there is no option ${JSON.stringify(name)}`);
  const { delivery } = rest;
  if (delivery !== undefined && (typeof delivery?.send !== "function" || typeof delivery.receive !== "function"))
    throw invalid("`delivery` must have the methods send and receive");
  if (!isCheckpointer(checkpointer)) throw invalid("`checkpointer` must be a Holdfast checkpointer");
  if (typeof graphs !== "object" || graphs === null) throw invalid("`graphs` must be { name: compiled graph, … }");
  for (const [name, graph] of Object.entries(graphs)) {
    if (typeof graph?.invoke !== "function")
      throw invalid(`graph ${JSON.stringify(name)} is no compiled graph; of an agent, pass its \`graph\``);
    if (graph.checkpointer === checkpointer) continue;
    throw new HoldfastError(
      "FOREIGN_CHECKPOINTER",
      `createRuntime: graph ${JSON.stringify(name)} must be compiled with the same checkpointer object that is given here.`,
      { details: { graph: name } },
    );
  }
  return new Runtime(options);
}

function checkedWorker(options: WorkerOptions): Required<WorkerOptions> {
  const { concurrency = 16, graphConcurrency = {}, pollMs = 5000, takeoverMs = 5000, ...rest } = options;
  for (const name of Object.keys(rest)) throw invalid(`a worker has no option ${JSON.stringify(name)}`);
  for (const [graph, most] of Object.entries(graphConcurrency)) positive(`graphConcurrency.${graph}`, most);
  return {
    concurrency: positive("concurrency", concurrency),
    graphConcurrency,
    pollMs: positive("pollMs", pollMs),
    takeoverMs: positive("takeoverMs", takeoverMs),
  };
}

function positive(name: string, value: number): number {
  if (Number.isSafeInteger(value) && value > 0 && value < 2 ** 31) return value;
  throw invalid(`${name} is ${JSON.stringify(value)}; use a positive whole number`);
}

function momentOf(name: string, date: Date | undefined): number | undefined {
  if (date === undefined) return undefined;
  const at = date instanceof Date ? date.getTime() : Number.NaN;
  if (Number.isFinite(at)) return at;
  throw invalid(`\`${name}\` must be a valid Date`);
}

const invalid = (why: string) => new HoldfastError("INVALID_ARGUMENT", `createRuntime: ${why}.`);
