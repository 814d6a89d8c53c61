/**
 * E7 at the call: an effect without a record in its own task looks at what other lineages of the thread have left behind,
 * and takes an outcome, asks a person, refuses, simulates, or goes on to run.
 *
 * Calls of one run decide one after the other, in the order in which they come, and what one has taken the next one no
 * longer finds; else two calls of a superstep could both take the one outcome that is there.
 */

import type { EffectCall } from "./effect-call.ts";
import { inDoubt, type Outcome } from "./effect-ledger.ts";
import type { RecordedDecision, StoredEffect } from "./effect-record.ts";
import { forked, notSimulated, refusedAfterFork } from "./effect-refusals.ts";
import { type ForkVerdict, judgeFork, type LeftEffect, leftBehind, policyOf } from "./fork-policy.ts";
import { ForkQuestion } from "./fork-question.ts";
import { Lineage } from "./lineage.ts";
import type { EffectRow } from "./model.ts";
import type { RunThread } from "./run-state.ts";

/** An outcome that was found, or the left-behind effect that the body is run in place of. */
export type Elsewhere = { readonly outcome: Outcome } | { readonly replaces: string | undefined };

const RUN: Elsewhere = { replaces: undefined };

/** The decisions of one run in one thread. */
interface Decisions {
  last: Promise<unknown>;
  /** Left-behind effect → the call that has taken it and has no row yet. */
  readonly taken: Map<string, string>;
}

const decisionsOf = new WeakMap<RunThread, Decisions>();

function decisionsIn(thread: RunThread): Decisions {
  let decisions = decisionsOf.get(thread);
  if (decisions === undefined) {
    decisions = { last: Promise.resolve(), taken: new Map() };
    decisionsOf.set(thread, decisions);
  }
  return decisions;
}

/** @throws ForkedEffectError, EffectInDoubtError, NOT_SIMULATED, GraphInterrupt, what `simulate` throws */
export async function elsewhere(call: EffectCall): Promise<Elsewhere> {
  const { definition, site } = call;
  const fork = site.thread.effectsPolicy;
  const everything = fork === "simulate";
  if (!everything && (call.keyed || definition.onUnknown === "rerun")) return RUN;
  const policy = policyOf(definition.onFork, fork);
  const { branched } = site.thread;
  if (policy === "execute" && !branched) return RUN;
  const decisions = decisionsIn(site.thread);
  const verdict = await inTurn(decisions, async () => {
    const judged = judgeFork(policy, call.digest, await unclaimed(call, branched, decisions), everything);
    if (judged.does === "run" || judged.does === "reuse") take(decisions, call, judged.about?.row.key);
    return judged;
  });
  return carryOut(call, verdict, decisions);
}

/** The call has a row by now, or has failed: what it took shows in the store, or is free again. */
export function releaseTaken(call: EffectCall): void {
  const taken = decisionsOf.get(call.site.thread)?.taken;
  if (taken === undefined) return;
  for (const [left, by] of taken) if (by === call.key) taken.delete(left);
}

/** One statement; the ancestors are read only where there is something to judge. */
async function unclaimed(call: EffectCall, branched: boolean, { taken }: Decisions): Promise<readonly LeftEffect[]> {
  const { ledger, site, name, digest } = call;
  const { thread } = site.thread;
  const perhapsLeft = (row: EffectRow) =>
    row.ordinal >= 0 && row.task !== site.place.task && row.status !== "not-executed";
  // What another call has taken by now may show in no row yet; what it gives back meanwhile may show in none that is read here.
  const before = new Map(taken);
  const found = await ledger.backend.effects(branched ? { thread } : { thread, name, digest });
  const rows = found.filter((row) => row.name === name);
  if (!rows.some(perhapsLeft)) return [];
  const lineage = new Lineage(ledger.backend, ledger.serde, site.thread, site.place.checkpoints);
  const left = await leftBehind(ledger.serde, rows, lineage);
  const isOurs = (by: string | undefined) => by === undefined || by === call.key;
  return left.unclaimed.filter(({ row }) => isOurs(before.get(row.key)) && isOurs(taken.get(row.key)));
}

function take({ taken }: Decisions, call: EffectCall, left: string | undefined): void {
  if (left !== undefined && !taken.has(left)) taken.set(left, call.key);
}

function inTurn<T>(decisions: Decisions, decide: () => Promise<T>): Promise<T> {
  const mine = decisions.last.then(decide);
  decisions.last = mine.catch(() => undefined);
  return mine;
}

async function carryOut(call: EffectCall, verdict: ForkVerdict, decisions: Decisions): Promise<Elsewhere> {
  const { about } = verdict;
  const question = ForkQuestion.of(call);
  // A question that was asked is heard to its end, also where another call has taken meanwhile what it was about.
  if (verdict.does !== "simulate" && question.isOpen()) return askPerson(call, question, about, decisions);
  switch (verdict.does) {
    case "run":
      return { replaces: about?.row.key };
    case "reuse":
      return { outcome: await reuse(call, verdict.about.row.key) };
    case "ask":
      return askPerson(call, question, about, decisions);
    case "deny":
      throw forked(await stored(call, verdict.about.row.key));
    case "simulate":
      return { outcome: await simulate(call, about) };
    default: {
      const never: never = verdict;
      return never;
    }
  }
}

async function askPerson(
  call: EffectCall,
  question: ForkQuestion,
  about: LeftEffect | undefined,
  decisions: Decisions,
): Promise<Elsewhere> {
  const left = about === undefined ? undefined : await stored(call, about.row.key);
  if (left !== undefined && (await mayStillRun(call, left)))
    throw inDoubt(left, "This branch neither takes its outcome nor runs it once more meanwhile.");
  const answer = await question.answer(left);
  const key = answer.left;
  switch (answer.does) {
    case "run":
      take(decisions, call, key);
      return { replaces: key };
    case "reuse":
      take(decisions, call, key);
      return { outcome: await reuse(call, key) };
    case "use": {
      take(decisions, call, key);
      const { value, by, at } = answer;
      const decision: RecordedDecision = { decision: { done: value }, by, at, attempt: 0 };
      return { outcome: await call.conclude(value, { reusedFrom: key }, at.getTime(), decision) };
    }
    case "refuse":
      throw refusedAfterFork(await stored(call, key), answer.by, answer.comment);
    default: {
      const never: never = answer;
      return never;
    }
  }
}

async function reuse(call: EffectCall, left: string): Promise<Outcome> {
  const { record } = await stored(call, left);
  return call.conclude(record.value, { reusedFrom: left }, record.begunAt.getTime());
}

/** Nothing runs on this branch. A given key that has an outcome speaks for itself; all else is made up, and marked so. */
async function simulate(call: EffectCall, about: LeftEffect | undefined): Promise<Outcome> {
  if (call.given !== undefined) {
    const keyed = await call.ledger.findKey(call.given);
    if (keyed !== undefined && keyed.row.digest !== call.digest) throw call.otherInput(keyed);
    if (keyed?.row.status === "done") return { value: keyed.record.value, cached: true, idempotencyKey: call.given };
  }
  const { simulate: hook, output } = call.definition;
  if (hook !== undefined) {
    const value = await hook(call.input, call.context(0));
    return call.conclude(output === undefined ? value : output.parse(value), { simulated: true }, Date.now());
  }
  if (about === undefined) throw notSimulated(call.name, call.key);
  const { record } = await stored(call, about.row.key);
  return call.conclude(record.value, { simulated: true, reusedFrom: record.key }, Date.now());
}

async function stored({ ledger }: EffectCall, key: string): Promise<StoredEffect> {
  const found = await ledger.findKey(key);
  // Effects go only with their whole thread, and then the next write of this run is refused.
  if (found === undefined) throw new Error(`effect ${key} is gone`);
  const { copyOf } = found.record.links;
  if (copyOf === undefined || found.row.status === "done") return found;
  // The thread that was forked may know by now what became of it.
  const original = await ledger.findKey(copyOf);
  if (original?.row.status !== "done") return found;
  const { row, record } = found;
  return { row: { ...row, status: "done" }, record: { ...record, status: "done", value: original.record.value } };
}

async function mayStillRun({ ledger }: EffectCall, left: StoredEffect): Promise<boolean> {
  const { key, status } = left.row;
  const running = ledger.running.has(left.record.links.copyOf ?? key);
  return status === "intent" && (running || (await ledger.maybeRunning(left)));
}
