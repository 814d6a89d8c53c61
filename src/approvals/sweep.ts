/**
 * Looks for what nobody is doing: due times that nobody has recorded, and threads whose waits are answered but which no
 * living process goes on with. Page by page, whatever their number; nothing is kept for a thread that waits.
 *
 * - P1 One thread that fails, or hangs, or cannot be read, stops no other: failures are reported and passed over, and a
 *   run is not waited for before the next one begins, up to `runsMax` of them.
 * - P2 Any number of processes may sweep at once: each due time is recorded once, each thread is run by one (T1).
 */

import type { WaitQuery } from "../backend.ts";
import { decideDueWaits } from "../due-waits.ts";
import type { WaitRow } from "../model.ts";
import type { WaitLedger } from "../wait-ledger.ts";
import { heldElsewhere } from "./thread-hold.ts";
import type { Forced, Outcome, Report, ThreadRunner } from "./thread-runner.ts";

/** What a sweep has done. */
export interface SweepResult {
  /** Deadlines and timers that had come and were recorded. */
  readonly decided: number;
  /** Threads that went on. */
  readonly resumed: number;
  /** Threads whose run failed, or which no graph here belongs to; each was told to `onError`. */
  readonly failed: number;
}

const PAGE = 100;

export class Sweep {
  readonly #ledger: WaitLedger;
  readonly #runner: ThreadRunner;
  readonly #report: Report;
  readonly #runsMax: number;

  constructor(ledger: WaitLedger, runner: ThreadRunner, report: Report, runsMax: number) {
    this.#ledger = ledger;
    this.#runner = runner;
    this.#report = report;
    this.#runsMax = runsMax;
  }

  /** Resolves when everything has been started, with the number of due times; `ran` is told how each run ended. */
  async pass(ran: (ended: Promise<Outcome>) => void): Promise<number> {
    const { decided } = await decideDueWaits(this.#ledger, () => this.#runner.closed, this.#report);
    for await (const row of this.#rows({ status: ["answered"] })) {
      if (this.#runner.closed) return decided;
      if (await this.#isOurs(row)) await this.#start(row.thread, ran);
    }
    for (const ref of this.#runner.backOff.due()) await this.#start(ref.thread, ran, { ref });
    return decided;
  }

  /** A pass, and the end of every run that it started. */
  async whole(): Promise<SweepResult> {
    const counts: Record<Outcome, number> = { idle: 0, ran: 0, failed: 0 };
    const running = new Set<Promise<void>>();
    const decided = await this.pass((ended) => {
      const counted = ended.then((outcome) => {
        counts[outcome] += 1;
        running.delete(counted);
      });
      running.add(counted);
    });
    await Promise.all(running);
    return { decided, resumed: counts.ran, failed: counts.failed };
  }

  /** Whether it is for this process to go on with the wait's thread, as far as can be seen without taking it. */
  async #isOurs(row: WaitRow): Promise<boolean> {
    const { backOff } = this.#runner;
    if (this.#runner.isRunning(row.thread) || backOff.waiting(row.thread)) return false;
    // A thread of a graph that is not served here is for the process that serves it.
    if (!this.#runner.concerns(row.graph)) return false;
    return !(await heldElsewhere(this.#ledger, [row]));
  }

  async #start(thread: string, ran: (ended: Promise<Outcome>) => void, forced?: Forced) {
    await this.#runner.room(this.#runsMax);
    if (!this.#runner.closed) ran(this.#runner.goOn(thread, forced));
  }

  async *#rows(query: WaitQuery): AsyncGenerator<WaitRow> {
    let after: WaitQuery["after"];
    for (;;) {
      const rows = await this.#ledger.rows({ ...query, after, limit: PAGE });
      yield* rows;
      const last = rows.at(-1);
      if (last === undefined || rows.length < PAGE) return;
      after = { openedAt: last.openedAt, id: last.id };
    }
  }
}
