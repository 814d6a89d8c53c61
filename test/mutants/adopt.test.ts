/** adopt() and durable() with one line broken: the guarantee meant for it must fail. See mutants.test.ts. */

import * as adopt from "../adopt/guarantees.ts";
import type { Mutation } from "./mutate.ts";
import { type Mutant, testMutants } from "./test-mutants.ts";

const change = (file: string, from: string, to: string): Mutation => ({ file: `src/${file}`, from, to });

const mutants: readonly Mutant<adopt.AdoptGuarantee>[] = [
  {
    name: "what stands in the target is not looked at",
    mutations: [change("adopt/adopt.ts", "if (before.differences.length > 0)", "if (before.differences.length < 0)")],
    caughtBy: adopt.otherContentIsRefused,
  },
  {
    name: "metadata is not compared",
    mutations: [
      change(
        "adopt/differences.ts",
        'if (!isDeepStrictEqual(expected.metadata, found.metadata)) differ("its metadata");',
        "",
      ),
    ],
    caughtBy: adopt.differencesAreFound,
  },
  {
    name: "versions are not compared",
    mutations: [
      change("adopt/differences.ts", "isDeepStrictEqual(fieldsOf(wanted)[field], fieldsOf(got)[field])", "true"),
    ],
    caughtBy: adopt.differencesAreFound,
  },
  {
    name: "values are not compared",
    mutations: [
      change(
        "adopt/differences.ts",
        "isDeepStrictEqual(wanted.channel_values[channel], got.channel_values[channel])",
        "true",
      ),
    ],
    caughtBy: adopt.differencesAreFound,
  },
  {
    name: "writes are not compared",
    mutations: [change("adopt/differences.ts", "isDeepStrictEqual(write, got[at])", "true")],
    caughtBy: adopt.differencesAreFound,
  },
  {
    name: "pauses open no waits",
    mutations: [change("adopt/adopt.ts", "await openWaits(target, this.#heads);", "")],
    caughtBy: adopt.pausedIsWaiting,
  },
  {
    name: "what was put last is the newest",
    mutations: [change("adopt/adopt.ts", "if ((await target.head(ns)) === place.id) continue;", "continue;")],
    caughtBy: adopt.newestIsNewest,
  },
  {
    name: "answers that were taken are taken over",
    mutations: [
      change(
        "adopt/thread-source.ts",
        "return this.#withoutTakenAnswer(inOrderOfTasks(tuple), place);",
        "return inOrderOfTasks(tuple);",
      ),
    ],
    caughtBy: adopt.takenAnswerIsLeftOut,
  },
  {
    name: "the official saver keeps answers",
    mutations: [change("durable.ts", "!(own && channel === RESUME)", "!(own && channel === undefined)")],
    caughtBy: adopt.answersStayInTheLedger,
  },
  {
    name: "the ledger does not wait for the official saver",
    mutations: [
      change(
        "durable.ts",
        "return this.#track(stored.then(kept));",
        "return this.#track(Promise.all([stored, kept()]).then(([one]) => one));",
      ),
    ],
    caughtBy: adopt.effectsHangOnWhatIsStored,
  },
];

testMutants(mutants, (guarantee, library) => guarantee.check(library));
