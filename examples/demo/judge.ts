/**
 * Says what a run has done, from the outside only: from the world's books, from the files that were left and from the
 * values that the graph returned. The library's own records are not asked.
 */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { Ledger } from "../world/shop.ts";

/** What is left of a run. */
export interface Traces {
  readonly ledger: Ledger;
  /** Content by name; a file that is not there is left out. */
  readonly files: Readonly<Record<string, string>>;
  /** What the graph returned. */
  readonly values: unknown;
}

export interface Verdict {
  /** Pieces of work done outside, and files written. */
  readonly executed: number;
  /** Pieces of work done more often than in the unbroken run. */
  readonly repeated: number;
  /** Pieces of work and files of the unbroken run that are missing. */
  readonly lost: number;
  /** What else is not as in the unbroken run: `state`, or a file's name. */
  readonly differs: readonly string[];
  /** The same as sentences. */
  readonly complaints: readonly string[];
}

export async function readFiles(directory: string, names: readonly string[]): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  for (const name of names) {
    const content = await readFile(join(directory, name), "utf8").catch(() => undefined);
    if (content !== undefined) files[name] = content;
  }
  return files;
}

/** Compares a run with the unbroken one. */
export function judge(run: Traces, unbroken: Traces): Verdict {
  const complaints: string[] = [];
  const wanted = executions(unbroken.ledger);
  const done = executions(run.ledger);
  let repeated = 0;
  let lost = 0;
  for (const what of new Set([...wanted.keys(), ...done.keys()])) {
    const surplus = (done.get(what) ?? 0) - (wanted.get(what) ?? 0);
    if (surplus > 0) repeated += surplus;
    if (surplus < 0) lost -= surplus;
    if (surplus !== 0)
      complaints.push(`${what} was done ${done.get(what) ?? 0} times instead of ${wanted.get(what) ?? 0}`);
  }
  const differs: string[] = [];
  for (const [name, content] of Object.entries(unbroken.files)) {
    const found = run.files[name];
    if (found === content) continue;
    if (found === undefined) lost += 1;
    else differs.push(name);
    complaints.push(found === undefined ? `${name} is missing` : `${name} is not as in the unbroken run`);
  }
  if (!isDeepStrictEqual(run.values, unbroken.values)) {
    differs.push("state");
    complaints.push("the final state is not that of the unbroken run");
  }
  const executed = [...done.values()].reduce((sum, times) => sum + times, 0) + Object.keys(run.files).length;
  return { executed, repeated, lost, differs, complaints };
}

/** By what was wanted, never by key: two charges of one order under two keys are two charges. */
function executions(ledger: Ledger): Map<string, number> {
  return new Map(ledger.map((entry) => [`${entry.endpoint} of ${entry.subject}`, entry.executed]));
}
