/**
 * What to kill, as text: one fault point per start of the program, `-` for a start that is left alone, joined by " > ".
 *
 * - `commit:3:before`: the first start is killed there.
 * - `- > commit:1:after`: the first start ends by asking for another one (exit code START_AGAIN), the second is killed.
 * - `commit:3:before > effect:charge-card:1:inside`: killed, and killed again in the start that recovers.
 */

import { HoldfastError } from "../errors.ts";
import { isFaultPoint } from "./fault-points.ts";

/** A fault point for each start; undefined leaves it alone. Later starts are left alone too. */
export type CrashPlan = readonly (string | undefined)[];

const JOIN = " > ";
const ALONE = "-";

export function formatPlan(plan: CrashPlan): string {
  return plan.map((point) => point ?? ALONE).join(JOIN);
}

export function parsePlan(text: string): CrashPlan {
  const plan = text.split(JOIN).map((part) => (part === ALONE ? undefined : part));
  const wrong = plan.find((point) => point !== undefined && !isFaultPoint(point));
  if (wrong !== undefined || plan.at(-1) === undefined) {
    throw new HoldfastError(
      "INVALID_ARGUMENT",
      `${JSON.stringify(text)} names no place to kill a program at. Examples: "commit:3:before", ` +
        '"effect:charge-card:1:inside", "- > commit:1:after" (the second start), "commit:3:before > commit:1:inside" (twice).',
    );
  }
  return plan;
}

/** The plans that kill a program once, at each point of each start of a run that was not killed. */
export function singleKills(recorded: readonly (readonly string[])[]): CrashPlan[] {
  return recorded.flatMap((points, start) =>
    points.map((point) => [...new Array<undefined>(start).fill(undefined), point]),
  );
}

/** Something evenly spread: at most `count` of `all`, first and last included. */
export function spread<T>(all: readonly T[], count: number): T[] {
  if (count >= all.length) return [...all];
  if (count <= 1) return all.slice(0, Math.max(0, count));
  const step = (all.length - 1) / (count - 1);
  return Array.from({ length: count }, (_, i) => all[Math.round(i * step)] as T);
}

/**
 * Plans that kill a program twice: for at most `count` of the plans done, one point of the start that recovered. The
 * point moves on through the recovery from plan to plan, so that a sample meets early and late ones.
 */
export function doubleKills(
  done: readonly { readonly plan: CrashPlan; readonly recovery: readonly string[] }[],
  count: number,
): CrashPlan[] {
  const able = done.filter(({ recovery }) => recovery.length > 0);
  return spread(able, count).map(({ plan, recovery }, i) => {
    // A stride by the golden ratio visits a range of any length evenly.
    const at = Math.floor((((i + 1) * 0.618034) % 1) * recovery.length);
    return [...plan, recovery[at]];
  });
}

/**
 * Plans on few lines for people: neighbouring commits and phases are drawn together, such as
 * `commit:1-14 (before inside after)`.
 */
export function summarisePlans(plans: readonly string[]): string[] {
  const phases = new Map<string, string[]>();
  for (const plan of plans) {
    const match = /^(.*):(before|inside|after)$/s.exec(plan);
    const [stem, phase] = match === null ? [plan, undefined] : [match[1] as string, match[2] as string];
    const list = phases.get(stem) ?? [];
    if (phase !== undefined) list.push(phase);
    phases.set(stem, list);
  }
  const runs: { head: string; from: number; to: number; phases: string }[] = [];
  for (const [stem, list] of phases) {
    const match = /^(.*:)(\d+)$/s.exec(stem);
    const [head, number] = match === null ? [stem, 0] : [match[1] as string, Number(match[2])];
    const text = list.join(" ");
    const last = runs.find((run) => run.head === head && run.phases === text && run.to === number - 1);
    if (last !== undefined) last.to = number;
    else runs.push({ head, from: number, to: number, phases: text });
  }
  return runs.map(({ head, from, to, phases: text }) => {
    const range = from === 0 ? "" : from === to ? `${from}` : `${from}-${to}`;
    return `${head}${range}${text === "" ? "" : ` (${text})`}`;
  });
}
