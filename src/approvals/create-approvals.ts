/** `createApprovals`: options, the parts behind them, and what a program holds in its hand. */

import { randomUUID } from "node:crypto";
import type { RunnableConfig } from "@langchain/core/runnables";
import type { Backend } from "../backend.ts";
import { type Checkpointer, isCheckpointer } from "../checkpointer.ts";
import { HoldfastError } from "../errors.ts";
import type { Runtime } from "../runs/runtime.ts";
import type { Authenticate } from "./access.ts";
import type { ThreadRef } from "./back-off.ts";
import { httpApp } from "./http-app.ts";
import { Sweep, type SweepResult } from "./sweep.ts";
import { type Graphs, type Report, type ServedGraph, ThreadRunner } from "./thread-runner.ts";

/** Where something failed that nobody is told of otherwise. */
export interface FailureContext {
  /** Stands in the answer too, where there was a request. */
  readonly id: string;
  readonly thread?: string;
  readonly graph?: string;
}

export interface ApprovalsOptions {
  readonly checkpointer: Checkpointer;
  /**
   * Graphs by name, each compiled with `checkpointer`. A thread is continued with the one that its runs named
   * (`configurable.graph_id`); where they named none, with the only one there is.
   */
  readonly graphs: Graphs;
  /**
   * Where runs are queued that are asked for, to be executed by its workers, here or in other processes: of the same checkpointer. Without it
   * they are executed in this process.
   */
  readonly runtime?: Runtime | undefined;
  /** Who sends a request. Without it only connections from this machine are served, as user "local". */
  readonly authenticate?: Authenticate | undefined;
  /** What a thread's run needs beside `thread_id`, `graph_id` and `owner`: context, callbacks, recursion limit. */
  readonly config?: ((thread: ThreadRef) => RunnableConfig) | undefined;
  /** Failures of runs, of sweeps, and of requests that were answered with a bare 500. Default `console.error`. */
  readonly onError?: ((error: unknown, context: FailureContext) => void) | undefined;
  /** Largest request. Default 1,048,576 bytes. */
  readonly bodyBytesMax?: number | undefined;
  /** Time between two sweeps after `start()`. Default 5000. */
  readonly intervalMs?: number | undefined;
  /** Threads that a sweep runs at once. Default 16. */
  readonly runsMax?: number | undefined;
}

export interface Approvals {
  /**
   * Answers a request: mount it in any app or server. `connection` is what `@hono/node-server` passes on; without it, or
   * on another server, only `authenticate` can let anybody in.
   */
  readonly fetch: (request: Request, connection?: unknown, context?: unknown) => Promise<Response>;
  /**
   * Records the deadlines and timers that have come, and goes on with every thread that is answered and that no living
   * process is going on with. Resolves when the runs that it started have ended; their failures go to `onError`.
   */
  resumeDue(): Promise<SweepResult>;
  /** Sweeps now and on a timer, which does not keep the process alive. Idempotent. */
  start(): void;
  /** Resolves when no thread runs here: what a platform must wait for before it freezes the process. */
  idle(): Promise<void>;
  /**
   * Ends the timer, starts no further run, and resolves when those under way have ended. A process that cannot wait may
   * exit: another one goes on. The checkpointer stays open. Idempotent; legal before `start`.
   */
  close(): Promise<void>;
}

const KNOWN: Readonly<Record<keyof ApprovalsOptions, true>> = {
  checkpointer: true,
  graphs: true,
  runtime: true,
  authenticate: true,
  config: true,
  onError: true,
  bodyBytesMax: true,
  intervalMs: true,
  runsMax: true,
};

/**
 * The endpoints, the inbox page and the sweeper for one checkpointer and its graphs.
 * @throws INVALID_ARGUMENT, FOREIGN_CHECKPOINTER
 */
export function createApprovals(options: ApprovalsOptions): Approvals {
  const { bodyBytesMax, intervalMs, runsMax } = checked(options);
  const { checkpointer, graphs, runtime, authenticate, config, onError } = options;
  const report = reporter(onError);
  const runner = new ThreadRunner({ checkpointer, graphs, config, report });
  const sweep = new Sweep(checkpointer.waitLedger, runner, report, runsMax);
  const app = httpApp({ checkpointer, graphs, runner, runtime, authenticate, report, bodyBytesMax });
  const timer = new SweepTimer(sweep, checkpointer.backend, report, intervalMs);
  return {
    fetch: async (request, connection, context) => app.fetch(request, connection as object, context as never),
    resumeDue: () => sweep.whole(),
    start: () => timer.start(),
    idle: () => runner.idle(),
    close: async () => {
      await Promise.all([timer.stop(), runner.close()]);
    },
  };
}

/** Sweeps again and again; one that is still under way is not joined by another. */
class SweepTimer {
  readonly #sweep: Sweep;
  readonly #backend: Backend;
  readonly #report: Report;
  readonly #intervalMs: number;
  #timer: NodeJS.Timeout | undefined;
  #watching: Promise<{ close(): Promise<void> } | undefined> | undefined;
  #sweeping: Promise<void> | undefined;
  #again = false;
  #stopped = false;

  constructor(sweep: Sweep, backend: Backend, report: Report, intervalMs: number) {
    this.#sweep = sweep;
    this.#backend = backend;
    this.#report = report;
    this.#intervalMs = intervalMs;
  }

  start(): void {
    if (this.#timer !== undefined || this.#stopped) return;
    this.#timer = setInterval(() => this.#tick(), this.#intervalMs).unref();
    // What another process has answered is seen at once where the backend tells of it, and else at the next tick.
    this.#watching = this.#backend
      .watch?.(() => this.#tick())
      .catch((error: unknown) => {
        this.#report(error, {});
        return undefined;
      });
    this.#tick();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    await (await this.#watching)?.close();
    await this.#sweeping;
  }

  /** A tick that comes during a sweep is made up for after it. */
  #tick(): void {
    if (this.#sweeping !== undefined) {
      this.#again = true;
      return;
    }
    this.#again = false;
    this.#sweeping = this.#sweep
      .pass(() => {})
      .then(
        () => {},
        (error: unknown) => void this.#report(error, {}),
      )
      .finally(() => {
        this.#sweeping = undefined;
        if (this.#again && !this.#stopped) this.#tick();
      });
  }
}

/** Tells a failure to whoever wants to know, under an id of its own. */
function reporter(onError: ApprovalsOptions["onError"]): Report {
  return (error, context) => {
    const id = randomUUID();
    try {
      if (onError === undefined) console.error(`holdfast/approvals: failure ${id}`, context, error);
      else onError(error, { id, ...context });
    } catch (failure) {
      console.error(`holdfast/approvals: onError threw on failure ${id}`, failure, error);
    }
    return id;
  };
}

function checked(options: ApprovalsOptions) {
  for (const option of Object.keys(options)) {
    if (!Object.hasOwn(KNOWN, option))
      throw invalid(`unknown option ${JSON.stringify(option)}. Known: ${Object.keys(KNOWN).join(", ")}`);
  }
  const { checkpointer, graphs, authenticate, config, onError } = options;
  if (!isCheckpointer(checkpointer)) throw invalid("`checkpointer` must be a Holdfast checkpointer");
  if (typeof graphs !== "object" || graphs === null) throw invalid("`graphs` must be { name: compiled graph, … }");
  if (options.runtime !== undefined && options.runtime.checkpointer !== checkpointer)
    throw new HoldfastError(
      "FOREIGN_CHECKPOINTER",
      "createApprovals: `runtime` must be a runtime of the same checkpointer object that is given here.",
    );
  for (const [name, graph] of Object.entries(graphs)) checkGraph(name, graph, checkpointer);
  for (const [name, given] of Object.entries({ authenticate, config, onError })) {
    if (given !== undefined && typeof given !== "function") throw invalid(`\`${name}\` must be a function`);
  }
  return {
    bodyBytesMax: positive("bodyBytesMax", options.bodyBytesMax, 1_048_576),
    intervalMs: positive("intervalMs", options.intervalMs, 5_000),
    runsMax: positive("runsMax", options.runsMax, 16),
  };
}

function checkGraph(name: string, graph: ServedGraph, checkpointer: Checkpointer): void {
  if (typeof graph?.invoke !== "function" || typeof graph.stream !== "function")
    throw invalid(`graph ${JSON.stringify(name)} is no compiled graph; of an agent, pass its \`graph\``);
  if (graph.checkpointer === checkpointer) return;
  throw new HoldfastError(
    "FOREIGN_CHECKPOINTER",
    `createApprovals: graph ${JSON.stringify(name)} must be compiled with the same checkpointer object that is given here.`,
    { details: { graph: name } },
  );
}

function positive(name: string, given: number | undefined, otherwise: number): number {
  const value = given ?? otherwise;
  if (Number.isSafeInteger(value) && value > 0 && value < 2 ** 31) return value;
  throw invalid(`${name} is ${JSON.stringify(given)}; use a positive whole number`);
}

const invalid = (why: string) => new HoldfastError("INVALID_ARGUMENT", `createApprovals: ${why}.`);
