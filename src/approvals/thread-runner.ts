/**
 * Runs threads in this process, one run at a time for each.
 *
 * - R1 A thread goes on where answered waits are held by this process (thread-hold.ts), until none is left.
 * - R2 Whoever asks for a thread that is running makes it look again at its end; nothing asked for in between is lost.
 * - R3 A failed run is told to `report` and tried again later (back-off.ts), unless it came to LangGraph's recursion limit:
 *   going on would begin the count anew, without end. A run that another one has overtaken is no failure.
 * - R4 No promise here rejects for a graph's failure, except `begin` for a run whose input was never stored.
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import type { Checkpointer } from "../checkpointer.ts";
import { type ErrorCode, HoldfastError, isHoldfastError } from "../errors.ts";
import type { WaitRow } from "../model.ts";
import { type RunnableGraph, run } from "../run.ts";
import { ACTIVE } from "../runs/multitask.ts";
import { BackOff, type ThreadRef } from "./back-off.ts";
import { Problem } from "./problem.ts";
import { holdAnswered, release } from "./thread-hold.ts";

/** What is needed of a compiled graph: LangGraph's own methods. */
export interface ServedGraph extends RunnableGraph {
  stream(input: never, config: never): Promise<AsyncIterable<unknown>>;
  getState(config: RunnableConfig, options?: { readonly subgraphs?: boolean }): Promise<unknown>;
}

export type Graphs = Readonly<Record<string, ServedGraph>>;

export type Report = (error: unknown, context: { readonly thread?: string; readonly graph?: string }) => string;

export interface RunnerParts {
  readonly checkpointer: Checkpointer;
  readonly graphs: Graphs;
  readonly config: ((thread: ThreadRef) => RunnableConfig) | undefined;
  readonly report: Report;
}

/** A run that is to happen also where no answer waits, with what who asked wants of it. */
export interface Forced {
  readonly ref: ThreadRef;
  readonly config?: RunnableConfig;
}

/** `idle` nothing was to be done here · `ran` it went on · `failed` it was told to `report`. */
export type Outcome = "idle" | "ran" | "failed";

interface Running {
  again: boolean;
  ended: Promise<Outcome>;
}

/** Threads that run in this process, for each checkpointer: also where two sets of endpoints share one. */
const runningOf = new WeakMap<Checkpointer, Map<string, Running>>();

/** Another run or update has moved the thread on: nothing of this one is stored, and nothing is wrong. */
const OVERTAKEN: readonly ErrorCode[] = [
  "HEAD_MOVED",
  "WRITE_CONFLICT",
  "LIST_CONFLICT",
  "RUN_REFUSED",
  "THREAD_DELETED",
];

export class ThreadRunner {
  readonly backOff: BackOff;
  readonly #parts: RunnerParts;
  readonly #names: readonly string[];
  readonly #running: Map<string, Running>;
  #closed = false;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
    this.#names = Object.keys(parts.graphs);
    this.backOff = new BackOff(parts.checkpointer.waitLedger.now);
    const running = runningOf.get(parts.checkpointer) ?? new Map<string, Running>();
    runningOf.set(parts.checkpointer, running);
    this.#running = running;
  }

  get closed(): boolean {
    return this.#closed;
  }

  isRunning(thread: string): boolean {
    return this.#running.has(thread);
  }

  /** Resolves when fewer than `most` threads are running. */
  async room(most: number): Promise<void> {
    while (this.#running.size >= most) await Promise.race([...this.#running.values()].map(({ ended }) => ended));
  }

  /** Resolves when nothing runs. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all([...this.#running.values()].map(({ ended }) => ended));
  }

  /** Starts nothing from now on, and resolves when nothing runs. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.idle();
  }

  /** Goes on with a thread that has answered waits; with `forced`, in any case. */
  goOn(thread: string, forced?: Forced): Promise<Outcome> {
    const running = this.#running.get(thread);
    if (running !== undefined) {
      running.again = true;
      return running.ended;
    }
    if (this.#closed) return Promise.resolve("idle");
    return this.#occupy(thread, (self) => this.#turns(self, thread, forced)).ended;
  }

  /**
   * Starts a run with an input. Resolves when the input is stored; the run goes on.
   * @throws Problem THREAD_BUSY, UNAVAILABLE · what the run throws before its input is stored
   */
  begin(ref: ThreadRef, input: unknown, config: RunnableConfig): Promise<void> {
    const { thread } = ref;
    if (this.#closed) return Promise.reject(new Problem("UNAVAILABLE", "This process is about to end."));
    if (this.isRunning(thread))
      return Promise.reject(new Problem("THREAD_BUSY", `Thread ${JSON.stringify(thread)} is running.`));
    const { promise, resolve, reject } = deferred();
    this.#occupy(thread, async (self) => {
      if (await hasRun(this.#parts.checkpointer, thread)) {
        reject(new Problem("THREAD_BUSY", `Thread ${JSON.stringify(thread)} has a run that a worker executes.`));
        this.#running.delete(thread);
        return "idle";
      }
      const outcome = await this.#input(ref, input, config, resolve, reject);
      const later = await this.#turns(self, thread, undefined);
      return later === "idle" ? outcome : later;
    });
    return promise;
  }

  #occupy(thread: string, body: (self: Running) => Promise<Outcome>): Running {
    const self: Running = { again: false, ended: Promise.resolve("idle") };
    this.#running.set(thread, self);
    self.ended = body(self).catch((error: unknown) => {
      this.#running.delete(thread);
      this.#parts.report(error, { thread });
      this.backOff.failed(thread, undefined);
      return "failed";
    });
    return self;
  }

  /** R2: the last look and the leaving are one step, with nothing in between. */
  async #turns(self: Running, thread: string, given: Forced | undefined): Promise<Outcome> {
    let last: Outcome = "idle";
    let forced = given;
    for (;;) {
      self.again = false;
      const outcome = this.#closed ? "idle" : await this.#turn(thread, forced);
      if (outcome !== "idle") last = outcome;
      forced = undefined;
      if (outcome === "ran" || (self.again && !this.#closed)) continue;
      this.#running.delete(thread);
      return last;
    }
  }

  async #turn(thread: string, forced: Forced | undefined): Promise<Outcome> {
    const { checkpointer, graphs } = this.#parts;
    const { waitLedger } = checkpointer;
    // Whoever answered has queued its run: a worker goes on with it.
    if (await hasRun(checkpointer, thread)) return "idle";
    const held = await holdAnswered(waitLedger, thread);
    if (held === undefined || (held.length === 0 && forced === undefined)) return "idle";
    if (held.length === 0 && (await this.#isGone(thread))) return "idle";
    const ref = held[0] === undefined ? forced?.ref : this.refOf(held[0]);
    const graph = ref === undefined ? undefined : graphs[ref.graph];
    if (ref === undefined || graph === undefined) {
      const why = this.#whyUnserved(thread, held[0]?.graph);
      this.#parts.report(new HoldfastError("INVALID_ARGUMENT", why, { details: { thread } }), { thread });
      this.backOff.failed(thread, undefined);
      await release(waitLedger, thread);
      return "failed";
    }
    try {
      await run(graph, null, this.#configOf(ref, forced?.config));
    } catch (error) {
      const outcome = this.#failed(ref, error);
      await release(waitLedger, thread);
      return outcome;
    }
    const left = await waitLedger.rows({ thread, status: ["answered"] });
    // An answer that a run does not take (it belongs to a checkpoint that was left) is not tried in a loop.
    if (left.some(({ id }) => held.some((row) => row.id === id))) {
      this.backOff.failed(thread, ref);
      await release(waitLedger, thread);
      return "idle";
    }
    this.backOff.forget(thread);
    return "ran";
  }

  /** A thread that was deleted is not tried again. */
  async #isGone(thread: string): Promise<boolean> {
    const { head } = await this.#parts.checkpointer.backend.load(thread, "", undefined);
    if (head === undefined) this.backOff.forget(thread);
    return head === undefined;
  }

  #failed(ref: ThreadRef, error: unknown): Outcome {
    const { thread, graph } = ref;
    if (isHoldfastError(error) && OVERTAKEN.includes(error.code)) {
      this.backOff.failed(thread, undefined);
      return "idle";
    }
    this.#parts.report(error, { thread, graph });
    const endless = (error as { lc_error_code?: unknown } | null)?.lc_error_code === "GRAPH_RECURSION_LIMIT";
    this.backOff.failed(thread, endless ? undefined : ref);
    return "failed";
  }

  /** The run of an input, to its end. A failure before the input is stored is the asker's; one after it is reported. */
  async #input(
    ref: ThreadRef,
    input: unknown,
    config: RunnableConfig,
    stored: () => void,
    refused: (error: unknown) => void,
  ): Promise<Outcome> {
    const { checkpointer, graphs } = this.#parts;
    let accepted = false;
    try {
      const given = { ...this.#configOf(ref, config), streamMode: "checkpoints" };
      for await (const chunk of await (graphs[ref.graph] as ServedGraph).stream(input as never, given as never)) {
        if (accepted || !(await isStored(checkpointer, chunk))) continue;
        accepted = true;
        stored();
      }
    } catch (error) {
      if (accepted) this.#parts.report(error, { thread: ref.thread, graph: ref.graph });
      else refused(inputProblem(error) ?? error);
      return "failed";
    }
    stored();
    return "ran";
  }

  /** The graph that goes on with a wait's thread, if it is served here. */
  refOf({ thread, graph, owner }: Pick<WaitRow, "thread" | "graph" | "owner">): ThreadRef | undefined {
    const name = this.graphNamed(graph);
    return name === undefined ? undefined : { thread, graph: name, owner };
  }

  /** The graph that was recorded; where none was, the only one there is. */
  graphNamed(recorded: string | undefined): string | undefined {
    if (recorded !== undefined) return this.#names.includes(recorded) ? recorded : undefined;
    return this.#names.length === 1 ? this.#names[0] : undefined;
  }

  /** With no graphs at all, decisions are only recorded here: other processes go on. @throws Problem UNKNOWN_GRAPH */
  assertServed(thread: string, recorded: string | undefined): void {
    if (this.#names.length === 0 || this.graphNamed(recorded) !== undefined) return;
    const details = { thread, graph: recorded ?? null, served: this.#names };
    throw new Problem("UNKNOWN_GRAPH", this.#whyUnserved(thread, recorded), details);
  }

  /** Whether this process is the one to go on with threads of a graph, or to say that it is unknown. */
  concerns(recorded: string | undefined): boolean {
    return this.#names.length > 0 && (recorded === undefined || this.#names.includes(recorded));
  }

  #whyUnserved(thread: string, recorded: string | undefined): string {
    const whose = recorded === undefined ? "names no graph" : `belongs to graph ${JSON.stringify(recorded)}`;
    const served = this.#names.map((name) => JSON.stringify(name)).join(", ") || "none";
    return `Thread ${JSON.stringify(thread)} ${whose}; served here: ${served}. Its runs name it by \`configurable.graph_id\`.`;
  }

  /** What the program says of a run, what who asked says, and what neither may say. */
  #configOf(ref: ThreadRef, asked: RunnableConfig = {}): RunnableConfig & Readonly<Record<string, unknown>> {
    const { thread, graph, owner } = ref;
    const given = this.#parts.config?.(ref) ?? {};
    const own = { thread_id: thread, graph_id: graph, ...(owner === undefined ? {} : { owner }) };
    const configurable = { ...given.configurable, ...asked.configurable, ...own };
    return { ...(given as object), ...(asked as object), configurable };
  }
}

/** Whether the thread is the workers' of `holdfast/runs`. */
async function hasRun(checkpointer: Checkpointer, thread: string): Promise<boolean> {
  return (await checkpointer.backend.runs({ thread, status: ACTIVE, limit: 1 })).length > 0;
}

/** Whether the checkpoint that the run shows is durable. */
async function isStored(checkpointer: Checkpointer, chunk: unknown): Promise<boolean> {
  const { config } = chunk as { config?: RunnableConfig };
  await checkpointer.barrier();
  return config !== undefined && (await checkpointer.getTuple(config)) !== undefined;
}

/** What LangGraph and schemas throw for an input that the graph does not take; nothing has been stored or run then. */
function inputProblem(error: unknown): Problem | undefined {
  const { name, issues } = (error ?? {}) as { name?: unknown; issues?: unknown };
  if (!["EmptyInputError", "InvalidUpdateError", "ZodError", "$ZodError"].includes(String(name))) return undefined;
  const places = Array.isArray(issues) ? issues : [];
  const shown = places.map(({ path = [], message }: { path?: unknown[]; message?: unknown }) => ({
    path: path.map(String).join("."),
    message,
  }));
  return new Problem("INVALID_INPUT", "The graph does not take this input. Nothing was started.", { issues: shown });
}

function deferred(): { promise: Promise<void>; resolve: () => void; reject: (error: unknown) => void } {
  let resolve = (): void => {};
  let reject = (_error: unknown): void => {};
  const promise = new Promise<void>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { promise, resolve, reject };
}
