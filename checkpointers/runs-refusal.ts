/** What a backend answers that keeps no runs. */

import { HoldfastError } from "holdfast";

export function runsNotSupported(name: string): HoldfastError {
  return new HoldfastError(
    "NOT_SUPPORTED",
    `${name} keeps no runs: neither can one be stored, nor are there any to be read. Use memory, jsonl or sqlite for runs.`,
    { details: { name } },
  );
}
