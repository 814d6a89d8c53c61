/**
 * Between a checkpointer and its backend: groups what arrives together into one transaction and one fsync, keeps it in
 * order, bounds what is not yet durable, and publishes one event per group.
 *
 * - Q1 Commits reach the backend in the order they were queued. Those of one run that wait together become one commit:
 *   one refused refuses the rest, so nothing is ever stored on top of something that was not.
 * - Q2 `urgent` commits are sent within this turn of the event loop. The others wait until the loop has had a whole
 *   turn without a new commit, until MAX_WAITING commits wait, or until the oldest has waited MAX_AGE_MS (checked at
 *   the next enqueue: LangGraph may give the event loop no turn for a long time, so timers alone would starve).
 *   Where the backend answers later, `crowded` says when that bound is near: whoever could make more waits for `room`.
 * - Q3 A promise returned by `enqueue` settles only when its commit is durable, or refused, or failed.
 */

import { type Backend, closedError, type Op, type Verdict } from "./backend.ts";
import { HoldfastError, isHoldfastError } from "./errors.ts";
import { type CommitEvent, channels } from "./events.ts";

/** Commits that may wait for a shared fsync; the most a kill can take from a run in async durability. */
export const MAX_WAITING = 32;
/** So many are too many for another superstep of one task, which has a few commits, to begin. */
const CROWDED = MAX_WAITING - 4;
const MAX_AGE_MS = 25;

/** Whoever may have lost the right to write since it queued. */
interface Guard {
  readonly refused: HoldfastError | undefined;
}

/** Who is told what became of a commit. */
interface Settler {
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

interface Waiting {
  readonly ops: Op[];
  /** Asked right before sending: a run that was refused meanwhile sends nothing more. */
  readonly guard: Guard | undefined;
  readonly done: Settler[];
}

export interface EnqueueOptions {
  /** Commits with the same chain that wait together become one. */
  readonly chain?: object | undefined;
  readonly urgent?: boolean;
  readonly guard?: Guard | undefined;
  /** Where something is to be stored: what has to hold for it, judged first. */
  readonly fence?: Op | undefined;
  /** Called before the promise rejects. */
  readonly onFailure?: ((error: unknown) => void) | undefined;
  /** Is given a function that resolves the promise before the commit is durable; a later failure then goes to `onFailure` alone. */
  readonly onQueued?: ((release: () => void) => void) | undefined;
}

export class CommitQueue {
  readonly #backend: Backend;
  #waiting: Waiting[] = [];
  #chains = new Map<object, Waiting>();
  #count = 0;
  #oldest = 0;
  #sending = false;
  /** Called when the group under way has been answered. */
  #answered: (() => void)[] = [];
  #scheduled = false;
  #urgent = false;
  #countAtLastTurn = -1;
  #groups = 0;
  #closed = false;

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  /** Commits queued or under way and not yet durable. */
  get waiting(): number {
    return this.#count;
  }

  /**
   * Whether the backend has fallen behind: it has not answered yet, and the next superstep would leave more than MAX_WAITING
   * commits waiting. A backend that answers at once never is.
   */
  get crowded(): boolean {
    return this.#sending && this.#count >= CROWDED;
  }

  /** Resolves when the backend has caught up. Never rejects. */
  async room(): Promise<void> {
    while (this.crowded) await new Promise<void>((resolve) => this.#answered.push(resolve));
  }

  /** Queues one commit. Resolves with `value` when it is durable; rejects with the verdict that refused it or with what failed. */
  enqueue<T>(ops: readonly Op[], value: T, options: EnqueueOptions = {}): Promise<T> {
    if (this.#closed) return Promise.reject(closedError(this.#backend.name));
    const { chain, guard, fence, onFailure } = options;
    let entry = chain === undefined ? undefined : this.#chains.get(chain);
    if (entry === undefined) {
      entry = { ops: fence === undefined ? [...ops] : [fence, ...ops], guard, done: [] };
      this.#waiting.push(entry);
      if (chain !== undefined) this.#chains.set(chain, entry);
    } else {
      for (const op of ops) entry.ops.push(op);
    }
    if (this.#count === 0) this.#oldest = performance.now();
    this.#count += 1;
    const { done } = entry;
    const settled = new Promise<T>((resolve, reject) => {
      const release = () => resolve(value);
      done.push({
        resolve: release,
        reject: (error) => {
          onFailure?.(error);
          reject(error);
        },
      });
      options.onQueued?.(release);
    });
    if (options.urgent === true) this.#urgent = true;
    if (this.#count >= MAX_WAITING || performance.now() - this.#oldest > MAX_AGE_MS) this.#send();
    else this.#schedule();
    return settled;
  }

  /** Resolves when everything queued before the call is durable, refused or failed. Never rejects. */
  flush(): Promise<void> {
    const last = this.#waiting.at(-1);
    if (last === undefined) {
      if (!this.#sending) return Promise.resolve();
      return new Promise((resolve) => this.#answered.push(resolve));
    }
    this.#urgent = true;
    this.#schedule();
    return new Promise((resolve) => {
      last.done.push({ resolve, reject: () => resolve() });
    });
  }

  /** Sends what waits, then refuses everything else. */
  async close(): Promise<void> {
    await this.flush();
    this.#closed = true;
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      if (this.#waiting.length === 0 || this.#sending) return;
      // Without urgency: as long as every turn brings new commits, let them gather; a quiet turn sends.
      if (!this.#urgent && this.#count !== this.#countAtLastTurn && performance.now() - this.#oldest <= MAX_AGE_MS) {
        this.#countAtLastTurn = this.#count;
        this.#schedule();
        return;
      }
      this.#send();
    });
  }

  #send(): void {
    if (this.#sending) return;
    const group: Waiting[] = [];
    for (const entry of this.#waiting) {
      const refusal = entry.guard?.refused;
      if (refusal === undefined) group.push(entry);
      else for (const { reject } of entry.done) reject(refusal);
    }
    const counted = this.#count;
    this.#waiting = [];
    this.#chains = new Map();
    this.#urgent = false;
    this.#countAtLastTurn = -1;
    this.#sending = true;
    if (group.length > 0) this.#commit(group, counted);
    else this.#ended(counted);
  }

  #commit(group: readonly Waiting[], counted: number): void {
    this.#groups += 1;
    const observed = channels.commitBefore.hasSubscribers || channels.commitAfter.hasSubscribers;
    const event = observed ? describe(group, this.#groups) : undefined;
    if (event !== undefined) channels.commitBefore.publish(event);
    const start = performance.now();
    const accepted = (verdicts: readonly Verdict[]): void => {
      if (event !== undefined) {
        const refused = verdicts.filter((verdict) => verdict !== undefined).length;
        channels.commitAfter.publish({ ...event, durationMs: performance.now() - start, refused });
      }
      for (const [i, entry] of group.entries()) {
        const verdict = verdicts[i];
        for (const { resolve, reject } of entry.done) verdict === undefined ? resolve() : reject(verdict);
      }
      this.#ended(counted);
    };
    const failed = (cause: unknown): void => {
      const error = isHoldfastError(cause) ? cause : storageError(this.#backend.name, cause);
      if (event !== undefined) channels.commitAfter.publish({ ...event, durationMs: performance.now() - start, error });
      for (const entry of group) for (const { reject } of entry.done) reject(error);
      this.#ended(counted);
    };
    let answer: Promise<readonly Verdict[]> | readonly Verdict[];
    try {
      answer = this.#backend.commit(group.map((entry) => entry.ops));
    } catch (cause) {
      failed(cause);
      return;
    }
    if ("then" in answer) answer.then(accepted, failed);
    else accepted(answer);
  }

  #ended(counted: number): void {
    this.#sending = false;
    this.#count -= counted;
    this.#oldest = performance.now();
    const answered = this.#answered;
    if (answered.length > 0) {
      this.#answered = [];
      for (const resolve of answered) resolve();
    }
    if (this.#waiting.length === 0) return;
    if (this.#count >= MAX_WAITING) this.#send();
    else this.#schedule();
  }
}

function storageError(name: string, cause: unknown): HoldfastError {
  const message = cause instanceof Error ? cause.message : String(cause);
  return new HoldfastError("STORAGE_FAILED", `${name} did not acknowledge a commit: ${message}`, {
    cause,
    details: { name },
  });
}

function describe(group: readonly Waiting[], number: number): CommitEvent {
  let ops = 0;
  let bytes = 0;
  const kinds: string[] = [];
  for (const entry of group) {
    ops += entry.ops.length;
    for (const op of entry.ops) {
      kinds.push(op.kind);
      bytes += sizeOf(op);
    }
  }
  return { number, commits: group.length, ops, bytes, kinds };
}

function sizeOf(op: Op): number {
  switch (op.kind) {
    case "checkpoint":
    case "writes":
    case "items":
      return op.body.length;
    case "blob":
      return op.data.length;
    case "effect":
      return op.row.body.length;
    case "wait":
    case "decision":
    case "run":
      return op.row.body.length;
    case "endWait":
    case "fence":
    case "deleteThread":
      return 0;
    default: {
      const never: never = op;
      return never;
    }
  }
}
