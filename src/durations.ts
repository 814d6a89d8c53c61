/** Durations and moments as people write them. */

import ms, { type StringValue } from "ms";
import { HoldfastError } from "./errors.ts";

/** `"3 days"`, `"90 s"`, `"1.5h"` (see the package `ms`), or milliseconds. */
export type Duration = string | number;

/** Longest duration: a hundred years. */
const LONGEST_MS = 100 * 366 * 86_400_000;

/** @throws INVALID_ARGUMENT */
export function durationMs(what: string, duration: Duration): number {
  const value = typeof duration === "number" ? duration : parse(duration);
  if (value !== undefined && Number.isFinite(value) && value >= 0 && value <= LONGEST_MS) return Math.round(value);
  throw new HoldfastError(
    "INVALID_ARGUMENT",
    `${what} is ${JSON.stringify(duration) ?? String(duration)}; use milliseconds or a text like "3 days", "12 hours", "90 s", at most a hundred years.`,
    { details: { what, value: duration } },
  );
}

/** Milliseconds since 1970 of a moment, or of the end of a duration that begins at `now`. @throws INVALID_ARGUMENT */
export function momentMs(what: string, moment: Duration | Date, now: number): number {
  if (!(moment instanceof Date)) return now + durationMs(what, moment);
  const at = moment.getTime();
  if (Number.isFinite(at)) return at;
  throw new HoldfastError("INVALID_ARGUMENT", `${what} is an invalid Date.`, { details: { what } });
}

function parse(text: unknown): number | undefined {
  if (typeof text !== "string" || text === "" || text.length > 100) return undefined;
  return ms(text as StringValue);
}
