/** What a fork would do, before it is made: which nodes run, and what each effect that is left behind does. */

import type { Checkpointer } from "./checkpointer.ts";
import type { EffectRecord } from "./effect-record.ts";
import { assertFree } from "./fork.ts";
import type { ForkableGraph } from "./fork-draft.ts";
import { leftBy } from "./fork-effects.ts";
import { graphAt } from "./fork-place.ts";
import { type ForkRequest, planFork } from "./fork-plan.ts";
import { type ForkVerdict, judgeFork, type LeftEffect, type OnFork, policyOf } from "./fork-policy.ts";

/**
 * `reused` its recorded outcome is returned · `ask` a person is asked before anything happens · `executed` its body runs ·
 * `denied` it throws ForkedEffectError · `simulated` nothing happens, and an outcome is made up or taken from the record ·
 * `fails` it throws NOT_SIMULATED · `unknown` it has a key of its own and no known outcome: its `onUnknown` decides.
 */
export type Forecast = "reused" | "ask" | "executed" | "denied" | "simulated" | "fails" | "unknown";

export interface Prediction {
  readonly does: Forecast;
  /** A sentence. */
  readonly why: string;
}

/** An effect that the new branch does not contain, and what a call of it does there. */
export interface EffectForecast {
  readonly effect: EffectRecord;
  /** A call with the recorded input. */
  readonly same: Prediction;
  /** A call with another input that was not recorded. */
  readonly other: Prediction;
}

export interface ForkPreview {
  /** The tasks that run first: of the root graph, and of the graphs inside that go on where they were. */
  readonly next: readonly { readonly ns: string; readonly node: string }[];
  /** Nodes of the root graph that can come after them; which of them do depends on what the nodes return. */
  readonly later: readonly string[];
  readonly effects: readonly EffectForecast[];
  /** What the branch does about effects where they do not say otherwise. */
  readonly policy: OnFork | undefined;
  /** The state that the branch begins with, of the graph in which it begins. */
  readonly values: unknown;
}

/** Runs nothing and writes nothing. Routing functions of `asNode` are called, as `updateState` does. */
export async function previewFork(app: ForkableGraph, saver: Checkpointer, request: ForkRequest): Promise<ForkPreview> {
  await assertFree(saver, request.to);
  const plan = await planFork(app, saver, request);
  const next: { ns: string; node: string }[] = [];
  let values: unknown;
  for (const { ns, checkpoint, metadata, from } of [...plan.placements].reverse()) {
    const level = plan.place.levels.find(({ id }) => id === from.id);
    const graph = level === undefined ? undefined : await graphAt(app, from.ns);
    if (graph === undefined) continue;
    const state = await plan.draft.stateOf(graph, request.thread, from.ns, { checkpoint, metadata });
    for (const node of state.next) next.push({ ns, node });
    values = state.values;
  }
  const roots = next.filter(({ ns }) => ns === "").map(({ node }) => node);
  const effects = [...(await leftForecasts(saver, plan)), ...(await keyedForecasts(saver, plan))];
  return { next, later: await nodesAfter(app, roots), effects, policy: plan.effects, values };
}

type Plan = Awaited<ReturnType<typeof planFork>>;

async function leftForecasts(saver: Checkpointer, plan: Plan): Promise<EffectForecast[]> {
  const { unclaimed } = await leftBy(saver, plan);
  const forecasts: EffectForecast[] = [];
  for (const left of unclaimed) {
    const stored = await saver.effectLedger.findKey(left.row.key);
    if (stored === undefined) continue;
    const named = unclaimed.filter(({ row }) => row.name === left.row.name);
    forecasts.push({
      effect: stored.record,
      same: predict(left, left.row.digest, named, plan.effects),
      other: predict(left, "", named, plan.effects),
    });
  }
  return forecasts;
}

function predict(
  { links }: LeftEffect,
  digest: string,
  named: readonly LeftEffect[],
  fork: OnFork | undefined,
): Prediction {
  const everything = fork === "simulate";
  if (links.rerun === true && !everything)
    return { does: "executed", why: 'It is declared safe to repeat (onUnknown: "rerun").' };
  const policy = policyOf(links.onFork, fork);
  const whose = fork === policy ? "the fork" : links.onFork === policy ? "the effect" : "the default";
  const verdict = judgeFork(policy, digest, named, everything);
  return {
    does: forecastOf(verdict, links.simulates === true),
    why: `${reasonOf(verdict)}, and ${whose} says "${policy}".`,
  };
}

function forecastOf(verdict: ForkVerdict, hook: boolean): Forecast {
  switch (verdict.does) {
    case "run":
      return "executed";
    case "reuse":
      return "reused";
    case "ask":
      return "ask";
    case "deny":
      return "denied";
    case "simulate":
      return hook || verdict.about !== undefined ? "simulated" : "fails";
    default: {
      const never: never = verdict;
      return never;
    }
  }
}

function reasonOf({ match, about }: ForkVerdict): string {
  switch (match) {
    case "same":
      return "Its outcome with this input is recorded outside the branch";
    case "unknown":
      return `It was begun with this input outside the branch (${about?.row.status ?? "intent"}) and its outcome is not known`;
    case "other":
      return "It was recorded with another input outside the branch, and the branch has no counterpart";
    case "none":
      return "Nothing of it is left outside the branch";
    default: {
      const never: never = match;
      return never;
    }
  }
}

/** Effects with a key of their own are the same in every lineage. */
async function keyedForecasts(saver: Checkpointer, plan: Plan): Promise<EffectForecast[]> {
  const forecasts: EffectForecast[] = [];
  for (const { row, record } of await saver.effectLedger.find({ thread: plan.request.thread })) {
    if (row.ordinal >= 0 || (await plan.lineage.includes(record.checkpoints))) continue;
    const fresh = "Another input must have another key, and nothing is recorded under that";
    const other: Prediction =
      plan.effects !== "simulate"
        ? { does: "executed", why: `${fresh}.` }
        : { does: record.links.simulates === true ? "simulated" : "fails", why: `${fresh}; the fork says "simulate".` };
    forecasts.push({ effect: record, same: sameKey(record, plan.effects), other });
  }
  return forecasts;
}

function sameKey({ status, links }: EffectRecord, fork: OnFork | undefined): Prediction {
  if (status === "done") return { does: "reused", why: "It has a key of its own, which has an outcome." };
  if (fork === "simulate")
    return {
      does: links.simulates === true ? "simulated" : "fails",
      why: 'Its key has no outcome, and the fork says "simulate".',
    };
  if (status === "not-executed")
    return { does: "executed", why: "It has a key of its own, under which nothing happened." };
  return { does: "unknown", why: `It has a key of its own, whose outcome is not known (${status}).` };
}

/** Nodes that edges lead to from these, however many steps away. */
async function nodesAfter(app: ForkableGraph, from: readonly string[]): Promise<string[]> {
  const drawn = (await app.getGraphAsync?.({} as never)) as
    | { readonly edges: readonly { readonly source: string; readonly target: string }[] }
    | undefined;
  const found = new Set<string>();
  const open = [...from];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    for (const { source, target } of drawn?.edges ?? []) {
      if (source !== node || found.has(target) || !(target in app.nodes)) continue;
      found.add(target);
      open.push(target);
    }
  }
  return [...found].sort();
}
