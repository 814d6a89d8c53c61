/** B1–B3: all or nothing, judged in order, each commit of a group with its own verdict. */

import assert from "node:assert/strict";
import type { BackendCase } from "../backend-case.ts";
import * as rows from "../backend-rows.ts";

const { accept, checkpoint, codes, headOf, refuse, writes } = rows;

export const commitCases: readonly BackendCase[] = [
  {
    name: "an empty group and an empty commit are accepted and change nothing",
    async run({ backend }) {
      assert.deepEqual(await backend.commit([]), []);
      assert.deepEqual(await codes(backend, [[], []]), ["accepted", "accepted"]);
      assert.equal(await headOf(backend), undefined);
    },
  },
  {
    name: "a refused commit leaves none of its operations, wherever the refused one stands",
    async run({ backend }) {
      await accept(backend, checkpoint("1"), rows.effect(rows.effectRow("e"), null));
      await accept(backend, rows.wait(rows.waitRow("w"), null), rows.wait(rows.waitRow("v"), null));
      const refused = checkpoint("3", { heads: ["2"] });
      const others = [
        checkpoint("2", { ns: "sub", parent: "1" }),
        writes([[0, "c", 1]]),
        writes([[-1, "__error__", 1]], { slot: -1 }),
        rows.items("l", 0, [1]),
        rows.blob("h", "data"),
        rows.effect(rows.effectRow("e", { rev: 1, status: "done" }), 0),
        rows.effect(rows.effectRow("e2"), null),
        rows.wait(rows.waitRow("w", { rev: 1, status: "answered" }), 0),
        rows.wait(rows.waitRow("w2"), null),
        rows.endWait("v"),
        rows.decision(rows.decisionRow(1)),
      ];
      for (let at = 0; at <= others.length; at++) {
        await refuse(backend, "HEAD_MOVED", ...others.slice(0, at), refused, ...others.slice(at));
        assert.equal(await headOf(backend, "t", "sub"), undefined);
        assert.equal(await headOf(backend), "1");
        assert.deepEqual(await rows.writesOf(backend), []);
        assert.deepEqual(await rows.itemsOf(backend, "l", 9), []);
        assert.equal((await backend.blobs("t", ["h"])).size, 0);
        assert.deepEqual(await backend.effects({ thread: "t" }), [rows.effectRow("e")]);
        assert.deepEqual(await backend.waits({}), [rows.waitRow("v"), rows.waitRow("w")]);
        assert.deepEqual(await rows.decisionsOf(backend), []);
      }
    },
  },
  {
    name: "a refused deletion of a thread leaves the thread",
    async run({ backend }) {
      await accept(backend, checkpoint("1"), writes([[0, "c", 1]]));
      await refuse(backend, "HEAD_MOVED", rows.deleteThread("t"), checkpoint("1", { thread: "u", heads: ["x"] }));
      assert.equal(await headOf(backend), "1");
      assert.equal((await rows.writesOf(backend)).length, 1);
      assert.equal((await backend.load("t", "", undefined)).era, 0);
    },
  },
  {
    name: "a refused commit in the middle of a group hinders none of the others",
    async run({ backend }) {
      const verdicts = await codes(backend, [
        [checkpoint("1", { heads: [null] })],
        [checkpoint("2", { parent: "0", heads: ["0"] }), writes([[0, "c", "lost"]])],
        [checkpoint("3", { parent: "1", heads: ["1"] }), writes([[0, "c", "kept"]], { checkpoint: "3" })],
      ]);
      assert.deepEqual(verdicts, ["accepted", "HEAD_MOVED", "accepted"]);
      assert.equal(await headOf(backend), "3");
      assert.deepEqual(await rows.ids(backend.checkpoints({ thread: "t" })), ["3", "1"]);
      assert.deepEqual(await rows.writesOf(backend, "1"), []);
      assert.deepEqual(await rows.writesOf(backend, "3"), ['a 0 run 1 json/1 [[0,"c","kept"]]']);
    },
  },
  {
    name: "each commit of a group is judged on what the accepted ones before it left",
    async run({ backend }) {
      const verdicts = await codes(backend, [
        [checkpoint("1", { heads: [null] })],
        [checkpoint("2", { heads: [null] })],
        [rows.effect(rows.effectRow("e"), null)],
        [rows.effect(rows.effectRow("e"), null)],
        [rows.effect(rows.effectRow("e", { rev: 1 }), 0)],
        [rows.items("l", 0, [1])],
        [rows.items("l", 0, [2])],
        [writes([[0, "c", 1]])],
        [writes([[0, "c", 2]], { run: "run 2" })],
        [rows.deleteThread("t")],
        [checkpoint("3")],
        [checkpoint("4", { era: 1, heads: [null] })],
      ]);
      assert.deepEqual(verdicts, [
        ...["accepted", "HEAD_MOVED", "accepted", "EFFECT_CONFLICT", "accepted", "accepted", "LIST_CONFLICT"],
        ...["accepted", "WRITE_CONFLICT", "accepted", "THREAD_DELETED", "accepted"],
      ]);
      assert.deepEqual(await rows.ids(backend.checkpoints({ thread: "t" })), ["4"]);
      assert.deepEqual(await backend.effects({ key: "e" }), []);
    },
  },
  {
    name: "each operation of a commit is judged on what the ones before it left",
    async run({ backend }) {
      await accept(
        backend,
        checkpoint("1", { heads: [null] }),
        checkpoint("2", { parent: "1", heads: ["1"] }),
        rows.effect(rows.effectRow("e"), null),
        rows.effect(rows.effectRow("e", { rev: 1, status: "done" }), 0),
        rows.blob("h", "first"),
        rows.blob("h", "second"),
        writes([[0, "c", 1]]),
        writes([[1, "c", 2]]),
        rows.items("l", 0, [1]),
        rows.items("l", 1, [2]),
      );
      await refuse(backend, "LIST_CONFLICT", rows.items("m", 0, [1]), rows.items("m", 0, [1]));
      await refuse(backend, "HEAD_MOVED", checkpoint("3", { heads: ["2"] }), checkpoint("4", { heads: ["2"] }));
      assert.equal(await headOf(backend), "2");
      assert.equal((await backend.blobs("t", ["h"])).get("h"), "first");
      assert.deepEqual(await rows.itemsOf(backend, "l", 9), ["l 0+1", "l 1+1"]);
      assert.deepEqual(await rows.writesOf(backend), ['a 0 run 1 json/1 [[0,"c",1]]', 'a 1 run 1 json/1 [[1,"c",2]]']);
    },
  },
  {
    name: "groups handed over without waiting are applied in order",
    async run({ backend }) {
      const groups = Array.from({ length: 20 }, (_, at) =>
        codes(backend, [[checkpoint(`${at + 1}`, { heads: [at === 0 ? null : `${at}`] })]]),
      );
      assert.deepEqual((await Promise.all(groups)).flat(), Array(20).fill("accepted"));
      assert.equal(await headOf(backend), "20");
    },
  },
  {
    name: "a group of a thousand commits is applied whole",
    async run({ backend }) {
      const group = Array.from({ length: 1000 }, (_, at) => [
        checkpoint(`${at}`.padStart(4, "0")),
        writes([[0, "c", at]], { checkpoint: `${at}`.padStart(4, "0") }),
      ]);
      assert.deepEqual(await codes(backend, group), Array(1000).fill("accepted"));
      const stored = await rows.collect(backend.checkpoints({ thread: "t" }));
      assert.equal(stored.length, 1000);
      assert.ok(stored.every((row) => row.writes.length === 1));
    },
  },
];
