/** Checks of options that all factories share, so that a mistake is told in the same words by each. */

import { type CheckpointerOptions, HoldfastError } from "holdfast";
import { nearest } from "./nearest.ts";

/** Every option of a `Checkpointer`, so that the compiler finds one that is missing here. */
const NAMES: Readonly<Record<keyof CheckpointerOptions, true>> = {
  types: true,
  maxValueChars: true,
  journal: true,
  now: true,
  effectsOnVolatile: true,
};

/** What a factory of a checkpointer takes besides the options of its backend. */
export const CHECKPOINTER_OPTIONS: readonly string[] = Object.keys(NAMES);

/** Refuses names that are no option of `factory`, for example `sqlite()`. @throws {HoldfastError} INVALID_ARGUMENT */
export function refuseUnknown(factory: string, options: object, names: readonly string[]): void {
  if (typeof options !== "object" || options === null)
    throw invalid(`The options of ${factory} must be an object, not ${show(options)}.`);
  for (const name of Object.keys(options)) {
    if (names.includes(name)) continue;
    const near = nearest(name, names);
    const advice = near === undefined ? `Its options are ${names.join(", ")}.` : `Did you mean ${near}?`;
    throw invalid(`${factory} has no option ${show(name)}. ${advice}`);
  }
}

/** The value, where it is a whole number of milliseconds within the bounds. @throws {HoldfastError} INVALID_ARGUMENT */
export function wholeMs(name: string, value: number, least: number, most: number): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw invalid(`The option ${name} is ${show(value)}, but must be a whole number of milliseconds from ${least}.`);
}

export function invalid(message: string): HoldfastError {
  return new HoldfastError("INVALID_ARGUMENT", message);
}

export function show(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}
