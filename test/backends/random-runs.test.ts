/** Random commits on runs: every backend answers in the same words, keeps the same rows, and finds what the contract says. */

import { join } from "node:path";
import fc from "fast-check";
import type { Backend } from "holdfast";
import { jsonlBackend } from "holdfast/checkpointers/jsonl";
import { memoryBackend } from "holdfast/checkpointers/memory";
import { sqliteBackend } from "holdfast/checkpointers/sqlite";
import { expect, test } from "vitest";
import { runs } from "./random-commits.ts";
import * as random from "./random-runs.ts";
import { scratchDirectory } from "./scratch.ts";

const queries = fc.array(random.randomRunQuery, { minLength: 20, maxLength: 20 });
const dues = fc.array(random.randomDueQuery, { minLength: 10, maxLength: 10 });

test.each([
  ["memory", async () => memoryBackend()],
  ["JSONL", async () => jsonlBackend(await scratchDirectory(), { fsync: false })],
  ["SQLite", async () => sqliteBackend(join(await scratchDirectory(), "x.db"), { synchronous: "OFF" })],
] as const)("whatever is done to runs, %s judges and finds them as the contract says", async (_, open) => {
  await fc.assert(
    fc.asyncProperty(random.runScript, queries, dues, async (script, asked, due) => {
      const model = memoryBackend();
      const backend: Backend = await open();
      try {
        const [expected, found] = await random.playRuns(model, backend, script);
        expect(found).toEqual(expected);
        const all = await backend.runs({});
        expect(all).toEqual(await model.runs({}));
        for (const query of asked) expect(await backend.runs(query)).toEqual(random.expectedRuns(all, query));
        for (const query of due) {
          expect(await backend.dueRuns(query)).toEqual(random.expectedDue(all, query));
          expect(await backend.nextDue(query)).toEqual(random.expectedNext(all, query.graphs));
        }
      } finally {
        await backend.close();
      }
    }),
    runs,
  );
});
