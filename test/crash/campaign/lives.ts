/**
 * The lives of a round's workers: as many at a time as the plan says, each disturbed and ended as the plan says, its successor loaded
 * before it ends. A worker that stands still is let go when another one has taken over what it had, where that happens.
 */

import { setTimeout as wait } from "node:timers/promises";
import type { Backend } from "holdfast";
import type { BackendCounts } from "./counts.ts";
import type { LifePlan, RoundPlan } from "./plan.ts";
import type { StorePlace } from "./stores.ts";
import { WorkerProcess } from "./worker-process.ts";

const LOOK_MS = 100;
/** For a worker that stands still and is not taken over, because the others are dying all the time. */
const STANDS_MAX_MS = 5000;
/** A worker whose kill point did not come, or whose drain does not end. */
const ENDS_MAX_MS = 30_000;

export interface LivesParts {
  readonly plan: RoundPlan;
  readonly place: StorePlace;
  readonly counterUrl: string;
  /** Of the observer, which nobody disturbs. */
  readonly backend: Backend;
  readonly counts: BackendCounts;
  readonly problems: string[];
}

export class Lives {
  readonly #parts: LivesParts;
  readonly #all = new Set<WorkerProcess>();
  readonly #calm = new AbortController();
  readonly #lanes: Promise<void>[] = [];
  readonly stoppedInside: string[] = [];
  /** What happened in bodies of effects, for whoever asks why one was sent twice. */
  readonly trail = new Map<string, string[]>();
  #spawned = 0;
  readonly answered: { readonly wait: string; readonly value: string }[] = [];

  constructor(parts: LivesParts) {
    this.#parts = parts;
  }

  start(): void {
    for (let slot = 0; slot < this.#parts.plan.workers; slot++) this.#lanes.push(this.#lane(slot));
  }

  /** No more disturbances: every worker hands back what it has and ends. */
  async calm(): Promise<void> {
    this.#calm.abort();
    await Promise.all(this.#lanes);
  }

  /** A worker that nobody disturbs, in the plan's stead. */
  async undisturbed(life: LifePlan): Promise<WorkerProcess> {
    const worker = this.#spawn(life);
    worker.serve();
    await worker.serving;
    return worker;
  }

  async drain(worker: WorkerProcess): Promise<void> {
    worker.drain();
    await this.#end(worker, "drain");
  }

  /** Leaves no process behind, whatever has happened. */
  async killAll(): Promise<void> {
    this.#calm.abort();
    for (const worker of this.#all) worker.kill();
    await Promise.allSettled([...this.#lanes, ...[...this.#all].map(({ ended }) => ended)]);
  }

  async #lane(slot: number): Promise<void> {
    const { plan } = this.#parts;
    let next = this.#spawn(plan.life(slot, 0));
    for (let life = 1; !this.#calm.signal.aborted; life++) {
      const worker = next;
      worker.serve();
      next = this.#spawn(plan.life(slot, life));
      await this.#liveOut(worker, next);
    }
    this.#all.delete(next);
    next.kill();
    await next.ended;
  }

  #spawn(life: LifePlan): WorkerProcess {
    const worker = new WorkerProcess({ place: this.#parts.place, life }, this.#parts.counterUrl);
    const name = `worker ${++this.#spawned}`;
    worker.onBody = (what, event) => {
      const trail = this.trail.get(what) ?? [];
      trail.push(`${name} ${event} at ${Math.round(performance.now())} ms`);
      this.trail.set(what, trail);
    };
    this.#all.add(worker);
    return worker;
  }

  async #liveOut(worker: WorkerProcess, successor: WorkerProcess): Promise<void> {
    const { freezes, end } = worker.order.life;
    const { counts, problems } = this.#parts;
    const stands: Promise<void>[] = [];
    worker.onFrozen = () => {
      counts.freezesAtPoints += 1;
      stands.push(this.#stand(worker, successor, freezes.find(({ at }) => "point" in at)?.forMs ?? 0));
    };
    // One that took over early, from a worker that stood still, may have stopped itself by now.
    if (worker.frozen) worker.onFrozen();
    await worker.serving.catch((error: unknown) => {
      // One that dies while it opens the store is a death like any other.
      if (worker.order.life.end.point === undefined) problems.push(String(error));
    });
    const begun = performance.now();
    const timed = freezes.flatMap(({ at, forMs }) => ("afterMs" in at ? [{ afterMs: at.afterMs, forMs }] : []));
    for (const { afterMs, forMs } of timed.sort((a, b) => a.afterMs - b.afterMs)) {
      if (afterMs >= end.afterMs) break;
      await this.#until(worker, begun + afterMs - performance.now());
      if (worker.hasEnded || worker.frozen || this.#calm.signal.aborted) break;
      worker.freeze();
      await this.#stand(worker, successor, forMs);
    }
    await this.#until(worker, begun + end.afterMs - performance.now());
    await Promise.all(stands);
    if (!worker.hasEnded) {
      if (end.kind === "drain" || this.#calm.signal.aborted) worker.drain();
      else worker.kill();
    }
    await this.#end(worker, this.#calm.signal.aborted ? "drain" : end.kind);
    await Promise.all(stands);
  }

  /** Waits for a time of the plan, the worker's end, or the calm. */
  async #until(worker: WorkerProcess, ms: number): Promise<void> {
    if (ms <= 0 || this.#calm.signal.aborted) return;
    const done = new AbortController();
    const signal = AbortSignal.any([this.#calm.signal, done.signal]);
    await Promise.race([wait(ms, undefined, { signal }).catch(() => {}), worker.ended]);
    done.abort();
  }

  /** A worker that stands still: until others have what it had, and at least as long as the plan says. */
  async #stand(worker: WorkerProcess, successor: WorkerProcess, forMs: number): Promise<void> {
    const { plan, counts, backend } = this.#parts;
    counts.freezes += 1;
    // Where it is the only one, the next takes over.
    if (plan.workers === 1) successor.serve();
    await this.#until(worker, forMs);
    const { owner } = worker;
    // One that stands still inside a transaction of SQLite holds up everybody, and is not taken over.
    if (owner !== undefined) {
      const latest = performance.now() + STANDS_MAX_MS;
      let left = 1;
      while (!worker.hasEnded && performance.now() < latest && !this.#calm.signal.aborted) {
        left = (await backend.runs({ worker: owner, status: ["running"], limit: 1 })).length;
        if (left === 0) break;
        await this.#until(worker, LOOK_MS);
      }
      if (left === 0) counts.takenOverFrozen += 1;
    }
    await worker.thaw();
  }

  /** What it says about itself is all that will ever be known. */
  async #giveUp(worker: WorkerProcess, expected: string): Promise<void> {
    worker.tell();
    await Promise.race([wait(LOOK_MS * 10), worker.ended]);
    const { frozen, counts, errors, order } = worker;
    const state = JSON.stringify({ frozen, counts, last: errors.slice(-3), life: order.life });
    this.#parts.problems.push(`a worker did not end ${ENDS_MAX_MS} ms after its ${expected}: ${state}`);
    worker.kill();
  }

  async #end(worker: WorkerProcess, expected: "kill" | "drain"): Promise<void> {
    const { counts, problems } = this.#parts;
    const late = setTimeout(() => void this.#giveUp(worker, expected), ENDS_MAX_MS);
    const { code, signal } = await worker.ended;
    clearTimeout(late);
    this.#all.delete(worker);
    if (signal === "SIGKILL") counts.deaths += 1;
    else if (code === 0 && expected === "drain") counts.drains += 1;
    else problems.push(`a worker ended by itself with code ${code}, signal ${signal}: ${worker.stderr}`);
    if (signal === "SIGKILL" && worker.order.life.end.point !== undefined && !worker.killed) counts.deathsAtPoints += 1;
    if (worker.stderr !== "" && signal !== "SIGKILL") problems.push(`a worker wrote to stderr: ${worker.stderr}`);
    const { takenOver, lost, stale, storeErrors, lostAnswers, clockShifts } = worker.counts;
    counts.takeovers += takenOver;
    counts.runsLost += lost;
    counts.staleRefused += stale;
    counts.storeErrors += storeErrors;
    counts.lostAnswers += lostAnswers;
    counts.clockShifts += clockShifts;
    for (const error of worker.errors) counts.errors[codeOf(error)] = (counts.errors[codeOf(error)] ?? 0) + 1;
    this.stoppedInside.push(...worker.stoppedInside);
    this.answered.push(...worker.answered);
  }
}

const codeOf = (error: string) => error.slice(0, error.indexOf(":"));
