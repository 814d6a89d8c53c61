/**
 * What must hold after a life with kills, judged against one without. Each check is a pure function from two lives to
 * sentences about what is wrong.
 */

import { isDeepStrictEqual } from "node:util";
import type { CounterReport } from "./counter-server.ts";
import type { Life } from "./crash-life.ts";

export type ViolationKind = "unfinished" | "result" | "repeated" | "lost" | "node" | "journal" | "check";

export interface Violation {
  /** The place of the kills, to be given as `points: [plan]` to see it again. */
  readonly plan: string;
  /** The state directory, left as it was. */
  readonly dir: string;
  readonly kind: ViolationKind;
  /** What was expected and what was seen. */
  readonly message: string;
}

export type Finding = Omit<Violation, "plan" | "dir">;

/** Everything but the journal and the user's own check. */
export function judgeLife(life: Life, reference: Life): Finding[] {
  if (!life.finished) return [unfinished(life)];
  return [
    ...judgeResult(life, reference),
    ...judgeCounts(life.counter, reference.counter),
    ...judgeNodes(life.counter),
  ];
}

/** A program that does not reach exit code 0 by itself. */
function unfinished(life: Life): Finding {
  const { last } = life;
  const how = last.timedOut ? "did not end in time" : `ended with ${last.signal ?? `code ${last.code}`}`;
  const output = tail(last.stderr) || tail(last.stdout);
  return {
    kind: "unfinished",
    message: `expected exit code 0 within ${life.restarts} restarts; the last start ${how}${output && `:\n${output}`}`,
  };
}

function judgeResult(life: Life, reference: Life): Finding[] {
  if (isDeepStrictEqual(life.result, reference.result)) return [];
  return [
    {
      kind: "result",
      message: `expected the result ${short(reference.result)}, as without a kill; got ${short(life.result)}`,
    },
  ];
}

/** Each identity as often as in the run without a kill. */
function judgeCounts(seen: CounterReport, expected: CounterReport): Finding[] {
  const findings: Finding[] = [];
  for (const identity of new Set([...Object.keys(expected.counts), ...Object.keys(seen.counts)])) {
    const want = expected.counts[identity]?.times ?? 0;
    const got = seen.counts[identity]?.times ?? 0;
    if (got === want) continue;
    findings.push({
      kind: got > want ? "repeated" : "lost",
      message: `expected ${JSON.stringify(identity)} to be executed ${times(want)}, as without a kill; the counter saw it ${times(got)}`,
    });
  }
  return findings;
}

/** A node of an earlier step must not begin after one of a later step has begun. */
function judgeNodes({ nodes }: CounterReport): Finding[] {
  const findings: Finding[] = [];
  let furthest: { readonly name: string; readonly step: number } | undefined;
  for (const node of nodes) {
    if (furthest !== undefined && node.step < furthest.step) {
      const message = `expected node ${node.name} (step ${node.step}) to be finished for good: ${furthest.name} (step ${furthest.step}) had begun; it began again`;
      findings.push({ kind: "node", message });
    }
    if (furthest === undefined || node.step > furthest.step) furthest = node;
  }
  return findings;
}

function times(n: number): string {
  return n === 1 ? "once" : `${n} times`;
}

function short(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length <= 600 ? text : `${text.slice(0, 600)}… (${text.length} characters)`;
}

function tail(text: string): string {
  return text.trimEnd().split("\n").slice(-12).join("\n");
}
