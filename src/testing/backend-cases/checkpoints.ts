/** Checkpoints: heads, the order of ids, filters, streams, ancestors. */

import assert from "node:assert/strict";
import type { BackendCase } from "../backend-case.ts";
import * as rows from "../backend-rows.ts";

const { accept, checkpoint, headOf, ids, refuse, writes } = rows;

export const checkpointCases: readonly BackendCase[] = [
  {
    name: "a checkpoint is read back as it was stored",
    async run({ backend }) {
      const op = checkpoint("2", { ns: "sub:1", parent: "1", source: "fork", body: 'json/1 {"a":"\\u0000 \\" 😀"}' });
      await accept(backend, op);
      const { thread, ns, id, parent, source, body } = op;
      const expected = { thread, ns, id, parent, source, body };
      const loaded = await backend.load("t", "sub:1", "2");
      assert.deepEqual(loaded, { era: 0, head: "2", checkpoint: expected, writes: [], waits: [] });
      assert.deepEqual(await rows.collect(backend.checkpoints({ thread: "t" })), [{ ...expected, writes: [] }]);
      assert.deepEqual(await rows.collect(backend.ancestors("t", "sub:1", "2")), [{ ...expected, writes: [] }]);
    },
  },
  {
    name: "a first checkpoint has no parent, and an unknown thread, namespace or id loads nothing",
    async run({ backend }) {
      await accept(backend, checkpoint("1", { heads: [null] }));
      assert.equal((await backend.load("t", "", "1")).checkpoint?.parent, undefined);
      const nothing = { era: 0, head: undefined, checkpoint: undefined, writes: [], waits: [] };
      assert.deepEqual(await backend.load("u", "", undefined), nothing);
      assert.deepEqual(await backend.load("t", "sub", undefined), nothing);
      assert.deepEqual(await backend.load("t", "", "2"), { ...nothing, head: "1" });
    },
  },
  {
    name: "the head is the checkpoint stored last, not the one with the greatest id",
    async run({ backend }) {
      await accept(backend, checkpoint("9"));
      await accept(backend, checkpoint("5", { parent: "9", heads: ["9"] }));
      const loaded = await backend.load("t", "", undefined);
      assert.deepEqual([loaded.head, loaded.checkpoint?.id], ["5", "5"]);
      await refuse(backend, "HEAD_MOVED", checkpoint("6", { parent: "9", heads: ["9"] }));
    },
  },
  {
    name: "a checkpoint whose writer did not know the head is refused with HEAD_MOVED",
    async run({ backend }) {
      await refuse(backend, "HEAD_MOVED", checkpoint("1", { heads: ["0"] }));
      await accept(backend, checkpoint("1", { heads: [null] }));
      await refuse(backend, "HEAD_MOVED", checkpoint("2", { heads: [null] }));
      await refuse(backend, "HEAD_MOVED", checkpoint("2", { heads: [] }));
      await accept(backend, checkpoint("2", { parent: "1", heads: [null, "1"] }));
      await refuse(backend, "HEAD_MOVED", checkpoint("3", { parent: "1", heads: ["1", null] }));
      assert.deepEqual(await ids(backend.checkpoints({ thread: "t" })), ["2", "1"]);
    },
  },
  {
    name: "a checkpoint without a condition is stored whatever the head is, and becomes it",
    async run({ backend }) {
      await accept(backend, checkpoint("1"));
      await accept(backend, checkpoint("3"));
      await accept(backend, checkpoint("2"));
      assert.equal(await headOf(backend), "2");
    },
  },
  {
    name: "every namespace of a thread has its own head",
    async run({ backend }) {
      await accept(backend, checkpoint("1", { heads: [null] }), checkpoint("2", { ns: "sub", heads: [null] }));
      await accept(backend, checkpoint("3", { ns: "sub:x", heads: [null] }));
      await accept(backend, checkpoint("4", { parent: "1", heads: ["1"] }));
      assert.deepEqual(
        [await headOf(backend), await headOf(backend, "t", "sub"), await headOf(backend, "t", "sub:x")],
        ["4", "2", "3"],
      );
      assert.equal((await backend.load("t", "sub", "1")).checkpoint, undefined);
    },
  },
  {
    name: "the same checkpoint stored again replaces the row, keeps its writes and needs no other head",
    async run({ backend }) {
      await accept(backend, checkpoint("1", { heads: [null] }), writes([[0, "c", 1]]));
      await accept(backend, checkpoint("1", { heads: [null], source: "update", body: "json/1 2" }));
      const { head, checkpoint: row, writes: kept } = await backend.load("t", "", undefined);
      assert.deepEqual([head, row?.source, row?.body, kept.length], ["1", "update", "json/1 2", 1]);
      assert.equal((await ids(backend.checkpoints({ thread: "t" }))).length, 1);
      await accept(backend, checkpoint("2", { parent: "1", heads: ["1"] }));
      await refuse(backend, "HEAD_MOVED", checkpoint("1", { heads: [null] }));
      await accept(backend, checkpoint("1", { body: "json/1 3" }));
      assert.equal(await headOf(backend), "1");
    },
  },
  {
    name: "checkpoints come by descending id in the order of code points",
    async run({ backend }) {
      // In UTF-16 units the emoji (D83D …) sorts before U+FF5E and U+FFFD; by code point it is the greatest.
      const sorted = ["", "1", "10", "2", "B", "a", "é", "\u4e00", "\uff5e", "\ufffd", "😀", "😀a"];
      const shuffled = sorted.map((id, at) => ({ id, key: (at * 7) % sorted.length })).sort((a, b) => a.key - b.key);
      for (const { id } of shuffled) await accept(backend, checkpoint(id));
      assert.deepEqual(await ids(backend.checkpoints({ thread: "t" })), sorted.toReversed());
      assert.deepEqual(await ids(backend.checkpoints({ thread: "t", before: "\ufffd", limit: 2 })), [
        "\uff5e",
        "\u4e00",
      ]);
      assert.deepEqual(await ids(backend.checkpoints({ thread: "t", before: "😀" })), sorted.slice(0, -2).toReversed());
    },
  },
  {
    name: "checkpoints are filtered by thread, namespace, id and before, and limited, all at once",
    async run({ backend }) {
      for (const thread of ["t", "u"]) {
        for (const ns of ["", "sub"]) {
          for (const id of ["1", "2", "3"]) await accept(backend, checkpoint(id, { thread, ns }));
        }
      }
      const found = async (query: Parameters<typeof backend.checkpoints>[0]) =>
        (await rows.collect(backend.checkpoints(query))).map((row) => `${row.thread}/${row.ns}/${row.id}`);
      assert.equal((await found({})).length, 12);
      assert.deepEqual(await found({ thread: "t", ns: "" }), ["t//3", "t//2", "t//1"]);
      assert.deepEqual((await found({ thread: "u", before: "2" })).sort(), ["u//1", "u/sub/1"]);
      assert.deepEqual((await found({ id: "2" })).sort(), ["t//2", "t/sub/2", "u//2", "u/sub/2"]);
      assert.deepEqual((await found({ ns: "sub", id: "3" })).sort(), ["t/sub/3", "u/sub/3"]);
      assert.deepEqual(await found({ thread: "t", ns: "sub", before: "3", limit: 1 }), ["t/sub/2"]);
      assert.deepEqual(await found({ thread: "t", ns: "", id: "2", before: "2" }), []);
      assert.deepEqual(await found({ thread: "t", limit: 0 }), []);
      assert.deepEqual(await found({ thread: "v" }), []);
      assert.deepEqual((await found({})).map((place) => place.at(-1)).join(""), "333322221111");
      assert.equal((await found({ limit: 5 })).length, 5);
    },
  },
  {
    name: "every listed checkpoint has its own writes",
    async run({ backend }) {
      for (const id of ["1", "2", "3"]) await accept(backend, checkpoint(id), checkpoint(id, { ns: "sub" }));
      await accept(backend, writes([[0, "c", "one"]]), writes([[0, "c", "b"]], { task: "b" }));
      await accept(backend, writes([[0, "c", "three"]], { checkpoint: "3" }));
      await accept(backend, writes([[0, "c", "sub"]], { ns: "sub", checkpoint: "3" }));
      const listed = await rows.collect(backend.checkpoints({ thread: "t", ns: "" }));
      assert.deepEqual(
        listed.map((row) => rows.describeWrites(row.writes)),
        [
          ['a 0 run 1 json/1 [[0,"c","three"]]'],
          [],
          ['a 0 run 1 json/1 [[0,"c","one"]]', 'b 0 run 1 json/1 [[0,"c","b"]]'],
        ],
      );
    },
  },
  {
    name: "a reader that stops early or reads twice at once hinders nobody",
    async run({ backend }) {
      for (let at = 0; at < 200; at++) await accept(backend, checkpoint(`${1000 + at}`, { parent: `${999 + at}` }));
      for await (const row of backend.checkpoints({ thread: "t" })) if (row.id === "1197") break;
      for await (const row of backend.ancestors("t", "", "1150")) if (row.id === "1149") break;
      const both = [backend.checkpoints({ thread: "t" }), backend.ancestors("t", "", "1199")];
      const [left, right] = both.map((rows) => rows[Symbol.asyncIterator]());
      for (let at = 0; at < 100; at++) {
        const [a, b] = await Promise.all([left?.next(), right?.next()]);
        assert.deepEqual([a?.value?.id, b?.value?.id], [`${1199 - at}`, `${1199 - at}`]);
        if (at % 10 === 0) await accept(backend, checkpoint(`${at}`, { ns: "other" }));
      }
      await left?.return?.();
      await right?.return?.();
      await accept(backend, checkpoint("1200", { heads: ["1199"] }));
    },
  },
  {
    name: "ancestors follow the parents through branches and forks, newest first, each with its writes",
    async run({ backend }) {
      // 1 – 2 – 3 – 6      5 is a fork of 2 with a greater id than 3; 4 continues 5 with a smaller one
      //      \– 5 – 4
      const parents = { 1: undefined, 2: "1", 3: "2", 5: "2", 4: "5", 6: "3" };
      for (const id of ["1", "2", "3", "5", "4", "6"] as const) {
        await accept(backend, checkpoint(id, { parent: parents[id] }), writes([[0, "c", id]], { checkpoint: id }));
      }
      const line = async (id: string) => ids(backend.ancestors("t", "", id));
      assert.deepEqual(await line("6"), ["6", "3", "2", "1"]);
      assert.deepEqual(await line("4"), ["4", "5", "2", "1"]);
      assert.deepEqual(await line("1"), ["1"]);
      for (const row of await rows.collect(backend.ancestors("t", "", "4"))) {
        assert.deepEqual(rows.describeWrites(row.writes), [`a 0 run 1 json/1 [[0,"c","${row.id}"]]`]);
      }
    },
  },
  {
    name: "ancestors stay in their thread and namespace and end where a parent is missing",
    async run({ backend }) {
      await accept(backend, checkpoint("1"), checkpoint("1", { ns: "sub" }), checkpoint("2", { parent: "1" }));
      await accept(
        backend,
        checkpoint("2", { ns: "other", parent: "1" }),
        checkpoint("3", { thread: "u", parent: "2" }),
      );
      assert.deepEqual(await ids(backend.ancestors("t", "other", "2")), ["2"]);
      assert.deepEqual(await ids(backend.ancestors("u", "", "3")), ["3"]);
      assert.deepEqual(await ids(backend.ancestors("t", "", "9")), []);
      assert.deepEqual(await ids(backend.ancestors("v", "", "1")), []);
    },
  },
  {
    name: "a thousand ancestors are found",
    async run({ backend }) {
      const chain = Array.from({ length: 1000 }, (_, at) =>
        checkpoint(`${at}`, { parent: at === 0 ? undefined : `${at - 1}` }),
      );
      await accept(backend, ...chain);
      assert.equal((await ids(backend.ancestors("t", "", "999"))).length, 1000);
    },
  },
];
