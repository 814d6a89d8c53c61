/**
 * A durable program small enough to be seen through, to test the crash kit itself: a log file, replaced as a whole by
 * each commit, two steps with an effect each, and the events of the library. `toy.js <fault>` has one stated fault.
 */

import {
  appendFileSync,
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { count, counted, faultPoint, nodeStarted, reportResult, START_AGAIN, stateDirectory } from "holdfast/testing";
import { channels } from "../../../src/events.ts";

const fault = process.argv[2] ?? "none";
const file = join(stateDirectory(), "log.json");
const log: string[] = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as string[]) : [];
const journalFile = join(stateDirectory(), "actions.jsonl");
const journaled = new Set(
  existsSync(journalFile)
    ? readFileSync(journalFile, "utf8")
        .trimEnd()
        .split("\n")
        .map((line) => (JSON.parse(line) as { id: string }).id)
    : [],
);
let commits = 0;

/** One event for each entry of the log: those of an earlier start as well, which may have died before writing them. */
function journal(entry: string): void {
  if (journaled.has(entry) && fault !== "journals-again") return;
  journaled.add(entry);
  const [what = "", key] = entry.split(" ");
  const names: Record<string, string> = { step: "step", intent: "effect_intent", outcome: "effect_outcome" };
  const event = { id: entry, event: names[what] ?? what, thread: "toy", effect: key, key, status: "done", at: "now" };
  appendFileSync(journalFile, `${JSON.stringify(event)}\n`);
}

function commit(entry: string): void {
  commits += 1;
  const event = { number: commits, commits: 1, ops: 1, bytes: entry.length, kinds: ["toy"] };
  channels.commitBefore.publish(event);
  log.push(entry);
  const fd = openSync(`${file}.new`, "w");
  writeSync(fd, JSON.stringify(log));
  fsyncSync(fd);
  closeSync(fd);
  channels.commitInside.publish(undefined);
  renameSync(`${file}.new`, file);
  channels.commitAfter.publish({ ...event, durationMs: 0, refused: 0 });
  journal(entry);
}

async function effect(name: string): Promise<void> {
  if (log.includes(`outcome ${name}`)) return;
  if (log.includes(`intent ${name}`)) {
    if (fault === "believes-intent" || (await counted(name)) > 0) return commit(`outcome ${name}`);
  } else {
    commit(`intent ${name}`);
  }
  const event = { name, key: name, thread: "toy", attempt: 1 };
  channels.effectBefore.publish(event);
  await count(name);
  channels.effectAfter.publish(event);
  commit(`outcome ${name}`);
}

async function step(number: number, body: () => Promise<void>): Promise<void> {
  if (log.includes(`step ${number}`) && fault !== "runs-nodes-again") return;
  await nodeStarted(`node-${number}`, number);
  await body();
  if (!log.includes(`step ${number}`)) commit(`step ${number}`);
}

const restarted = log.length > 0;
if (restarted && fault !== "journal-forgets") for (const entry of log) journal(entry);
if (!log.includes("created")) commit("created");
await step(1, () => effect("first"));
if (fault === "two-starts" && !log.includes("paused")) {
  commit("paused");
  process.exit(START_AGAIN);
}
await step(2, () => (fault === "no-effect" ? count("second").then(() => undefined) : effect("second")));
if (!log.includes("finished")) commit("finished");
faultPoint("before-report");
if (fault === "never-recovers" && restarted) throw new Error("cannot go on from here");
const steps = log.filter((entry) => entry.startsWith("step"));
if (fault !== "reports-nothing") reportResult({ log: steps, ...(fault === "other-result" ? { restarted } : {}) });
