/** Random groups of commits on Redis and in memory: the judging in Lua answers and stores as the contract's own judges do. */

import fc from "fast-check";
import type { Backend, Commit, Op, WaitStatus } from "holdfast";
import { memoryBackend } from "holdfast/checkpointers/memory";
import { expect, test } from "vitest";
import { redisBackend } from "../../checkpointers/redis/backend.ts";
import * as rows from "../../src/testing/backend-rows.ts";
import { redisAvailable, removeRedisStore, sharedRedis } from "../servers/redis.ts";

// Few of everything, so that operations meet.
const thread = fc.constantFrom("t", "u", "");
const era = fc.constantFrom(0, 0, 0, 0, 1, 2);
const ns = fc.constantFrom("", "", "sub");
const id = fc.constantFrom("1", "2", "3");
const task = fc.constantFrom("a", "b");
const rev = fc.constantFrom(0, 1, 2);
const expected = fc.option(rev, { nil: null });
const run = fc.constantFrom("run 1", "run 2", undefined);
const statuses = ["open", "answered", "consumed", "superseded"] as const satisfies readonly WaitStatus[];
const entries = fc.array(fc.tuple(fc.integer({ min: -2, max: 2 }), fc.constant("c"), fc.constantFrom(1, 2)), {
  minLength: 1,
  maxLength: 2,
});

const op: fc.Arbitrary<Op> = fc.oneof(
  fc
    .record({
      thread,
      era,
      ns,
      id,
      heads: fc.option(fc.array(fc.option(id, { nil: null }), { maxLength: 2 }), { nil: undefined }),
    })
    .map(({ id, ...fields }) => rows.checkpoint(id, fields)),
  fc
    .record({
      thread,
      era,
      ns,
      checkpoint: id,
      task,
      run,
      entries,
      slot: fc.constantFrom(undefined, undefined, -1, -3),
    })
    .map(({ entries, ...fields }) => rows.writes(entries, fields)),
  fc
    .record({
      thread,
      era,
      list: fc.constantFrom("l", "m"),
      start: fc.integer({ min: 0, max: 3 }),
      based: fc.boolean(),
    })
    .map(({ list, start, based, ...fields }) =>
      rows.items(list, start, [start], { ...fields, ...(based && list === "m" ? rows.base("l", start) : {}) }),
    ),
  fc.record({ thread, era, hash: id, data: id }).map(({ hash, data, ...fields }) => rows.blob(hash, data, fields)),
  fc
    .record({
      key: id,
      thread,
      era,
      task,
      rev,
      expected,
      ordinal: fc.constantFrom(0, -1),
      digest: fc.constantFrom("d1", "d2"),
    })
    .map(({ key, era, expected, ...fields }) => rows.effect(rows.effectRow(key, fields), expected, era)),
  fc
    .record({
      ...{
        id,
        thread,
        era,
        rev,
        expected,
        status: fc.constantFrom(...statuses),
        openedAt: fc.constantFrom(-1, 5, 5.5),
      },
      ...{ due: fc.constantFrom(undefined, 3, 9), owner: fc.constantFrom(undefined, "o", "") },
    })
    .map(({ id, era, expected, ...fields }) => rows.wait(rows.waitRow(id, fields), expected, era)),
  fc.record({ thread, era, id }).map(({ id, ...fields }) => rows.endWait(id, fields)),
  fc
    .record({ thread, era, seq: fc.integer({ min: 1, max: 3 }) })
    .map(({ thread, era, seq }) => rows.decision(rows.decisionRow(seq, { thread }), era)),
  thread.map(rows.deleteThread),
);
const groups = fc.array(fc.array(fc.array(op, { maxLength: 5 }), { minLength: 1, maxLength: 4 }), { maxLength: 12 });

async function everything(backend: Backend): Promise<unknown> {
  const sorted = (list: readonly unknown[]) => list.map((one) => JSON.stringify(one)).sort();
  const found: unknown[] = [
    sorted((await rows.collect(backend.checkpoints({}))).map((row) => ({ ...row, writes: sorted(row.writes) }))),
  ];
  for (const thread of ["t", "u", ""]) {
    for (const ns of ["", "sub"]) {
      const { writes, waits, ...loaded } = await backend.load(thread, ns, undefined);
      found.push({ ...loaded, writes: sorted(writes), waits: sorted(waits) });
    }
    for (const list of ["l", "m"]) found.push(await backend.items(thread, list, 3));
    found.push([...(await backend.blobs(thread, ["1", "2", "3"]))].sort());
    for (const query of [{ thread }, { thread, task: "a" }, { thread, name: "charge", digest: "d2" }])
      found.push(sorted(await backend.effects(query)));
    found.push(await backend.waits({ thread }), await backend.decision(thread, undefined));
  }
  for (const key of ["1", "2", "3"]) found.push(await backend.effects({ key }), await backend.waits({ id: key }));
  for (const status of statuses) found.push(await backend.waits({ status: [status] }));
  found.push(await backend.waits({ owner: "o" }), await backend.waits({ status: ["open"], dueBy: 5 }));
  found.push(await backend.waits({}), await rows.collect(backend.decisions({})));
  return found;
}

async function play(backend: Backend, script: readonly (readonly Commit[])[]): Promise<unknown> {
  const verdicts: unknown[] = [];
  for (const group of script) {
    for (const verdict of await backend.commit(group)) {
      // Ids of other threads stand in no error.
      verdicts.push(verdict === undefined ? "accepted" : [verdict.message, verdict.details]);
    }
  }
  return { verdicts, stored: await everything(backend) };
}

test.skipIf(!redisAvailable)(
  "whatever is committed, Redis answers in the words of the contract and keeps the same rows",
  async () => {
    await fc.assert(
      fc.asyncProperty(groups, async (script) => {
        const { url, prefix } = await sharedRedis();
        const [redis, memory] = [await redisBackend(url, { prefix }), memoryBackend()];
        try {
          expect(await play(redis, script)).toEqual(await play(memory, script));
        } finally {
          await redis.close();
          await removeRedisStore(url, prefix);
        }
      }),
      {
        numRuns: Number(process.env["RUNS"] ?? 150),
        ...(process.env["RUNS"] === undefined ? { seed: 20_261_130 } : {}),
      },
    );
  },
);
