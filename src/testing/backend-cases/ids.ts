/** B5: ids are data. */

import assert from "node:assert/strict";
import type { BackendCase } from "../backend-case.ts";
import * as rows from "../backend-rows.ts";

const { accept, checkpoint, effect, effectRow, writes } = rows;

/** Ids that patterns, separators, string ends, trimming, case folding or normalisation would confuse. */
export const awkward = [
  ...[
    "",
    " ",
    "a",
    "A",
    "a ",
    " a",
    "a:b",
    "a|b",
    "a*",
    "a%",
    "a_",
    "[a]",
    "a'b",
    'a"b',
    "a\\b",
    "a/b",
    "../a",
    "a;--",
  ],
  ...[
    "a\u0000",
    "a\u0000b",
    "\u0000",
    "a\nb",
    "a\tb",
    "😀",
    "😀😀",
    "é",
    "e\u0301",
    "null",
    "undefined",
    "0",
    "00",
    "1e3",
  ],
  ...["__proto__", "constructor", "x".repeat(3000), `${"x".repeat(2999)}y`],
];

export const idCases: readonly BackendCase[] = [
  {
    name: "thread ids of any characters and of 3,000 characters stay apart",
    async run({ backend }) {
      for (const [at, thread] of awkward.entries()) {
        await accept(
          backend,
          checkpoint(`${at}`, { thread, heads: [null] }),
          writes([[0, "c", at]], { thread, checkpoint: `${at}` }),
          rows.items("l", 0, [at], { thread }),
          rows.blob("h", `${at}`, { thread }),
          effect(effectRow(`key ${at}`, { thread }), null),
          rows.wait(rows.waitRow(`wait ${at}`, { thread }), null),
          rows.decision(rows.decisionRow(1, { thread, wait: `wait ${at}` })),
        );
      }
      for (const [at, thread] of awkward.entries()) {
        assert.equal(await rows.headOf(backend, thread), `${at}`);
        const [listed, ...more] = await rows.collect(backend.checkpoints({ thread }));
        assert.deepEqual([listed?.thread, listed?.id, listed?.writes.length, more.length], [thread, `${at}`, 1, 0]);
        assert.deepEqual(await rows.valuesOf(backend, "l", 9, thread), [at]);
        assert.equal((await backend.blobs(thread, ["h"])).get("h"), `${at}`);
        assert.deepEqual(await backend.effects({ thread }), [effectRow(`key ${at}`, { thread })]);
        assert.deepEqual(await backend.waits({ thread }), [rows.waitRow(`wait ${at}`, { thread })]);
        const decided = [rows.decisionRow(1, { thread, wait: `wait ${at}` })];
        assert.deepEqual(await rows.collect(backend.decisions({ thread })), decided);
        assert.deepEqual([await backend.decision(thread, 1)], decided);
      }
      await accept(backend, rows.deleteThread("a"));
      for (const [at, thread] of awkward.entries()) {
        assert.equal(await rows.headOf(backend, thread), thread === "a" ? undefined : `${at}`);
        assert.equal((await backend.load(thread, "", undefined)).era, thread === "a" ? 1 : 0);
      }
    },
  },
  {
    name: "namespaces and checkpoint ids of any characters and of 3,000 characters stay apart",
    async run({ backend }) {
      await accept(
        backend,
        ...awkward.flatMap((ns, at) => [
          checkpoint(ns, { ns, body: rows.encoded(at) }),
          checkpoint("last", { ns, parent: ns }),
          writes([[0, "c", at]], { ns, checkpoint: ns }),
        ]),
      );
      for (const [at, ns] of awkward.entries()) {
        const loaded = await backend.load("t", ns, ns);
        assert.deepEqual([loaded.head, loaded.checkpoint?.body], ["last", rows.encoded(at)]);
        assert.deepEqual(rows.describeWrites(loaded.writes), [`a 0 run 1 ${rows.encoded([[0, "c", at]])}`]);
        assert.deepEqual(await rows.ids(backend.ancestors("t", ns, "last")), ["last", ns]);
        assert.equal((await rows.ids(backend.checkpoints({ thread: "t", ns }))).length, 2);
      }
    },
  },
  {
    name: "task ids of any characters and of 3,000 characters stay apart",
    async run({ backend }) {
      await accept(backend, checkpoint("1"));
      for (const [at, task] of awkward.entries()) {
        await accept(backend, writes([[0, "c", at]], { task, path: task, run: `run ${at}` }));
        await accept(backend, writes([[-1, "__error__", at]], { task, path: task, slot: -1 }));
        await accept(backend, effect(effectRow(`key ${at}`, { task }), null));
      }
      const stored = (await backend.load("t", "", "1")).writes;
      assert.equal(stored.length, awkward.length * 2);
      for (const [at, task] of awkward.entries()) {
        const own = stored.filter((row) => row.task === task && row.path === task);
        assert.deepEqual(own.map((row) => row.body).sort(), [
          rows.encoded([[-1, "__error__", at]]),
          rows.encoded([[0, "c", at]]),
        ]);
        assert.deepEqual(
          (await backend.effects({ thread: "t", task })).map((row) => row.key),
          [`key ${at}`],
        );
      }
    },
  },
  {
    name: "list ids, hashes, effect keys, names and digests of any characters stay apart",
    async run({ backend }) {
      for (const [at, id] of awkward.entries()) {
        await accept(backend, rows.items(id, 0, [at]), rows.items(id, 1, [at]), rows.blob(id, `${at}`));
        await accept(backend, effect(effectRow(`key ${id}`, { name: id, digest: id }), null));
      }
      const blobs = await backend.blobs("t", awkward);
      for (const [at, id] of awkward.entries()) {
        assert.deepEqual(await rows.valuesOf(backend, id, 9), [at, at]);
        assert.equal(blobs.get(id), `${at}`);
        const expected = [effectRow(`key ${id}`, { name: id, digest: id })];
        assert.deepEqual(await backend.effects({ key: `key ${id}` }), expected);
        assert.deepEqual(await backend.effects({ thread: "t", name: id, digest: id }), expected);
      }
    },
  },
  {
    name: "waits' ids and all that they are found by may have any characters and 3,000 of them",
    async run({ backend }) {
      const made = awkward.map((id, at) =>
        rows.waitRow(id, {
          ...{ thread: id, ns: id, checkpoint: id, task: id, name: id, digest: id, openedAt: at },
          ...{ graph: id, assignee: id, owner: id, holder: id },
        }),
      );
      await accept(backend, ...made.map((row) => rows.wait(row, null)));
      assert.deepEqual(await backend.waits({}), made);
      for (const row of made) {
        const { id } = row;
        for (const field of ["id", "thread", "task", "name", "graph", "assignee", "owner"] as const) {
          assert.deepEqual(await backend.waits({ [field]: id }), [row], `${field} ${JSON.stringify(id)}`);
        }
        await accept(backend, rows.endWait(id, { thread: id }));
      }
      assert.deepEqual(await rows.waitIds(backend, { status: ["superseded"] }), awkward);
    },
  },
  {
    name: "the border between two ids is part of them: (a, bc) is not (ab, c)",
    async run({ backend }) {
      await accept(backend, checkpoint("1", { thread: "a", ns: "bc" }));
      await accept(backend, writes([[0, "c", 1]], { checkpoint: "1", task: "23" }), checkpoint("12"), checkpoint("1"));
      assert.equal(await rows.headOf(backend, "ab", "c"), undefined);
      assert.deepEqual(await rows.writesOf(backend, "12"), []);
      await accept(backend, writes([[0, "c", 2]], { checkpoint: "12", task: "3", run: "run 2" }));
      await accept(backend, rows.items("l", 11, [1]), rows.items("l1", 1, [2]));
      assert.deepEqual(await rows.itemsOf(backend, "l", 99), ["l 11+1"]);
    },
  },
];
