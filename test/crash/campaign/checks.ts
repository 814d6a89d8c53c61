/** What must be true of a round when all is quiet again. Everything that is not is told, with the thread and what was found. */

import type { Checkpointer, DecisionRecord } from "holdfast";
import { diagnose } from "holdfast/runs";
import type { CounterReport } from "../../../src/testing/counter-server.ts";
import type { GivenAnswer } from "./attendant.ts";
import type { CampaignGraphs } from "./graphs.ts";
import { effectsOf, isSentAgain, logOf, mayHaveActed, type Played } from "./threads.ts";

export interface Evidence {
  readonly checkpointer: Checkpointer;
  readonly graphs: CampaignGraphs;
  readonly counter: CounterReport;
  /** Answers that were acknowledged as those that count. */
  readonly answered: readonly GivenAnswer[];
  /** What a worker was doing outside while it stood still and others could take it over, once for each time. */
  readonly stoppedInside: readonly string[];
  readonly trail: ReadonlyMap<string, readonly string[]>;
}

export interface ThreadVerdict {
  readonly effects: number;
  readonly lost: number;
  readonly repeated: number;
  /** Requests beyond the first under the same key, which the receiver has not executed again. */
  readonly absorbed: number;
  readonly problems: readonly string[];
}

export async function checkThread(evidence: Evidence, played: Played): Promise<ThreadVerdict> {
  const { thread } = played.plan;
  const problems: string[] = [];
  for (const { record, may } of played.runs) {
    const status = record?.status ?? "deleted";
    if (!may.includes(status))
      problems.push(`run ${record?.id} is ${status}, not ${may.join(" or ")}: ${JSON.stringify(record?.error)}`);
  }
  const counted = checkEffects(evidence, played);
  problems.push(...counted.problems);
  const decided = await checkDecisions(evidence, played, problems);
  await checkState(evidence, played, decided, problems);
  await checkHeads(evidence, played, problems);
  return { ...counted, problems: problems.map((problem) => `${thread}: ${problem}`) };
}

function checkEffects({ counter, stoppedInside, trail }: Evidence, { plan }: Played): ThreadVerdict {
  const problems: string[] = [];
  let [effects, lost, repeated, absorbed] = [0, 0, 0, 0];
  const must = effectsOf(plan.scenario, plan.thread);
  const may = mayHaveActed(plan);
  const own = Object.entries(counter.counts).filter(([what]) => what.startsWith(`${plan.thread} `));
  for (const [what, { times, calls }] of own) {
    effects += times;
    absorbed += calls - times;
    if (!must.includes(what) && !may.includes(what)) problems.push(`${what} should not have been executed`);
    if (times > 1) repeated += times - 1;
    if (times > 1) problems.push(`${what} was executed ${times} times`);
    // A dead worker's body is looked into by `verify`; one that stands still may act when it wakes up.
    const excused = stoppedInside.filter((one) => one === what).length;
    if (calls - 1 > excused && !isSentAgain(what))
      problems.push(
        `${what} was sent ${calls} times, and its worker stood still inside ${excused} times: ${trail.get(what)?.join(", ")}`,
      );
  }
  for (const what of must) {
    if (own.some(([counted]) => counted === what)) continue;
    lost += 1;
    problems.push(`${what} was not executed`);
  }
  return { effects, lost, repeated, absorbed, problems };
}

/** One decision a wait, the chain whole, and whoever was told that his answer counts was told the truth. */
async function checkDecisions(evidence: Evidence, { plan }: Played, problems: string[]): Promise<string> {
  const { checkpointer, answered } = evidence;
  const decisions: DecisionRecord[] = [];
  for await (const decision of checkpointer.decisions({ thread: plan.thread })) decisions.push(decision);
  const waits = await checkpointer.waits({ thread: plan.thread });
  for (const { id, name, status } of waits) {
    const own = decisions.filter(({ wait }) => wait === id);
    if (own.length !== 1) problems.push(`${name} has ${own.length} decisions`);
    if (status !== "consumed" && status !== "superseded") problems.push(`${name} is ${status}`);
    for (const { value } of answered.filter(({ wait }) => wait === id))
      if (own[0]?.value !== value)
        problems.push(`${name} was decided by ${String(own[0]?.value)}, and ${value} was told it counts`);
  }
  const { broken } = await checkpointer.verifyDecisions({ thread: plan.thread });
  if (broken.length > 0) problems.push(`the chain of decisions is broken: ${JSON.stringify(broken)}`);
  return String(decisions.at(-1)?.value);
}

async function checkState(evidence: Evidence, { plan }: Played, decided: string, problems: string[]): Promise<void> {
  const config = { configurable: { thread_id: plan.thread } };
  const state = (await evidence.graphs[plan.scenario].getState(config)) as {
    readonly values: { readonly log?: readonly string[] };
    readonly next: readonly string[];
  };
  const expected = logOf(plan, decided);
  if (state.next.length > 0) problems.push(`it stands before ${state.next.join(", ")}`);
  if (JSON.stringify(state.values.log) !== JSON.stringify(expected))
    problems.push(`its log is ${JSON.stringify(state.values.log)}, not ${JSON.stringify(expected)}`);
  for (const { name, status, input } of await evidence.checkpointer.effects({ thread: plan.thread }))
    if (status !== "done") problems.push(`effect ${name} ${JSON.stringify(input)} is ${status}`);
}

/** A thread is one line of checkpoints, and two where it was forked. */
async function checkHeads({ checkpointer }: Evidence, { plan }: Played, problems: string[]): Promise<void> {
  const ids = new Set<string>();
  const parents: string[] = [];
  for await (const { id, parent } of checkpointer.backend.checkpoints({ thread: plan.thread, ns: "" })) {
    ids.add(id);
    if (parent !== undefined) parents.push(parent);
  }
  const heads = [...ids].filter((id) => !parents.includes(id)).length;
  const expected = plan.scenario === "fork" ? 2 : 1;
  if (heads !== expected) problems.push(`it has ${heads} heads`);
  const orphans = parents.filter((parent) => !ids.has(parent));
  if (orphans.length > 0) problems.push(`${orphans.length} checkpoints have a parent that is not there`);
}

/** What the doctor finds in the whole store. */
export async function checkStore({ checkpointer, graphs }: Evidence): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const { code, thread, text } of diagnose(checkpointer, { graphs: Object.keys(graphs) }))
    found.push(`${thread}: the doctor finds ${code}: ${text}`);
  return found;
}
