/** The endpoints with one line broken: the guarantee meant for it must fail. See mutants.test.ts. */

import { beforeAll, describe, expect, test } from "vitest";
import * as approvals from "../approvals/guarantees.ts";
import { type Library, type Mutation, mutate } from "./mutate.ts";

interface Mutant {
  readonly name: string;
  readonly mutation: Mutation;
  readonly caughtBy: approvals.ApprovalsGuarantee;
}

const change = (file: string, from: string, to: string): Mutation => ({ file: `src/approvals/${file}`, from, to });

const mutants: readonly Mutant[] = [
  {
    name: "a thread is gone on with without being held",
    mutation: change(
      "thread-hold.ts",
      "if (await changeHolder(ledger, thread, free, owner)) return rows;",
      "return rows;",
    ),
    caughtBy: approvals.oneProcessGoesOn,
  },
  {
    name: "a connection of unknown address counts as local",
    mutation: change(
      "access.ts",
      'if (remoteAddress === undefined) return "the server does not tell the address of the connection";',
      "if (remoteAddress === undefined) return undefined;",
    ),
    caughtBy: approvals.strangersAreRefused,
  },
  {
    name: "every address counts as local",
    mutation: change(
      "access.ts",
      'if (!isLoopback(remoteAddress)) return "the connection comes from another one";',
      "",
    ),
    caughtBy: approvals.strangersAreRefused,
  },
  {
    name: "a rebound name is not noticed",
    mutation: change(
      "access.ts",
      'if (!isLocalName(hostname) || named.toLowerCase() !== host) return "its Host names another one";',
      "",
    ),
    caughtBy: approvals.strangersAreRefused,
  },
  {
    name: "a thread is there for every owner",
    mutation: change(
      "thread-routes.ts",
      "if (owner !== undefined && origin.owner !== owner) throw unknownThread(thread);",
      "",
    ),
    caughtBy: approvals.ownersAreApart,
  },
  {
    name: "a wait is there for every owner",
    mutation: change(
      "wait-routes.ts",
      'const { record } = await waitLedger.find(c.req.valid("param").id, c.var.identity.owner);',
      'const { record } = await waitLedger.find(c.req.valid("param").id);',
    ),
    caughtBy: approvals.ownersAreApart,
  },
  {
    name: "the digest is not passed on",
    mutation: change("recording.ts", "...(digest === undefined ? {} : { digest }),", ""),
    caughtBy: approvals.decidedAsSeen,
  },
  {
    name: "the decision is nobody's",
    mutation: change("recording.ts", "by: user,", 'by: "http",'),
    caughtBy: approvals.decidedAsSeen,
  },
  {
    name: "reserved keys come from the body",
    mutation: change("run-request.ts", "if (RESERVED.test(key))", "if (key === undefined)"),
    caughtBy: approvals.pausedIsKept,
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
