/** The endpoints with one line broken: the guarantee meant for it must fail. See mutants.test.ts. */

import * as approvals from "../approvals/guarantees.ts";
import type { Mutation } from "./mutate.ts";
import { type Mutant, testMutants } from "./test-mutants.ts";

const change = (file: string, from: string, to: string): Mutation => ({ file: `src/approvals/${file}`, from, to });

const mutants: readonly Mutant<approvals.ApprovalsGuarantee>[] = [
  {
    name: "a thread is gone on with without being held",
    mutations: [
      change("thread-hold.ts", "if (await changeHolder(ledger, thread, free, owner)) return rows;", "return rows;"),
    ],
    caughtBy: approvals.oneProcessGoesOn,
  },
  {
    name: "a connection of unknown address counts as local",
    mutations: [
      change(
        "access.ts",
        'if (remoteAddress === undefined) return "the server does not tell the address of the connection";',
        "if (remoteAddress === undefined) return undefined;",
      ),
    ],
    caughtBy: approvals.strangersAreRefused,
  },
  {
    name: "every address counts as local",
    mutations: [
      change("access.ts", 'if (!isLoopback(remoteAddress)) return "the connection comes from another one";', ""),
    ],
    caughtBy: approvals.strangersAreRefused,
  },
  {
    name: "a rebound name is not noticed",
    mutations: [
      change(
        "access.ts",
        'if (!isLocalName(hostname) || named.toLowerCase() !== host) return "its Host names another one";',
        "",
      ),
    ],
    caughtBy: approvals.strangersAreRefused,
  },
  {
    name: "a thread is there for every owner",
    mutations: [
      change("thread-routes.ts", "if (owner !== undefined && origin.owner !== owner) throw unknownThread(thread);", ""),
    ],
    caughtBy: approvals.ownersAreApart,
  },
  {
    name: "a wait is there for every owner",
    mutations: [
      change(
        "wait-routes.ts",
        'const { record } = await waitLedger.find(c.req.valid("param").id, c.var.identity.owner);',
        'const { record } = await waitLedger.find(c.req.valid("param").id);',
      ),
    ],
    caughtBy: approvals.ownersAreApart,
  },
  {
    name: "the digest is not passed on",
    mutations: [change("recording.ts", "...(digest === undefined ? {} : { digest }),", "")],
    caughtBy: approvals.decidedAsSeen,
  },
  {
    name: "the decision is nobody's",
    mutations: [change("recording.ts", "by: user,", 'by: "http",')],
    caughtBy: approvals.decidedAsSeen,
  },
  {
    name: "reserved keys come from the body",
    mutations: [change("run-request.ts", "if (RESERVED.test(key))", "if (key === undefined)")],
    caughtBy: approvals.pausedIsKept,
  },
];

testMutants(mutants, (guarantee, library) => guarantee.check(library));
