/** What is done to a thread from outside, and how it must look at the end. */

import { setTimeout as wait } from "node:timers/promises";
import { isHoldfastError, timeTravel } from "holdfast";
import type { RunRecord, Runtime } from "holdfast/runs";
import type { Attendant } from "./attendant.ts";
import { type CampaignGraphs, receipt, TURNS } from "./graphs.ts";
import type { ScenarioName, ThreadPlan } from "./plan.ts";

export interface Hands {
  readonly runtime: Runtime;
  readonly graphs: CampaignGraphs;
  readonly attendant: Attendant;
}

/** How a thread was played; `undefined` records are runs that went with their thread. */
export interface Played {
  readonly plan: ThreadPlan;
  /** Every run of it that was waited for, in their order, with the status that it must have. */
  readonly runs: {
    readonly record: RunRecord | undefined;
    readonly may: readonly (RunRecord["status"] | "deleted")[];
  }[];
}

const ADDRESS = "the office";
const OTHER_ADDRESS = "the harbour";

/** Plays a thread to its end. */
export async function playThread(hands: Hands, plan: ThreadPlan): Promise<Played> {
  const played: Played = { plan, runs: [] };
  switch (plan.scenario) {
    case "cancel":
      await playCancel(hands, played);
      break;
    case "delete":
      await playDelete(hands, played);
      break;
    case "fork":
      await playFork(hands, played);
      break;
    case "plain":
    case "parallel":
    case "subgraph":
    case "question":
    case "double":
    case "deadline":
    case "drain":
    case "timer":
      await playRun(hands, played, inputOf(plan.thread), ["succeeded"]);
      break;
    default: {
      const never: never = plan.scenario;
      throw new Error(`unknown scenario: ${String(never)}`);
    }
  }
  return played;
}

const inputOf = (who: string) => ({ who, address: ADDRESS });

async function begin({ runtime }: Hands, { plan, runs }: Played, input: unknown): Promise<string> {
  const { thread, scenario } = plan;
  const key = `${thread} ${runs.length}`;
  const first = await runtime.start(scenario, input, { threadId: thread, key });
  return first.run.id;
}

async function end(hands: Hands, played: Played, id: string, input: unknown, may: Played["runs"][number]["may"]) {
  const record = await hands.attendant.ended(id, input);
  played.runs.push({ record, may });
  return record;
}

async function playRun(hands: Hands, played: Played, input: unknown, may: Played["runs"][number]["may"]) {
  return end(hands, played, await begin(hands, played, input), input, may);
}

/** Cancelled somewhere on its way, and then finished by another run. */
async function playCancel(hands: Hands, played: Played): Promise<void> {
  const { runtime, attendant, graphs } = hands;
  const { thread, actAfterMs } = played.plan;
  const input = inputOf(thread);
  const id = await begin(hands, played, input);
  const ended = end(hands, played, id, input, ["cancelled", "succeeded"]);
  await wait(actAfterMs);
  await Promise.race([ended, attendant.alone(() => cancelled(runtime, attendant, id))]);
  const record = await ended;
  if (record?.status !== "cancelled") return;
  const state = (await graphs.cancel.getState({ configurable: { thread_id: thread } })) as { createdAt?: string };
  await playRun(hands, played, state.createdAt === undefined ? input : undefined, ["succeeded"]);
}

async function cancelled(runtime: Runtime, attendant: Attendant, id: string): Promise<void> {
  try {
    await runtime.cancel(attendant.current(id), { by: "somebody", reason: "the campaign" });
  } catch (error) {
    if (!isHoldfastError(error, "RUN_ENDED")) throw error;
  }
}

/** Deleted somewhere on its way, and its id used again. */
async function playDelete(hands: Hands, played: Played): Promise<void> {
  const { thread, actAfterMs } = played.plan;
  const input = inputOf(`${thread} first life`);
  const first = end(hands, played, await begin(hands, played, input), input, ["succeeded", "deleted"]);
  await wait(actAfterMs);
  await hands.attendant.alone(() => hands.runtime.checkpointer.deleteThread(thread));
  await first;
  await playRun(hands, played, inputOf(thread), ["succeeded"]);
}

/** Finished, forked before its charge with another address, and finished again. */
async function playFork(hands: Hands, played: Played): Promise<void> {
  const { thread } = played.plan;
  await playRun(hands, played, inputOf(thread), ["succeeded"]);
  const travel = timeTravel(hands.graphs.fork);
  let place: string | undefined;
  for await (const { next, checkpoint } of travel.history(thread)) if (next[0] === "charge") place ??= checkpoint;
  if (place === undefined) throw new Error(`no place to fork ${thread} at`);
  await travel.fork(thread, place, { values: { address: OTHER_ADDRESS } });
  await playRun(hands, played, undefined, ["succeeded"]);
}

/** Identities of effects that must have been executed once, at the end. */
export function effectsOf(scenario: ScenarioName, who: string): readonly string[] {
  const named = (...names: readonly string[]) => names.map((name) => `${who} ${name}`);
  switch (scenario) {
    case "plain":
    case "cancel":
    case "delete":
      return named("charge", "mail", "file");
    case "parallel":
      return named("part c", "part a", "part d", "part b", "join of 5");
    case "subgraph":
      return named("before", "node first", "node second", "called first", "called second", "after");
    case "question":
      return named("draft", "ship");
    case "double":
      return named("chosen");
    case "deadline":
      return named("decided");
    case "drain":
      return named(...Array.from({ length: TURNS }, (_, turn) => `turn ${turn}`));
    case "timer":
      return named("begin", "rested");
    case "fork":
      return named("charge", `label for ${ADDRESS}`, `label for ${OTHER_ADDRESS}`);
    default: {
      const never: never = scenario;
      return never;
    }
  }
}

/** Whether its policy is that it is sent again, under the same key, where nobody knows. */
export const isSentAgain = (what: string): boolean => what.endsWith(" mail");

/** Identities that may have been executed, once: of a life that was ended on the way. */
export function mayHaveActed({ thread, scenario }: ThreadPlan): readonly string[] {
  return scenario === "delete" ? effectsOf(scenario, `${thread} first life`) : [];
}

/** The log of the finished thread. @param decided what the thread's question was decided with */
export function logOf({ thread, scenario }: ThreadPlan, decided: string): readonly string[] {
  const receipts = effectsOf(scenario, thread).map(receipt);
  const [first = "", ...rest] = receipts;
  switch (scenario) {
    case "plain":
    case "cancel":
    case "delete":
      return [first, "thought ".repeat(100), ...rest];
    case "parallel":
      return ["split", ...receipts];
    case "subgraph":
    case "drain":
    case "timer":
      return receipts;
    case "question":
      return [first, "ship: approve", ...rest];
    case "double":
      return [`chosen: ${decided}`, ...receipts];
    case "deadline":
      return [`decided by: ${decided}`, ...receipts];
    case "fork":
      return ["plan ".repeat(100), first, receipts[2] ?? ""];
    default: {
      const never: never = scenario;
      return never;
    }
  }
}
