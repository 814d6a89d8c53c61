/**
 * Claims runs and executes them.
 *
 * - R2 One running run per thread: the backend refuses the claim of a second one, and of one whose turn has not come.
 * - R3 Every claim has a new epoch. Everything that is stored for a run is refused once somebody else has claimed it.
 * - R4 A run whose worker is gone is taken over by any other. One that three workers in a row died with is parked: what it does
 *   seems to kill them, and a person must look.
 * - R5 `drain` lets each run end its superstep and hands it back, without counting it as a failure.
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import type { Checkpointer } from "../checkpointer.ts";
import type { RunRow } from "../model.ts";
import type { RunnableGraph } from "../run.ts";
import { cancelRun } from "./cancel.ts";
import { executingOn } from "./executing.ts";
import { Execution } from "./execution.ts";
import { decideDueWaits } from "../due-waits.ts";
import type { Move, RunLedger } from "./run-ledger.ts";
import type { RunRecord, StoredRun } from "./run-record.ts";
import { WakeUp, wakeWorkers } from "./wake-up.ts";

/** Workers that may die with a run before it is parked. */
export const DEATHS_MAX = 3;

/** Answers that are looked at in one pass, oldest first. */
const LOOK_MAX = 100;
const DEADLINE = { by: "deadline", reason: "The run's deadline has passed." };
/** Of setTimeout; a run that goes on for longer is looked at when it is claimed again. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export interface WorkerOptions {
  /** Runs at once. Default 16. */
  readonly concurrency?: number;
  /** The same of single graphs, by name. */
  readonly graphConcurrency?: Readonly<Record<string, number>>;
  /** Time between two looks for due runs where nothing else wakes the worker. Default 2500. */
  readonly pollMs?: number;
  /** Time between two looks for runs whose worker is gone. Default 5000. */
  readonly takeoverMs?: number;
}

export interface WorkerParts {
  readonly checkpointer: Checkpointer;
  readonly ledger: RunLedger;
  readonly graphs: Readonly<Record<string, RunnableGraph>>;
  readonly config: ((run: { readonly thread: string; readonly graph: string }) => RunnableConfig) | undefined;
  readonly report: (error: unknown, run: { readonly id?: string; readonly thread?: string }) => void;
  /** Told of every run that this worker is done with, after its row says so. */
  readonly told: (run: RunRecord) => void;
}

/** What a worker has done since it was made. */
export interface WorkerCounts {
  /** Runs claimed, those that were taken over included. */
  readonly claimed: number;
  readonly takenOver: number;
  /** Runs that somebody else had by the time this worker wanted to store something. */
  readonly lost: number;
}

export class Worker {
  readonly #parts: WorkerParts;
  readonly #concurrency: number;
  readonly #perGraph: Readonly<Record<string, number>>;
  readonly #pollMs: number;
  readonly #takeoverMs: number;
  readonly #wake: WakeUp;
  readonly #running = new Map<string, { readonly execution: Execution; readonly ended: Promise<void> }>();
  readonly #counts = { claimed: 0, takenOver: 0, lost: 0 };
  #stopping = false;
  #looked = false;
  #loop: Promise<void> | undefined;

  constructor(parts: WorkerParts, options: Required<WorkerOptions>) {
    this.#parts = parts;
    this.#concurrency = options.concurrency;
    this.#perGraph = options.graphConcurrency;
    this.#pollMs = options.pollMs;
    this.#takeoverMs = options.takeoverMs;
    this.#wake = new WakeUp(parts.ledger.backend);
  }

  get counts(): WorkerCounts {
    return { ...this.#counts };
  }

  /** Runs under way here. */
  get running(): readonly string[] {
    return [...this.#running.keys()];
  }

  /** Whether it claims runs: its last look at the store succeeded, and nobody has told it to end. */
  get ready(): boolean {
    return this.#looked && !this.#stopping;
  }

  /** Begins to claim. Idempotent. */
  start(): this {
    this.#loop ??= this.#serve();
    return this;
  }

  /** Claims nothing more, ends each run after its superstep, hands them back, and resolves when that is stored. */
  async drain(): Promise<void> {
    await this.#end((execution) => execution.drain());
  }

  /** The same without waiting for the supersteps: what nodes return from now on is not stored. */
  async abort(): Promise<void> {
    await this.#end((execution) => execution.stop("abort"));
  }

  /** Tells a run that is executed here to end; its row says so already. */
  cancelHere(id: string): void {
    this.#running.get(id)?.execution.stop("cancel");
  }

  async #end(tell: (execution: Execution) => void): Promise<void> {
    this.#stopping = true;
    this.#wake.now();
    for (const { execution } of this.#running.values()) tell(execution);
    await this.#loop;
    while (this.#running.size > 0) await Promise.all([...this.#running.values()].map(({ ended }) => ended));
    await this.#wake.close();
  }

  async #serve(): Promise<void> {
    let watching = false;
    let nextTakeover = 0;
    let nextDueWaits = 0;
    while (!this.#stopping) {
      try {
        // Before the first look, so that nothing comes in between; a store that fails here is asked again.
        if (!watching) await this.#wake.open();
        watching = true;
        const now = performance.now();
        if (now >= nextTakeover) {
          await this.#lookAtRunning();
          await this.#queueAnswered();
          nextTakeover = performance.now() + this.#takeoverMs;
        }
        if (now >= nextDueWaits) {
          await decideDueWaits(this.#parts.checkpointer.waitLedger, () => this.#stopping, this.#parts.report);
          nextDueWaits = performance.now() + this.#pollMs;
        }
        while (!this.#stopping && (await this.#claimSome()));
        this.#looked = true;
      } catch (error) {
        this.#looked = false;
        if (!this.#stopping) this.#parts.report(error, {});
      }
      if (!this.#stopping) await this.#wake.sleep(this.#pollMs);
    }
  }

  /** Claims what is free for it; true where there may be more. */
  async #claimSome(): Promise<boolean> {
    const { ledger, graphs } = this.#parts;
    const free = this.#concurrency - this.#running.size;
    const open = Object.keys(graphs).filter((graph) => this.#freeFor(graph) > 0);
    if (free <= 0 || open.length === 0) return false;
    const rows = await ledger.backend.dueRuns({ dueBy: await ledger.backend.now(), graphs: open, limit: free });
    const claimed = await Promise.all(rows.map((row) => (this.#freeFor(row.graph) > 0 ? this.#claim(row, {}) : false)));
    return claimed.some(Boolean) && rows.length === free;
  }

  #freeFor(graph: string): number {
    const most = this.#perGraph[graph];
    if (most === undefined) return this.#concurrency;
    let running = 0;
    for (const { execution } of this.#running.values()) if (execution.stored.row.graph === graph) running += 1;
    return most - running;
  }

  async #claim(row: RunRow, { takeover = false }: { readonly takeover?: boolean }): Promise<boolean> {
    const { ledger, graphs, told } = this.#parts;
    const graph = graphs[row.graph];
    // Between looking and claiming another claim of this worker may have come.
    if (graph === undefined || this.#stopping || this.#running.has(row.id)) return false;
    const { notes } = await ledger.read(row);
    if (notes.deadline !== undefined && notes.deadline <= (await ledger.backend.now())) {
      told(await cancelRun(ledger, row.id, DEADLINE));
      return false;
    }
    const deaths = takeover ? (notes.deaths ?? 0) + 1 : notes.deaths;
    if (deaths !== undefined && deaths >= DEATHS_MAX) return this.#park(row, deaths);
    const executing = executingOn(ledger.backend);
    executing.add(row.id);
    try {
      const claimed = await ledger.move(row, {
        status: "running",
        epoch: row.epoch + 1,
        worker: ledger.backend.owner,
        due: undefined,
        ...(takeover ? { notes: { ...notes, deaths } } : {}),
      });
      if (claimed !== undefined) this.#execute(await ledger.read(claimed), graph, await ledger.backend.now());
      if (claimed !== undefined && takeover) this.#counts.takenOver += 1;
      return claimed !== undefined;
    } finally {
      if (!this.#running.has(row.id)) executing.delete(row.id);
    }
  }

  #execute(stored: StoredRun, graph: RunnableGraph, now: number): void {
    const { ledger, checkpointer, config } = this.#parts;
    const { row } = stored;
    this.#counts.claimed += 1;
    const { thread, graph: name } = row;
    const execution = new Execution(stored, graph, checkpointer, config?.({ thread, graph: name }) ?? {});
    const timer = this.#deadlineOf(stored, execution, now);
    const ended = execution
      .outcome(() => ledger.backend.now())
      .then((move) => this.#finish(row, move))
      .catch((error: unknown) => this.#parts.report(error, { id: row.id, thread }))
      .finally(() => {
        clearTimeout(timer);
        this.#running.delete(row.id);
        executingOn(ledger.backend).delete(row.id);
        this.#wake.now();
      });
    this.#running.set(row.id, { execution, ended });
  }

  #deadlineOf({ row, notes }: StoredRun, execution: Execution, now: number): NodeJS.Timeout | undefined {
    if (notes.deadline === undefined) return undefined;
    const { ledger, report } = this.#parts;
    // First the fact, then what follows from it.
    const cancel = () =>
      cancelRun(ledger, row.id, DEADLINE).then(
        () => execution.stop("cancel"),
        (error: unknown) => report(error, { id: row.id, thread: row.thread }),
      );
    return setTimeout(cancel, Math.min(notes.deadline - now, LONGEST_TIMER_MS));
  }

  async #park(row: RunRow, deaths: number): Promise<boolean> {
    const { ledger } = this.#parts;
    const { notes } = await ledger.read(row);
    const error = {
      name: "CrashLoop",
      message: `${deaths} workers in a row ended while they executed this run.`,
      code: undefined,
    };
    await this.#tell(
      await ledger.move(row, {
        status: "parked",
        worker: undefined,
        due: undefined,
        notes: { ...notes, deaths, error },
      }),
    );
    return false;
  }

  /** Stores what became of a run. A user's cancel that came meanwhile wins. */
  async #finish(claimed: RunRow, outcome: Move): Promise<void> {
    const { ledger, report } = this.#parts;
    let move = outcome;
    for (;;) {
      const [row] = await ledger.rows({ id: claimed.id });
      if (row === undefined || row.status !== "running" || row.epoch !== claimed.epoch) {
        this.#counts.lost += 1;
        return;
      }
      const { notes } = await ledger.read(row);
      if (notes.cancel !== undefined) move = { status: "cancelled", worker: undefined, due: undefined };
      const told = move.notes === undefined ? {} : { notes: { ...move.notes, cancel: notes.cancel } };
      const after = await ledger.move(row, { ...move, ...told });
      if (after === undefined) continue;
      wakeWorkers(ledger.backend);
      if (after.status === "failed" || after.status === "retrying")
        report(move.notes?.error, { id: row.id, thread: row.thread });
      if (after.status === "waiting" || after.status === "parked") await this.#lookAgain(after);
      await this.#tell(after);
      return;
    }
  }

  async #tell(row: RunRow | undefined): Promise<void> {
    if (row !== undefined) this.#parts.told((await this.#parts.ledger.read(row)).record);
  }

  /** What was answered between the last look of the run and its move to waiting. */
  async #lookAgain(row: RunRow): Promise<void> {
    const { ledger, checkpointer } = this.#parts;
    const answered = await checkpointer.waitLedger.rows({ thread: row.thread, status: ["answered"], limit: 1 });
    if (answered.length > 0) await ledger.move(row, { status: "queued", due: await ledger.backend.now() });
  }

  /** Runs that a worker moved to waiting and died before it saw that what they wait for was answered meanwhile. */
  async #queueAnswered(): Promise<void> {
    const { ledger, checkpointer } = this.#parts;
    const answered = await checkpointer.waitLedger.rows({ status: ["answered"], limit: LOOK_MAX });
    for (const thread of new Set(answered.map((wait) => wait.thread))) {
      const [row] = await ledger.rows({ thread, status: ["waiting"], limit: 1 });
      if (row !== undefined) await this.#lookAgain(row);
    }
  }

  /** Cancels that came for runs of ours, and runs whose worker is gone. */
  async #lookAtRunning(): Promise<void> {
    const { ledger, graphs } = this.#parts;
    const { owner } = ledger.backend;
    const alive = new Map<string, boolean>();
    for (const row of await ledger.rows({ status: ["running"] })) {
      if (this.#stopping) return;
      if (executingOn(ledger.backend).has(row.id) && row.worker === owner) {
        if ((await ledger.read(row)).notes.cancel !== undefined) this.cancelHere(row.id);
        continue;
      }
      if (row.worker === undefined || graphs[row.graph] === undefined) continue;
      // One of this process that nobody here executes: its end could not be stored.
      let lives = row.worker !== owner && alive.get(row.worker);
      if (lives === undefined) {
        lives = await ledger.backend.ownerAlive(row.worker);
        alive.set(row.worker, lives);
      }
      if (lives) continue;
      if ((await ledger.read(row)).notes.cancel !== undefined)
        await this.#tell(await ledger.move(row, { status: "cancelled", worker: undefined }));
      else if (this.#running.size < this.#concurrency) await this.#claim(row, { takeover: true });
    }
  }
}
