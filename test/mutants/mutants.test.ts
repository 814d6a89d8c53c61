/**
 * The checks are themselves checked: each mutant is the library with one line broken, and the guarantee meant for it must
 * fail on it, while it holds on an unbroken copy made in the same way.
 */

import * as state from "../checkpointer/guarantees.ts";
import { type Guarantee, memorySubject } from "../checkpointer/subject.ts";
import * as effects from "../effect/guarantees.ts";
import * as forks from "../time-travel/guarantees.ts";
import * as waits from "../waits/guarantees.ts";
import type { Mutation } from "./mutate.ts";
import { type Mutant, testMutants } from "./test-mutants.ts";

const change = (file: string, from: string, to: string): Mutation => ({ file, from, to });

const mutants: readonly Mutant<Guarantee>[] = [
  {
    name: "the head is not checked",
    mutations: [
      change(
        "src/judges.ts",
        "if (op.heads === undefined || op.heads.includes(head ?? null) || head === op.id) return undefined;",
        "return undefined;",
      ),
    ],
    caughtBy: state.headIsKept,
  },
  {
    name: "the barrier is gone",
    mutations: [
      change("src/effect-site.ts", "await run.holderOf(ns, thread).whenKnown(ns, checkpoint, place.signal);", ""),
      change("src/effect-site.ts", "await saver.barrier();", ""),
    ],
    caughtBy: effects.bodyAfterBarrier,
  },
  {
    name: "the key is another one at every call",
    mutations: [
      change(
        "src/effect-call.ts",
        "this.key = effectKey([site.thread.thread, place.ns,",
        "this.key = effectKey([String(Math.random()), place.ns,",
      ),
    ],
    caughtBy: effects.recordedOnce,
  },
  {
    name: "equal calls share one key",
    mutations: [change("src/effect-call.ts", "attempt.ordinals.set(equal, this.#ordinal + 1);", "")],
    caughtBy: effects.recordedOnce,
  },
  {
    name: "no intent is stored",
    mutations: [
      change(
        "src/effect-call.ts",
        'if (policy === "rerun") return this.#runBody(before, attempt, begunAt);',
        "return this.#runBody(before, attempt, begunAt);",
      ),
    ],
    caughtBy: effects.bodyAfterBarrier,
  },
  {
    name: "a changed input on re-entry runs as a new call",
    mutations: [change("src/effect-call.ts", "if (unclaimed !== undefined) throw this.otherInput(unclaimed);", "")],
    caughtBy: effects.changedInputRefused,
  },
  {
    name: "a changed input under the same key gives the old outcome",
    mutations: [
      change("src/effect-call.ts", "if (before.row.digest !== this.digest) throw this.otherInput(before);", ""),
    ],
    caughtBy: effects.keyedMismatchRefused,
  },
  {
    name: 'a "no" of verify is believed while the owner lives',
    mutations: [
      change(
        "src/effect-call.ts",
        'if (before !== undefined && (await this.ledger.maybeRunning(before))) throw inDoubt(before, "It is not run a second time.");',
        "",
      ),
    ],
    caughtBy: effects.inDoubtWhileAlive,
  },
  {
    name: "an outcome is returned before it is stored",
    mutations: [
      change(
        "src/effect-call.ts",
        'await this.#write("done", attempt, begunAt, before, outcome);',
        'void this.#write("done", attempt, begunAt, before, outcome);',
      ),
    ],
    caughtBy: effects.outcomeStoredFirst,
  },
  {
    name: "a refused run goes on",
    mutations: [change("src/run-state.ts", "if (this.#refused !== undefined) throw this.#refusal();", "")],
    caughtBy: effects.refusedRunStartsNothing,
  },
  {
    name: "other branches are not looked at",
    mutations: [change("src/effect-elsewhere.ts", "if (!rows.some(perhapsLeft)) return [];", "return [];")],
    caughtBy: forks.outcomeIsReused,
  },
  {
    name: "a branch takes an outcome whatever the input was",
    mutations: [
      change(
        "src/fork-policy.ts",
        "const equal = latest(unclaimed.filter(({ row }) => row.digest === digest));",
        "const equal = latest(unclaimed);",
      ),
    ],
    caughtBy: forks.otherInputAsks,
  },
  {
    name: "what was left behind with an unknown outcome counts as nothing",
    mutations: [
      change(
        "src/fork-policy.ts",
        'return links.simulated !== true && links.reusedFrom === undefined && row.status !== "not-executed";',
        'return links.simulated !== true && links.reusedFrom === undefined && row.status === "done";',
      ),
    ],
    caughtBy: forks.unknownIsAsked,
  },
  {
    name: "an unknown outcome is taken as if it were known",
    mutations: [
      change(
        "src/fork-policy.ts",
        'const done = equal.find(({ row }) => row.status === "done");',
        "const done = equal[0];",
      ),
    ],
    caughtBy: forks.unknownIsAsked,
  },
  {
    name: "an effect that denies is asked about instead",
    mutations: [change("src/fork-policy.ts", 'return effect === "deny" ? "deny" : (fork ?? effect);', 'return "ask";')],
    caughtBy: forks.denyRefuses,
  },
  {
    name: "what was made up is taken for real by a later branch",
    mutations: [
      change(
        "src/fork-policy.ts",
        "return links.simulated !== true && links.reusedFrom === undefined",
        "return links.reusedFrom === undefined",
      ),
    ],
    caughtBy: forks.simulatedIsNotReal,
  },
  {
    name: "an outcome taken on a branch counts as one more outcome",
    mutations: [
      change(
        "src/fork-policy.ts",
        "return links.simulated !== true && links.reusedFrom === undefined &&",
        "return links.simulated !== true &&",
      ),
    ],
    caughtBy: forks.replaysChargeOnce,
  },
  {
    name: "every call of a branch takes the same outcome",
    mutations: [
      change("src/fork-policy.ts", "claimed.add(key);", ""),
      change(
        "src/effect-elsewhere.ts",
        "return left.unclaimed.filter(({ row }) => isOurs(before.get(row.key)) && isOurs(taken.get(row.key)));",
        "return left.unclaimed;",
      ),
    ],
    caughtBy: forks.replaysChargeOnce,
  },
  {
    name: "calls at once do not tell each other what they take",
    mutations: [
      change("src/effect-elsewhere.ts", "if (left !== undefined && !taken.has(left)) taken.set(left, call.key);", ""),
    ],
    caughtBy: forks.oneOutcomeOneCall,
  },
  {
    name: "what the lineage did itself counts as left behind",
    mutations: [change("src/lineage.ts", "if (completed.has(level.checkpoint))", "if (false)")],
    caughtBy: forks.ownLineageIsNotLeft,
  },
  {
    name: "a new thread takes no effects along",
    mutations: [change("src/fork-effects.ts", "for (const { row } of unclaimed) {", "for (const { row } of []) {")],
    caughtBy: forks.newThreadTakesAlong,
  },
  {
    name: "a new thread refers to the values of the old one",
    mutations: [
      change("src/fork-commit.ts", "thread === source ? await known.fetchForms", "true ? await known.fetchForms"),
      change(
        "src/fork-commit.ts",
        "known.fetchForms(thread, from.ns, from.id)",
        "known.fetchForms(source, from.ns, from.id)",
      ),
    ],
    caughtBy: forks.newThreadTakesAlong,
  },
  {
    name: "a fork that simulates looks only at what was left behind",
    mutations: [
      change(
        "src/effect-elsewhere.ts",
        "await unclaimed(call, branched, decisions), everything);",
        "await unclaimed(call, branched, decisions), false);",
      ),
    ],
    caughtBy: forks.simulatingForkRunsNothing,
  },
  {
    name: "the questions of the head that is left stay open",
    mutations: [change("src/fork-commit.ts", "ops.push(...(await supersededWaits(saver, plan)));", "")],
    caughtBy: forks.forkIsOneStep,
  },
  {
    name: "an error counts as if nothing had happened",
    mutations: [
      change("src/effect-call.ts", "const nothing = isGraphBubbleUp(error as Error) ||", "const nothing = true ||"),
    ],
    caughtBy: effects.unknownIsNotRepeated,
  },
  {
    name: "a wait is changed from whatever revision",
    mutations: [
      change(
        "src/judges.ts",
        "return undefined;\n  const found = stored === undefined",
        "return undefined;\n  return undefined;\n  const found = stored === undefined",
      ),
      change("src/judges.ts", "if (op.row.seq === (last ?? 0) + 1) return undefined;", "return undefined;"),
    ],
    caughtBy: waits.firstDecisionStands,
  },
  {
    name: "an answer is taken for another content",
    mutations: [
      change(
        "src/wait-call.ts",
        'if (row.status === "answered" || row.status === "consumed") throw await this.#contentChanged(row);',
        "",
      ),
    ],
    caughtBy: waits.answerBelongsToContent,
  },
  {
    name: "a resume without a name is stored as it is",
    mutations: [
      change(
        "src/thread-waits.ts",
        "return { ops: row === undefined ? [] : this.#answer(ledger, at, row, value), writes: rest };",
        "return { ops: [], writes };",
      ),
    ],
    caughtBy: waits.resumeIsNotKept,
  },
  {
    name: "a used decision stays answered",
    mutations: [change("src/thread-waits.ts", "if (!used && stopped) continue;", "if (used || stopped) continue;")],
    caughtBy: waits.usedDecisionIsConsumed,
  },
  {
    name: "new input supersedes without being told to",
    mutations: [change("src/wait-commits.ts", '["on_paused"] ?? "refuse"', '["on_paused"] ?? "supersede"')],
    caughtBy: waits.newInputIsRefused,
  },
  {
    name: "a late answer is recorded",
    mutations: [
      change(
        "src/wait-ledger.ts",
        "if (await this.#tried(() => this.decideDue(row))) continue;\n      const { via",
        "const { via",
      ),
    ],
    caughtBy: waits.lateAnswerLoses,
  },
  {
    name: "a decision's hash is not of its text",
    mutations: [
      change(
        "src/wait-record.ts",
        "JSON.stringify([before, row.thread, row.seq, row.wait, row.body])",
        "JSON.stringify([before, row.thread, row.seq, row.wait])",
      ),
    ],
    caughtBy: waits.changedDecisionIsFound,
  },
  {
    name: "a question is shown before it is stored",
    mutations: [change("src/wait-call.ts", "await saver.waitLedger.commit([", "void saver.waitLedger.commit([")],
    caughtBy: waits.waitStoredBeforePause,
  },
  {
    name: "special writes do not replace",
    mutations: [
      change(
        "src/judges.ts",
        "if (op.slot !== undefined) return { row: row(op.slot, op.body), verdict: undefined };",
        "if (op.slot !== undefined) return { row: stored.some((old) => old.slot === op.slot) ? undefined : row(op.slot, op.body), verdict: undefined };",
      ),
    ],
    caughtBy: state.specialWritesReplace,
  },
  {
    name: "the writes of a deleted thread are left behind",
    mutations: [
      change(
        "checkpointers/memory/state.ts",
        "    this.#threads.delete(id);\n",
        "    for (const ns of thread?.namespaces.values() ?? []) { ns.head = undefined; ns.checkpoints.clear(); }\n",
      ),
    ],
    caughtBy: state.deletionLeavesNothing,
  },
  {
    name: "the deletion of a thread is not noticed by its runs",
    mutations: [change("src/judges.ts", "if (op.era === era) return undefined;", "return undefined;")],
    caughtBy: state.lateWritesRefused,
  },
  {
    name: "branches share what is known of the newest checkpoint",
    mutations: [
      change(
        "src/known-state.ts",
        "if (line?.checkpoint === parent) return line.forms;",
        "if (line !== undefined) return line.forms;",
      ),
    ],
    caughtBy: state.forksReadTheirOwn,
  },
  {
    name: "the latest checkpoint is the one with the greatest id",
    mutations: [
      change(
        "checkpointers/memory/state.ts",
        "    return this.#namespace(thread, ns)?.head;\n",
        "    return [...(this.#namespace(thread, ns)?.checkpoints.keys() ?? [])].sort().at(-1);\n",
      ),
    ],
    caughtBy: state.latestIsTheHead,
  },
  {
    name: "values are encoded when they are sent, not when they are put",
    mutations: [
      change(
        "src/checkpoint-writer.ts",
        "return this.#queuePut(config, place, thread, checkpoint, metadata, split, parent, sink);",
        "return new Promise((resolve) => setImmediate(resolve)).then(() => this.#queuePut(config, place, thread, checkpoint, metadata, split, parent, sink));",
      ),
    ],
    caughtBy: state.storedAsPut,
  },
  {
    name: "another run's different result is ignored",
    mutations: [
      change(
        "src/judges.ts",
        "} else if (idx >= 0 && !failed && op.run !== undefined && old.run !== op.run && old.value !== JSON.stringify([channel, value])) {",
        "} else if (false) {",
      ),
    ],
    caughtBy: state.otherWritesRefused,
  },
  {
    name: "the items of a list are taken for unchanged where there are as many",
    mutations: [
      change(
        "src/lists.ts",
        "return items.samePrefix(known.trees(), Math.min(known.length, items.length));",
        "return Math.min(known.length, items.length);",
      ),
    ],
    caughtBy: state.editsAreNoticed,
  },
];

testMutants(mutants, (guarantee, library) => guarantee.check(memorySubject(library)));
