/** Defines the tests of a list of mutants: each guarantee holds on an unbroken copy, and fails on the mutant meant for it. */

import { beforeAll, describe, expect, test } from "vitest";
import { type Library, type Mutation, mutate } from "./mutate.ts";

export interface Mutant<G> {
  readonly name: string;
  readonly mutations: readonly Mutation[];
  readonly caughtBy: G;
}

/** `check` rejects where the guarantee does not hold on the library. */
export function testMutants<G extends { readonly name: string }>(
  mutants: readonly Mutant<G>[],
  check: (guarantee: G, library: Library) => Promise<void>,
): void {
  describe("on an unbroken copy of the library", () => {
    let good: Library;
    beforeAll(async () => {
      good = await mutate();
    }, 120_000);
    for (const guarantee of new Set(mutants.map((mutant) => mutant.caughtBy)))
      test(guarantee.name, () => check(guarantee, good));
  });

  describe("caught:", () => {
    test.each(mutants)("$name", async ({ mutations, caughtBy }) => {
      const failure = await check(caughtBy, await mutate(...mutations)).then(
        () => undefined,
        (error: unknown) => error as Error,
      );
      expect(failure, `${caughtBy.name}: holds on the mutant`).toBeDefined();
      // A mutant that does not even run proves nothing.
      expect(failure).not.toBeInstanceOf(ReferenceError);
      expect(failure).not.toBeInstanceOf(SyntaxError);
    });
  });
}
