/**
 * What the audit journal must say after a life with kills, where the program keeps one as `actions.jsonl` in its state
 * directory: everything that a run without kills says, each thing once, torn lines apart.
 */

import type { JournalEvent } from "../journal.ts";
import type { Finding } from "./crash-checks.ts";
import type { Life } from "./crash-life.ts";

/** The name under which the matrix looks for it. */
export const JOURNAL_FILE = "actions.jsonl";

export function judgeJournal(life: Life, reference: Life): Finding[] {
  if (reference.journal === undefined) return [];
  if (life.journal === undefined)
    return [finding(`expected the journal ${JOURNAL_FILE}, as without a kill; there is none`)];
  const { events, broken } = life.journal;
  return [
    ...(broken > life.kills
      ? [finding(`expected at most ${life.kills} broken lines, one for each kill; there are ${broken}`)]
      : []),
    ...missingBeginnings(events, reference.journal.events),
    ...missingOutcomes(events),
    ...differentOutcomes(events, reference.journal.events),
    ...repeatedEvents(events),
  ];
}

const finding = (message: string): Finding => ({ kind: "journal", message });

/** Threads are created and finished as often as without a kill. */
function missingBeginnings(events: readonly JournalEvent[], expected: readonly JournalEvent[]): Finding[] {
  const count = (all: readonly JournalEvent[], name: string, thread: string) =>
    all.filter((event) => event.event === name && event.thread === thread).length;
  const findings: Finding[] = [];
  for (const thread of new Set(expected.map((event) => event.thread))) {
    for (const name of ["created", "finished"]) {
      const want = count(expected, name, thread);
      const got = count(events, name, thread);
      if (got !== want)
        findings.push(finding(`expected thread ${thread} to be ${name} ${want} times; the journal says ${got}`));
    }
  }
  return findings;
}

/** Every effect that was begun came to an end. */
function missingOutcomes(events: readonly JournalEvent[]): Finding[] {
  const ended = new Set(events.filter(({ event }) => event === "effect_outcome").map((event) => event["key"]));
  const open = new Map(
    events
      .filter(({ event, ["key"]: key }) => event === "effect_intent" && !ended.has(key))
      .map((event) => [event["key"], event["effect"]]),
  );
  return [...open.values()].map((name) =>
    finding(`expected an outcome of effect ${String(name)}; the journal has only its intent`),
  );
}

/** As many effects of each name are done as without a kill. */
function differentOutcomes(events: readonly JournalEvent[], expected: readonly JournalEvent[]): Finding[] {
  const done = (all: readonly JournalEvent[]) => {
    const keys = new Map<string, Set<unknown>>();
    for (const event of all) {
      if (event.event !== "effect_outcome" || event["status"] !== "done") continue;
      const name = `${String(event["effect"])} of thread ${event.thread}`;
      keys.set(name, (keys.get(name) ?? new Set()).add(event["key"]));
    }
    return keys;
  };
  const want = done(expected);
  const got = done(events);
  return [...new Set([...want.keys(), ...got.keys()])]
    .filter((name) => want.get(name)?.size !== got.get(name)?.size)
    .map((name) =>
      finding(`expected ${want.get(name)?.size ?? 0} outcomes of ${name}; the journal has ${got.get(name)?.size ?? 0}`),
    );
}

/** Nothing is finished twice. */
function repeatedEvents(events: readonly JournalEvent[]): Finding[] {
  const seen = new Set<string>();
  const repeated = new Set<string>();
  for (const { id } of events) (seen.has(id) ? repeated : seen).add(id);
  return [...repeated].map((id) => finding(`expected each event once; ${id} stands there again`));
}
