/** What the tests of looking back share. */

import type { Checkpointer, HistoryEntry, HistoryOptions, TimeTravel } from "holdfast";
import { expect } from "vitest";

export async function entriesOf(
  travel: TimeTravel,
  thread = "t",
  options: HistoryOptions = {},
): Promise<HistoryEntry[]> {
  const entries: HistoryEntry[] = [];
  for await (const entry of travel.history(thread, options)) entries.push(entry);
  return entries;
}

/** The newest checkpoint from which a node runs. */
export async function before(travel: TimeTravel, node: string, thread = "t", options: HistoryOptions = {}) {
  for (const { next, checkpoint } of await entriesOf(travel, thread, options))
    if (next.includes(node)) return checkpoint;
  throw new Error(`no checkpoint of ${thread} runs ${node}`);
}

/** Everything a backend has of some threads: to see that something wrote nothing. */
export async function contentsOf({ backend }: Checkpointer, ...threads: string[]): Promise<string> {
  const rows: unknown[] = [];
  for (const thread of threads) {
    const { era, head } = await backend.load(thread, "", undefined);
    rows.push({ thread, era, head }, await backend.effects({ thread }), await backend.waits({ thread }));
    for await (const row of backend.checkpoints({ thread })) rows.push(row);
    for await (const row of backend.decisions({ thread })) rows.push(row);
  }
  expect(rows.length).toBeGreaterThan(0);
  return JSON.stringify(rows);
}

/** Nodes that note when they run, and log their names. */
export const logging = (seen: string[], ...names: string[]) =>
  Object.fromEntries(
    names.map((name) => [
      name,
      () => {
        seen.push(name);
        return { log: [name] };
      },
    ]),
  );
