/**
 * E7: what an effect does where the same was done, or begun, outside its lineage.
 *
 * Left behind is what really happened, or may have, on a branch or in an attempt that the lineage does not contain. It is
 * matched with the calls of the lineage by name, input and order; a call that took its outcome, or was run in its place,
 * has claimed it, and it counts no more.
 */

import { type EffectLinks, effectPlace } from "./effect-record.ts";
import type { Lineage } from "./lineage.ts";
import type { EffectRow } from "./model.ts";
import type { Serde } from "./serde.ts";

/**
 * `reuse` (default) takes the recorded outcome of the same input, and asks a person where the input is another one or
 * the outcome is not known · `ask` asks in every case · `execute` runs it · `deny` throws ForkedEffectError · `simulate`
 * runs nothing: the `simulate` hook, or what was recorded, gives the outcome.
 */
export type OnFork = "reuse" | "ask" | "execute" | "deny" | "simulate";

export const FORK_POLICIES: readonly OnFork[] = ["reuse", "ask", "execute", "deny", "simulate"];

export const isOnFork = (value: unknown): value is OnFork => FORK_POLICIES.includes(value as OnFork);

/**
 * Which policy holds. A fork that simulates runs nothing at all, whatever an effect says; an effect that says `deny` is
 * never repeated by a fork; else the fork's word wins over the effect's.
 */
export function policyOf(effect: OnFork | undefined, fork: OnFork | undefined): OnFork {
  if (fork === "simulate" || effect === undefined) return fork ?? "reuse";
  return effect === "deny" ? "deny" : (fork ?? effect);
}

/** An effect outside the lineage, without its values. */
export interface LeftEffect {
  readonly row: EffectRow;
  readonly links: EffectLinks;
  readonly begunAt: number;
  readonly checkpoints: ReadonlyMap<string, string>;
}

/** What is left behind of one thread's effects, seen from one lineage, oldest first. */
export interface LeftBehind {
  /** Not yet claimed by the lineage. */
  readonly unclaimed: readonly LeftEffect[];
  readonly all: readonly LeftEffect[];
}

/** `rows`: effects of the thread; those with a given key are left out, since their key holds across branches. */
export async function leftBehind(serde: Serde, rows: readonly EffectRow[], lineage: Lineage): Promise<LeftBehind> {
  const seen = new Map<string, Promise<boolean>>();
  const effects = rows
    .filter((row) => row.ordinal >= 0)
    .map((row): LeftEffect => ({ row, ...effectPlace(serde, row) }));
  const byKey = new Map(effects.map((effect) => [effect.row.key, effect]));
  const claimed = new Set<string>();
  const all: LeftEffect[] = [];
  for (const effect of effects) {
    const place = JSON.stringify([...effect.checkpoints]);
    let included = seen.get(place);
    if (included === undefined) {
      included = lineage.includes(effect.checkpoints);
      seen.set(place, included);
    }
    if (await included) claim(effect.links, byKey, claimed);
    else if (happened(effect)) all.push(effect);
  }
  // Only the order among equal ones, and which of several a question names, hang on the writers' clocks.
  all.sort((a, b) => a.begunAt - b.begunAt || a.row.ordinal - b.row.ordinal || (a.row.key < b.row.key ? -1 : 1));
  return { all, unclaimed: all.filter(({ row }) => !claimed.has(row.key)) };
}

/** Something real: not made up, not somebody else's outcome, and not known to have done nothing. */
export function happened({ row, links }: Pick<LeftEffect, "row" | "links">): boolean {
  return links.simulated !== true && links.reusedFrom === undefined && row.status !== "not-executed";
}

/** What took an outcome has also taken what that was run in place of, and so on. */
function claim(links: EffectLinks, byKey: ReadonlyMap<string, LeftEffect>, claimed: Set<string>): void {
  for (const key of [links.reusedFrom, links.replaces]) {
    if (key === undefined || claimed.has(key)) continue;
    claimed.add(key);
    const earlier = byKey.get(key);
    if (earlier !== undefined) claim(earlier.links, byKey, claimed);
  }
}

/** Why a call does what it does: what of the left-behind it has to do with. */
export type Match =
  /** The same input was recorded, and its outcome is known. */
  | "same"
  /** The same input was begun, and its outcome is not known. */
  | "unknown"
  /** A call of the same name with another input was recorded, and the lineage has no counterpart of it. */
  | "other"
  /** Nothing of this name is left behind. */
  | "none";

export type ForkVerdict =
  | { readonly does: "run"; readonly match: Match; readonly about: LeftEffect | undefined }
  | { readonly does: "reuse"; readonly match: Match; readonly about: LeftEffect }
  | { readonly does: "ask"; readonly match: Match; readonly about: LeftEffect }
  | { readonly does: "deny"; readonly match: Match; readonly about: LeftEffect }
  | { readonly does: "simulate"; readonly match: Match; readonly about: LeftEffect | undefined };

/**
 * Decides one call.
 *
 * @param unclaimed what is left behind under its name
 * @param everything a fork's own `simulate`: holds for calls that nothing was left behind of, too
 */
export function judgeFork(
  policy: OnFork,
  digest: string,
  unclaimed: readonly LeftEffect[],
  everything: boolean,
): ForkVerdict {
  const { match, about } = matchOf(digest, unclaimed);
  if (about === undefined && !(everything && policy === "simulate")) return { does: "run", match, about };
  switch (policy) {
    case "simulate":
      return { does: "simulate", match, about: knownOf(digest, unclaimed) };
    case "execute":
      return { does: "run", match, about };
    case "deny":
    case "ask":
      return { does: policy, match, about: about as LeftEffect };
    case "reuse":
      return { does: match === "same" ? "reuse" : "ask", match, about: about as LeftEffect };
    default: {
      const never: never = policy;
      return never;
    }
  }
}

/** The outcome that a simulated call takes where it has no hook: of the same input before another. */
function knownOf(digest: string, unclaimed: readonly LeftEffect[]): LeftEffect | undefined {
  const known = unclaimed.filter(({ row }) => row.status === "done");
  return known.find(({ row }) => row.digest === digest) ?? known[0];
}

/** The left-behind effect that a call with this input stands for: the same input before another, known before unknown. */
function matchOf(digest: string, unclaimed: readonly LeftEffect[]): { match: Match; about: LeftEffect | undefined } {
  const equal = latest(unclaimed.filter(({ row }) => row.digest === digest));
  const done = equal.find(({ row }) => row.status === "done");
  if (done !== undefined) return { match: "same", about: done };
  if (equal[0] !== undefined) return { match: "unknown", about: equal[0] };
  const other = latest(unclaimed)[0];
  return { match: other === undefined ? "none" : "other", about: other };
}

/** What was run in place of another one, on a branch that was left too, speaks for both. */
function latest(effects: readonly LeftEffect[]): readonly LeftEffect[] {
  const replaced = new Set(effects.map(({ links }) => links.replaces));
  return effects.filter(({ row }) => !replaced.has(row.key));
}
