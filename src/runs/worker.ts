/**
 * Claims runs and executes them.
 *
 * - R2 One running run per thread: the backend refuses the claim of a second one, and of one whose turn has not come.
 * - R3 Every claim has a new epoch. Everything that is stored for a run is refused once somebody else has claimed it.
 * - R4 A run whose worker is gone is taken over by any other. One that three workers in a row died with is parked: what it does
 *   seems to kill them, and a person must look.
 * - R5 `drain` lets each run end its superstep and hands it back, without counting it as a failure.
 */

import type { RunQuery, WaitQuery } from "../backend.ts";
import type { RunRow } from "../model.ts";
import type { RunnableGraph } from "../run.ts";
import { BackendClock } from "./backend-clock.ts";
import { cancelRun } from "./cancel.ts";
import { type Handled, Messages } from "./delivery.ts";
import { executingOn } from "./executing.ts";
import { Execution } from "./execution.ts";
import { decideDueWaits } from "../due-waits.ts";
import { Places } from "./places.ts";
import type { Move } from "./run-ledger.ts";
import type { StoredRun } from "./run-record.ts";
import { WakeUp, wakeWorkers } from "./wake-up.ts";
import type { WorkerCounts, WorkerOptions, WorkerParts } from "./worker-parts.ts";

/** Workers that may die with a run before it is parked. */
export const DEATHS_MAX = 3;

/** Rows that are read at once. */
const PAGE = 100;
/** Looks for runs of other workers between two looks for answers that nobody has queued: both together must be rare. */
const LOOKS_PER_ANSWERED = 6;
/** By which a timer may ring too early. */
const EARLY_MS = 1;
const DEADLINE = { by: "deadline", reason: "The run's deadline has passed." };
/** Of setTimeout; a run that goes on for longer is looked at when it is claimed again. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export class Worker {
  readonly #parts: WorkerParts;
  readonly #places: Places;
  readonly #pollMs: number;
  readonly #takeoverMs: number;
  readonly #wake: WakeUp;
  readonly #clock: BackendClock;
  readonly #messages: Messages;
  readonly #running = new Map<string, { readonly execution: Execution; readonly ended: Promise<void> }>();
  readonly #counts = { claimed: 0, takenOver: 0, lost: 0 };
  #stopping = false;
  #looked = false;
  /** Times of `performance.now()` from which on to look for workers that are gone, and for waits that are due. */
  #nextDead = 0;
  #nextDueWaits = 0;
  #looks = 0;
  #loop: Promise<void> | undefined;
  #heartbeat: { stop(): Promise<void> } | undefined;

  constructor(parts: WorkerParts, options: Required<WorkerOptions>) {
    this.#parts = parts;
    this.#places = new Places(options.concurrency, options.graphConcurrency);
    this.#pollMs = options.pollMs;
    this.#takeoverMs = options.takeoverMs;
    this.#wake = new WakeUp(parts.ledger.backend);
    this.#clock = new BackendClock(parts.ledger.backend);
    this.#messages = new Messages(parts, options.concurrency, this.#clock);
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

  /** Handles a message that the run is due: it is this worker's as long as the run is. See delivery.ts. */
  claimById(id: string): Promise<Handled> {
    return this.#messages.handle(id, {
      ended: () => this.#running.get(id)?.ended,
      claim: (row) => (row.status === "running" ? this.#lookAtOne(row, new Map()) : this.#claim(row, {})),
    });
  }

  async #end(tell: (execution: Execution) => void): Promise<void> {
    this.#stopping = true;
    const closed = this.#messages.close();
    // What nodes wait for may not keep the process alive; without its polls the worker would not either.
    const alive = setInterval(() => {}, LONGEST_TIMER_MS);
    try {
      this.#wake.now();
      for (const { execution } of this.#running.values()) tell(execution);
      await this.#loop;
      while (this.#running.size > 0) await Promise.all([...this.#running.values()].map(({ ended }) => ended));
      await closed;
      await this.#heartbeat?.stop();
      await this.#wake.close();
    } finally {
      clearInterval(alive);
    }
  }

  async #serve(): Promise<void> {
    let watching = false;
    while (!this.#stopping) {
      // All that is due in one look is counted from its beginning, so that the next look finds it due together again.
      const begun = performance.now();
      let next = begun + this.#pollMs;
      try {
        // Before the first look, so that nothing comes in between; a store that fails here is asked again.
        if (!watching) await this.#wake.open();
        watching = true;
        this.#heartbeat ??= await this.#parts.ledger.backend.heartbeat?.();
        await this.#messages.open((id) => this.claimById(id));
        if (begun >= this.#nextDead - EARLY_MS) await this.#lookForDead(begun);
        if (begun >= this.#nextDueWaits - EARLY_MS) await this.#decideDue(begun);
        next = Math.min(next, this.#nextDead, this.#nextDueWaits, await this.#claimDue(begun));
        this.#looked = true;
      } catch (error) {
        this.#looked = false;
        if (!this.#stopping) this.#parts.report(error, {});
      }
      if (!this.#stopping) await this.#wake.sleep(Math.max(Math.ceil(next - performance.now()), 0));
    }
  }

  async #lookForDead(begun: number): Promise<void> {
    await this.#lookAtRunning();
    if (this.#looks % LOOKS_PER_ANSWERED === 0) await this.#queueAnswered();
    this.#looks += 1;
    this.#nextDead = begun + this.#takeoverMs;
  }

  async #decideDue(begun: number): Promise<void> {
    const { checkpointer, report } = this.#parts;
    const { waitLedger } = checkpointer;
    const { next } = await decideDueWaits(waitLedger, () => this.#stopping, report, this.#pollMs);
    this.#nextDueWaits =
      next === undefined ? begun + this.#pollMs : performance.now() + Math.max(next - waitLedger.now(), 0);
  }

  /** Claims what is due as long as there is room; resolves with the time at which more may be due. */
  async #claimDue(begun: number): Promise<number> {
    for (;;) {
      const { free } = this.#places;
      const graphs = Object.keys(this.#parts.graphs).filter((graph) => this.#places.freeFor(graph) > 0);
      // The end of a run wakes it.
      if (this.#stopping || free <= 0 || graphs.length === 0) return begun + this.#pollMs;
      const now = await this.#clock.now();
      const { due, next } = await this.#look(now, graphs, free);
      const claimed = await Promise.all(due.map((row) => this.#claim(row, {})));
      if (due.length === free && claimed.some(Boolean)) continue;
      return next === undefined ? begun + this.#pollMs : performance.now() + next - now;
    }
  }

  /** What is due now, and the earliest moment after it at which more is: one statement, unless too much is on its way. */
  async #look(now: number, graphs: readonly string[], limit: number) {
    const { backend } = this.#parts.ledger;
    const rows = await backend.dueRuns({ dueBy: now + this.#pollMs, graphs, limit });
    const isDue = ({ due }: RunRow) => due === undefined || due <= now;
    const later = rows.filter((row) => !isDue(row)).map(({ due }) => due as number);
    const next = later.length === 0 ? undefined : Math.min(...later);
    // Those of a higher priority come first, also where they are due later, and may have left no room.
    const hidden = later.length > 0 && rows.length === limit;
    return { due: hidden ? await backend.dueRuns({ dueBy: now, graphs, limit }) : rows.filter(isDue), next };
  }

  async #claim(row: RunRow, { takeover = false }: { readonly takeover?: boolean }): Promise<boolean> {
    const { ledger, graphs } = this.#parts;
    const graph = graphs[row.graph];
    const executing = executingOn(ledger.backend);
    // Between looking and claiming another claim of this process may have come. Of two at once one would be refused, and then
    // say that nobody here executes the run.
    if (graph === undefined || this.#stopping || executing.has(row.id) || !this.#places.take(row.graph)) return false;
    executing.add(row.id);
    try {
      return await this.#claimAlone(row, graph, takeover);
    } finally {
      if (!this.#running.has(row.id)) {
        executing.delete(row.id);
        this.#places.give(row.graph);
      }
    }
  }

  async #claimAlone(row: RunRow, graph: RunnableGraph, takeover: boolean): Promise<boolean> {
    const { ledger, told } = this.#parts;
    const { notes } = await ledger.read(row);
    if (notes.deadline !== undefined && notes.deadline <= (await ledger.backend.now())) {
      told(await cancelRun(ledger, row.id, DEADLINE));
      return false;
    }
    const deaths = takeover ? (notes.deaths ?? 0) + 1 : notes.deaths;
    if (deaths !== undefined && deaths >= DEATHS_MAX) return this.#park(row, deaths);
    const claimed = await ledger.move(row, {
      status: "running",
      epoch: row.epoch + 1,
      worker: ledger.backend.owner,
      due: undefined,
      ...(takeover ? { notes: { ...notes, deaths } } : {}),
    });
    if (claimed === undefined) return false;
    const now = notes.deadline === undefined ? 0 : await ledger.backend.now();
    this.#execute(await ledger.read(claimed), graph, now);
    if (takeover) this.#counts.takenOver += 1;
    this.#messages.claimed(row, this.#takeoverMs);
    return true;
  }

  #execute(stored: StoredRun, graph: RunnableGraph, now: number): void {
    const { ledger, checkpointer, config } = this.#parts;
    const { row } = stored;
    this.#counts.claimed += 1;
    const { thread, graph: name } = row;
    const execution = new Execution(stored, graph, checkpointer, config?.({ thread, graph: name }) ?? {});
    // It was claimed while the worker was told to end.
    if (this.#stopping) execution.drain();
    const timer = this.#deadlineOf(stored, execution, now);
    const ended = execution
      .outcome(() => ledger.backend.now())
      .then((move) => this.#finish(row, move))
      .catch((error: unknown) => this.#parts.report(error, { id: row.id, thread }))
      .finally(() => {
        clearTimeout(timer);
        this.#running.delete(row.id);
        executingOn(ledger.backend).delete(row.id);
        this.#places.give(row.graph);
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
    let row: RunRow | undefined = claimed;
    // Nobody else has changed it, in most cases; else it is looked at again.
    for (; ; [row] = await ledger.rows({ id: claimed.id })) {
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
      // What it waits for may be due before the next look.
      this.#nextDueWaits = 0;
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
    let after: WaitQuery["after"];
    for (;;) {
      const answered = await checkpointer.waitLedger.rows({ status: ["answered"], after, limit: PAGE });
      for (const thread of new Set(answered.map((wait) => wait.thread))) {
        const [row] = await ledger.rows({ thread, status: ["waiting"], limit: 1 });
        if (row !== undefined) await this.#lookAgain(row);
      }
      const last = answered.at(-1);
      if (last === undefined || answered.length < PAGE) return;
      after = { openedAt: last.openedAt, id: last.id };
    }
  }

  /** Cancels that came for runs of ours, and runs whose worker is gone. */
  async #lookAtRunning(): Promise<void> {
    const alive = new Map<string, Promise<boolean>>();
    let after: RunQuery["after"];
    for (;;) {
      const rows = await this.#parts.ledger.rows({ status: ["running"], after, limit: PAGE });
      for (const row of rows) if (!this.#stopping) await this.#lookAtOne(row, alive);
      after = rows.at(-1);
      if (this.#stopping || after === undefined || rows.length < PAGE) return;
    }
  }

  async #lookAtOne(row: RunRow, alive: Map<string, Promise<boolean>>): Promise<void> {
    const { ledger, graphs } = this.#parts;
    const { backend } = ledger;
    const isOurs = row.worker === backend.owner;
    if (isOurs && executingOn(backend).has(row.id)) {
      if ((await ledger.read(row)).notes.cancel !== undefined) this.cancelHere(row.id);
      return;
    }
    if (row.worker === undefined || graphs[row.graph] === undefined) return;
    // One of this process that nobody here executes: its end could not be stored.
    if (!isOurs) {
      const lives = alive.get(row.worker) ?? backend.ownerAlive(row.worker);
      alive.set(row.worker, lives);
      if (await lives) return;
    }
    if ((await ledger.read(row)).notes.cancel !== undefined)
      await this.#tell(await ledger.move(row, { status: "cancelled", worker: undefined }));
    else await this.#claim(row, { takeover: true });
  }
}
