/** adopt() and durable() with one line broken: the guarantee meant for it must fail. See mutants.test.ts. */

import { beforeAll, describe, expect, test } from "vitest";
import * as adopt from "../adopt/guarantees.ts";
import { type Library, type Mutation, mutate } from "./mutate.ts";

interface Mutant {
  readonly name: string;
  readonly mutation: Mutation;
  readonly caughtBy: adopt.AdoptGuarantee;
}

const change = (file: string, from: string, to: string): Mutation => ({ file: `src/${file}`, from, to });

const mutants: readonly Mutant[] = [
  {
    name: "what stands in the target is not looked at",
    mutation: change("adopt/adopt.ts", "if (before.differences.length > 0)", "if (before.differences.length < 0)"),
    caughtBy: adopt.otherContentIsRefused,
  },
  {
    name: "metadata is not compared",
    mutation: change(
      "adopt/differences.ts",
      'if (!isDeepStrictEqual(expected.metadata, found.metadata)) differ("its metadata");',
      "",
    ),
    caughtBy: adopt.differencesAreFound,
  },
  {
    name: "versions are not compared",
    mutation: change(
      "adopt/differences.ts",
      "isDeepStrictEqual(fieldsOf(wanted)[field], fieldsOf(got)[field])",
      "true",
    ),
    caughtBy: adopt.differencesAreFound,
  },
  {
    name: "values are not compared",
    mutation: change(
      "adopt/differences.ts",
      "isDeepStrictEqual(wanted.channel_values[channel], got.channel_values[channel])",
      "true",
    ),
    caughtBy: adopt.differencesAreFound,
  },
  {
    name: "writes are not compared",
    mutation: change("adopt/differences.ts", "isDeepStrictEqual(write, got[at])", "true"),
    caughtBy: adopt.differencesAreFound,
  },
  {
    name: "pauses open no waits",
    mutation: change("adopt/adopt.ts", "await openWaits(target, this.#heads);", ""),
    caughtBy: adopt.pausedIsWaiting,
  },
  {
    name: "what was put last is the newest",
    mutation: change("adopt/adopt.ts", "if ((await target.head(ns)) === place.id) continue;", "continue;"),
    caughtBy: adopt.newestIsNewest,
  },
  {
    name: "answers that were taken are taken over",
    mutation: change(
      "adopt/thread-source.ts",
      "return this.#withoutTakenAnswer(inOrderOfTasks(tuple), place);",
      "return inOrderOfTasks(tuple);",
    ),
    caughtBy: adopt.takenAnswerIsLeftOut,
  },
  {
    name: "the official saver keeps answers",
    mutation: change("durable.ts", "!(own && channel === RESUME)", "!(own && channel === undefined)"),
    caughtBy: adopt.answersStayInTheLedger,
  },
  {
    name: "the ledger does not wait for the official saver",
    mutation: change(
      "durable.ts",
      "return this.#track(stored.then(kept));",
      "return this.#track(Promise.all([stored, kept()]).then(([one]) => one));",
    ),
    caughtBy: adopt.effectsHangOnWhatIsStored,
  },
];

describe("on an unbroken copy of the library", () => {
  let good: Library;
  beforeAll(async () => {
    good = await mutate();
  }, 120_000);
  for (const guarantee of new Set(mutants.map((mutant) => mutant.caughtBy)))
    test(guarantee.name, () => guarantee.check(good));
});

describe("caught:", () => {
  test.each(mutants)("$name", async ({ mutation, caughtBy }) => {
    const failure = await caughtBy.check(await mutate(mutation)).then(
      () => undefined,
      (error: unknown) => error as Error,
    );
    expect(failure, `${caughtBy.name}: holds on the mutant`).toBeDefined();
    expect(failure).not.toBeInstanceOf(ReferenceError);
    expect(failure).not.toBeInstanceOf(SyntaxError);
  });
});
