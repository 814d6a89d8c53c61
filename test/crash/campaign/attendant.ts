/**
 * Who looks after a round's runs from outside, in a process that nobody kills: notices their ends, answers questions, and does with
 * a run that worker after worker died with what the documentation tells an operator to do.
 */

import { setTimeout as wait } from "node:timers/promises";
import { type Checkpointer, isHoldfastError, type WaitRecord } from "holdfast";
import type { RunRecord, Runtime } from "holdfast/runs";
import { DEADLINE_QUESTION, DOUBLE_QUESTION } from "./graphs.ts";
import type { ThreadPlan } from "./plan.ts";

const LOOK_MS = 100;
const ACTIVE = ["queued", "running", "waiting", "retrying", "parked"] as const;
const ENDED: readonly RunRecord["status"][] = ["succeeded", "failed", "cancelled"];
/** More than a round ever has at once. */
const ALL = 1000;

/** Answers that come too late, or to a thread that is gone. */
const OVERTAKEN = ["ALREADY_ANSWERED", "UNKNOWN_WAIT", "THREAD_DELETED"] as const;

interface Expected {
  readonly input: unknown;
  readonly resolve: (record: RunRecord | undefined) => void;
}

export interface GivenAnswer {
  readonly wait: string;
  readonly value: string;
}

export class Attendant {
  readonly #runtime: Runtime;
  readonly #checkpointer: Checkpointer;
  /** By thread; one that is not there is answered at once. */
  readonly #plans: ReadonlyMap<string, ThreadPlan>;
  readonly #expected = new Map<string, Expected>();
  /** A run that was cancelled for a crash loop, and the one that went on in its place. */
  readonly #successors = new Map<string, string>();
  readonly #attended = new Set<string>();
  readonly #answering = new Set<Promise<void>>();
  readonly answered: GivenAnswer[] = [];
  readonly problems: string[] = [];
  crashLoops = 0;
  #stopped = false;
  #last: Promise<unknown> = Promise.resolve();
  #looking: Promise<void> | undefined;

  constructor(runtime: Runtime, plans: ReadonlyMap<string, ThreadPlan>) {
    this.#runtime = runtime;
    this.#checkpointer = runtime.checkpointer;
    this.#plans = plans;
  }

  start(): void {
    this.#looking = this.#look();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#looking;
    await Promise.all(this.#answering);
  }

  /** Resolves with the end of a run, or of the one that went on in its place; undefined where its thread was deleted. */
  ended(id: string, input: unknown): Promise<RunRecord | undefined> {
    return new Promise((resolve) => {
      this.#expected.set(id, { input, resolve });
    });
  }

  /** The run that goes on for it by now. */
  current(id: string): string {
    const next = this.#successors.get(id);
    return next === undefined ? id : this.current(next);
  }

  /** One after another: two who act on the same run from outside would each put another one in its place. */
  alone<T>(act: () => Promise<T>): Promise<T> {
    const done = this.#last.then(act);
    this.#last = done.catch(() => {});
    return done;
  }

  /** Runs whose end nobody has seen. */
  get open(): readonly string[] {
    return [...this.#expected.keys()];
  }

  async #look(): Promise<void> {
    while (!this.#stopped) {
      try {
        await this.#lookOnce();
      } catch (error) {
        // A run that is replaced or deleted between two reads is looked at again.
        if (!isHoldfastError(error, "UNKNOWN_RUN")) this.problems.push(`the operator: ${String(error)}`);
      }
      await wait(LOOK_MS);
    }
  }

  async #lookOnce(): Promise<void> {
    // What was expected before the list was read, and is not in it, has ended.
    const before = [...this.#expected.keys()];
    const active = new Map((await this.#runtime.list({ status: ACTIVE, limit: ALL })).map((run) => [run.id, run]));
    for (const id of before) if (!active.has(id)) await this.#end(id);
    for (const run of active.values()) if (run.status === "parked") await this.alone(() => this.#goOn(run.id));
    for (const question of await this.#checkpointer.waits({ status: ["open"], kind: ["question"], limit: ALL }))
      this.#attend(question);
  }

  async #end(id: string): Promise<void> {
    const record = await this.#runtime.get(id).catch((error: unknown) => {
      if (isHoldfastError(error, "UNKNOWN_RUN")) return undefined;
      throw error;
    });
    if (record !== undefined && !ENDED.includes(record.status)) return;
    const expected = this.#expected.get(id);
    this.#expected.delete(id);
    expected?.resolve(record);
  }

  /** "find out why; cancel it, and start one without input, or with the same where nothing of it was stored" */
  async #goOn(id: string): Promise<void> {
    const run = await this.#runtime.get(id);
    if (run.status !== "parked") return;
    if (run.error?.name !== "CrashLoop") {
      if (!this.#attended.has(run.id)) this.problems.push(`run ${run.id} of ${run.thread} is parked`);
      this.#attended.add(run.id);
      return;
    }
    this.crashLoops += 1;
    await this.#runtime.cancel(run.id, { by: "operator", reason: "crash loop" });
    const tuple = await this.#checkpointer.getTuple({ configurable: { thread_id: run.thread } });
    const input = tuple === undefined ? run.input : undefined;
    const key = `instead of ${run.id}`;
    const next = await this.#runtime.start(run.graph, input, { threadId: run.thread, key });
    this.#successors.set(run.id, next.run.id);
    const expected = this.#expected.get(run.id);
    if (expected === undefined) return;
    this.#expected.delete(run.id);
    this.#expected.set(next.run.id, expected);
  }

  #attend(question: WaitRecord): void {
    const { id, thread, name } = question;
    if (this.#attended.has(id)) return;
    const plan = this.#plans.get(thread);
    // Nobody answers: the deadline decides. Another question would wait for ever.
    if (plan?.answers === false && name === DEADLINE_QUESTION) return;
    this.#attended.add(id);
    const answering = this.#answer(question, plan?.actAfterMs ?? 0).finally(() => this.#answering.delete(answering));
    this.#answering.add(answering);
  }

  async #answer({ id, thread, name }: WaitRecord, afterMs: number): Promise<void> {
    // Where many answer at once, nobody waits for the others.
    if (name !== DOUBLE_QUESTION) await wait(afterMs);
    const value = name === DOUBLE_QUESTION || name === DEADLINE_QUESTION ? "operator" : undefined;
    const decision = value === undefined ? ({ type: "approve" } as const) : ({ type: "respond", value } as const);
    try {
      const { replayed } = await this.#checkpointer.answer(id, decision, { by: "operator" });
      if (!replayed && value !== undefined) this.answered.push({ wait: id, value });
    } catch (error) {
      if (OVERTAKEN.some((code) => isHoldfastError(error, code))) return;
      this.problems.push(`the answer to ${name} of ${thread} failed: ${String(error)}`);
    }
  }
}
