/**
 * Sends groups of commits, one at a time and numbered, and makes verdicts of the answers. A group is one call of one
 * script. Only where a task has stored writes that new ones must be compared with, the group goes on after a look at them.
 */

import {
  type Commit,
  type EffectRow,
  HoldfastError,
  judgeDecision,
  judgeEffect,
  judgeEra,
  judgeFence,
  judgeHead,
  judgeItems,
  judgeRun,
  judgeWait,
  isHoldfastError,
  type Op,
  type RunRow,
  type Verdict,
  type WaitRow,
} from "holdfast";
import { type Argument, commitArgs, ThreadNumbers } from "./commit-args.ts";
import { ANSWER_KEPT_MS, commitScript } from "./commit-script.ts";
import type { Connection } from "./connection.ts";
import { type Look, lookAndPlan } from "./plan.ts";
import { runFrom, STATUSES } from "./rows.ts";

/** Why the script refused a commit: place of the operation (from 1), what was judged, and the facts. */
type Refusal = readonly [at: number, what: string, ...facts: unknown[]];

/** A commit as it is sent; `look` where its writes were compared outside. */
interface Sending {
  readonly commit: Commit;
  /** Place of its verdict. */
  readonly at: number;
  readonly args: readonly Argument[];
  readonly look: Look | undefined;
}

export class Committer {
  readonly #connection: Connection;
  readonly #owner: string;
  readonly #ttl: string;
  readonly #leaseMs: number;
  #seq = 0;
  #acknowledged = { seq: 0, at: 0, clock: 0 };
  #leasedAt = Number.NEGATIVE_INFINITY;
  #tail: Promise<unknown> = Promise.resolve();

  constructor(connection: Connection, owner: string, ttlMs: number | undefined, leaseMs: number) {
    this.#connection = connection;
    this.#owner = owner;
    this.#ttl = ttlMs === undefined ? "" : `${ttlMs}`;
    this.#leaseMs = leaseMs;
  }

  /** Groups are applied in the order of the calls. */
  commit(group: readonly Commit[]): Promise<readonly Verdict[]> {
    this.#connection.requireOpen();
    const verdicts: Verdict[] = group.map(() => undefined);
    const threads = new ThreadNumbers();
    const sendings: Sending[] = [];
    // Now, not in its turn: bytes may change after the call.
    for (const [at, commit] of group.entries()) {
      try {
        if (commit.length > 0) sendings.push({ commit, at, args: commitArgs(commit, threads), look: undefined });
      } catch (error) {
        if (!isHoldfastError(error)) return Promise.reject(error);
        verdicts[at] = error;
      }
    }
    if (sendings.length === 0) return Promise.resolve(verdicts);
    const answer = this.#tail.then(() => this.#send(sendings, threads, verdicts));
    this.#tail = answer.catch(() => {});
    return answer;
  }

  /** Resolves when every group handed over so far is answered. */
  async idle(): Promise<void> {
    await this.#tail;
  }

  async #send(sendings: readonly Sending[], first: ThreadNumbers, verdicts: Verdict[]): Promise<readonly Verdict[]> {
    let left = sendings;
    let threads = first;
    for (;;) {
      const answers = await this.#call(left, threads);
      for (const [at, answer] of answers.entries()) {
        const sending = left[at] as Sending;
        if (answer !== 0 && answer[1] !== "look") verdicts[sending.at] = verdictOf(sending, answer);
      }
      const last = answers.at(-1);
      if (last === undefined || last === 0 || last[1] !== "look") return verdicts;
      // The commits before it are applied; it and those after it are sent again.
      threads = new ThreadNumbers();
      const [looked, ...rest] = left.slice(answers.length - 1) as [Sending, ...Sending[]];
      const look = await lookAndPlan(this.#connection, looked.commit);
      left = [
        { ...looked, look, args: commitArgs(looked.commit, threads, look.planned) },
        ...rest.map((one) => ({ ...one, args: commitArgs(one.commit, threads, one.look?.planned) })),
      ];
    }
  }

  async #call(sendings: readonly Sending[], threads: ThreadNumbers): Promise<readonly (0 | Refusal)[]> {
    this.#seq += 1;
    const seq = this.#seq;
    const at = performance.now();
    const due = at - this.#leasedAt > this.#leaseMs / 3;
    const head = [this.#owner, `${seq}`, `${this.#known()}`, this.#ttl, due ? `${this.#leaseMs}` : ""];
    const args = [...head, `${threads.count}`, ...threads.args, `${sendings.length}`];
    for (const sending of sendings) for (const arg of sending.args) args.push(arg);
    const answer = String(await this.#connection.runLast(commitScript, ...args));
    if (answer === "lost" || answer === "late") {
      // Told once: what comes after is judged by what the server has.
      this.#acknowledged = { seq: 0, at: 0, clock: 0 };
      throw lostError(this.#connection.name);
    }
    this.#acknowledged = { seq, at: performance.now(), clock: Date.now() };
    if (due) this.#leasedAt = at;
    return JSON.parse(answer) as (0 | Refusal)[];
  }

  /** The call that the server must know of: the last one acknowledged, unless it may have forgotten it in good order. */
  #known(): number {
    const { seq, at, clock } = this.#acknowledged;
    // Two clocks: one stands still while the machine sleeps, the other may be set.
    const silentMs = Math.max(performance.now() - at, Date.now() - clock);
    return silentMs < ANSWER_KEPT_MS / 2 ? seq : 0;
  }
}

function lostError(name: string): HoldfastError {
  return new HoldfastError(
    "STORAGE_FAILED",
    `${name} has lost commits that it had acknowledged: it was restarted, emptied, or replaced by a replica that was behind. ` +
      "This commit was not applied. Read the thread's state before going on, and compare effects with the outside world.",
    { details: { name } },
  );
}

function verdictOf({ commit, look }: Sending, [at, what, ...facts]: Refusal): Verdict {
  const place = at - 1 - (look?.planned.guards.length ?? 0);
  const op = commit[place] as Op;
  const verdict =
    what === "era"
      ? judgeEra(op as Exclude<Op, { kind: "deleteThread" }>, facts[0] as number)
      : what === "plan"
        ? look?.refusals.get(place)
        : judged(op, facts);
  if (verdict === undefined) throw new TypeError(`The script refused ${op.kind}, which the contract accepts.`);
  return verdict;
}

/** The contract's own words, from what the script has found. */
function judged(op: Op, facts: readonly unknown[]): Verdict {
  const text = (at: number) => (typeof facts[at] === "string" ? (facts[at] as string) : undefined);
  switch (op.kind) {
    case "checkpoint":
      return judgeHead(op, text(0));
    case "items":
      return judgeItems(op, true);
    case "effect": {
      const rev = text(0);
      const found = { ...op.row, rev: Number(rev), status: text(1) as EffectRow["status"] };
      return judgeEffect(op, rev === undefined ? undefined : found);
    }
    case "wait": {
      const rev = text(0);
      const thread = facts[2] === true ? op.row.thread : `${op.row.thread} (another)`;
      const status = STATUSES[Number(text(1))] as WaitRow["status"];
      return judgeWait(op, rev === undefined ? undefined : { ...op.row, thread, rev: Number(rev), status });
    }
    case "decision":
      return judgeDecision(op, typeof facts[0] === "number" ? facts[0] : undefined);
    case "run": {
      const [old, same, ahead] = [0, 1, 2].map((at) => runOf(op.thread, facts[at]));
      return judgeRun(op, { byId: () => old, byKey: () => same, ahead: () => ahead });
    }
    case "fence":
      return judgeFence(op, runOf(op.thread, facts[0]));
    default:
      return undefined;
  }
}

function runOf(thread: string, found: unknown): RunRow | undefined {
  if (!Array.isArray(found)) return undefined;
  const [id, digit, ours, json] = found as [string, string, boolean, string];
  return runFrom(id, ours ? thread : `${thread} (another)`, digit, json, "");
}
