/** Deletion: nothing of the thread is left, nothing of another is touched, and earlier runs stay refused. */

import assert from "node:assert/strict";
import type { Backend, Op } from "../../backend.ts";
import type { BackendCase } from "../backend-case.ts";
import * as rows from "../backend-rows.ts";

const { accept, checkpoint, deleteThread, effect, effectRow, headOf, refuse, writes } = rows;

/** One row of every kind. */
function everything(thread: string, era = 0): Op[] {
  return [
    checkpoint("1", { thread, era }),
    checkpoint("2", { thread, era, ns: "sub" }),
    writes([[0, "c", thread]], { thread, era }),
    writes([[-1, "__error__", thread]], { thread, era, slot: -1 }),
    writes([[0, "c", thread]], { thread, era, ns: "sub", checkpoint: "2" }),
    rows.items("l", 0, [thread], { thread, era }),
    rows.items("m", 1, [thread], { thread, era, ...rows.base("l", 1) }),
    rows.blob("h", `data of ${thread}`, { thread, era }),
    effect(effectRow(`effect of ${thread}`, { thread }), null, era),
    rows.wait(rows.waitRow(`wait of ${thread}`, { thread, due: 9 }), null, era),
    rows.wait(rows.waitRow(`answered of ${thread}`, { thread, status: "answered" }), null, era),
    rows.endWait(`answered of ${thread}`, { thread, era }),
    rows.decision(rows.decisionRow(1, { thread }), era),
    rows.decision(rows.decisionRow(2, { thread }), era),
  ];
}

async function assertWhole(backend: Backend, thread: string): Promise<void> {
  assert.deepEqual(await rows.ids(backend.checkpoints({ thread })), ["2", "1"]);
  assert.equal((await backend.load(thread, "", undefined)).writes.length, 2);
  assert.equal((await backend.load(thread, "sub", "2")).writes.length, 1);
  assert.deepEqual(await rows.valuesOf(backend, "m", 9, thread), [thread, thread]);
  assert.equal((await backend.blobs(thread, ["h"])).get("h"), `data of ${thread}`);
  assert.equal((await backend.effects({ thread })).length, 1);
  assert.deepEqual(await rows.waitsOf(backend, thread), [
    `answered of ${thread} consumed 1`,
    `wait of ${thread} open 0`,
  ]);
  assert.deepEqual(await rows.decisionsOf(backend, thread), ["1", "2"]);
}

export const deletionCases: readonly BackendCase[] = [
  {
    name: "a deleted thread leaves no row of any kind, not even for a new thread with the same ids",
    async run({ backend }) {
      await accept(backend, ...everything("t"));
      await assertWhole(backend, "t");
      await accept(backend, deleteThread("t"));
      assert.deepEqual(await backend.load("t", "", undefined), {
        era: 1,
        head: undefined,
        checkpoint: undefined,
        writes: [],
        waits: [],
      });
      assert.equal(await headOf(backend, "t", "sub"), undefined);
      assert.deepEqual(await rows.ids(backend.checkpoints({ thread: "t" })), []);
      assert.deepEqual(await rows.ids(backend.checkpoints({})), []);
      assert.deepEqual(await rows.ids(backend.ancestors("t", "", "1")), []);
      assert.deepEqual(await rows.itemsOf(backend, "l", 9), []);
      assert.equal((await backend.blobs("t", ["h"])).size, 0);
      assert.deepEqual(await backend.effects({ thread: "t" }), []);
      assert.deepEqual(await backend.effects({ key: "effect of t" }), []);
      for (const query of [{}, { thread: "t" }, { id: "wait of t" }, { status: ["open"] }, { dueBy: 99 }] as const) {
        assert.deepEqual(await backend.waits(query), []);
      }
      assert.deepEqual(await backend.waits({ status: ["open"], dueBy: 99 }), []);
      assert.deepEqual([await rows.decisionsOf(backend, "t"), await rows.decisionsOf(backend)], [[], []]);
      assert.deepEqual(
        [await backend.decision("t", undefined), await backend.decision("t", 1)],
        [undefined, undefined],
      );

      await accept(backend, checkpoint("1", { era: 1, heads: [null] }), checkpoint("2", { era: 1, ns: "sub" }));
      assert.deepEqual(await rows.writesOf(backend, "1"), []);
      assert.deepEqual(await rows.writesOf(backend, "2", "t", "sub"), []);
      await accept(backend, rows.blob("h", "new", { era: 1 }), rows.items("l", 0, ["new"], { era: 1 }));
      assert.equal((await backend.blobs("t", ["h"])).get("h"), "new");
      assert.deepEqual(await rows.valuesOf(backend, "l", 9), ["new"]);
      await accept(backend, effect(effectRow("effect of t"), null, 1));
      assert.deepEqual((await backend.load("t", "", undefined)).waits, []);
      await accept(backend, rows.wait(rows.waitRow("wait of t"), null, 1), rows.wait(rows.waitRow("other"), null, 1));
      assert.deepEqual(await rows.waitsOf(backend), ["other open 0", "wait of t open 0"]);
    },
  },
  {
    name: "the ids of a deleted thread's waits are free again, and its next life begins its chain of decisions at 1",
    async run({ backend }) {
      await accept(backend, ...everything("t"));
      await refuse(backend, "WAIT_CONFLICT", rows.wait(rows.waitRow("wait of t", { thread: "u" }), null));
      await accept(backend, deleteThread("t"), rows.wait(rows.waitRow("wait of t", { thread: "u" }), null));
      await refuse(backend, "WAIT_CONFLICT", rows.wait(rows.waitRow("wait of t"), null, 1));
      await refuse(backend, "DECISION_CONFLICT", rows.decision(rows.decisionRow(3), 1));
      const again = rows.decisionRow(1, { body: rows.encoded("again") });
      await accept(backend, rows.decision(again, 1));
      assert.deepEqual(await rows.collect(backend.decisions({})), [again]);
      assert.deepEqual([await rows.waitsOf(backend), await rows.waitsOf(backend, "u")], [[], ["wait of t open 0"]]);
      await accept(backend, rows.decision(rows.decisionRow(2), 1), deleteThread("t"), rows.decision(again, 2));
      assert.deepEqual(await rows.decisionsOf(backend), ["t 1"]);
    },
  },
  {
    name: "a deletion touches no other thread, however similar its id",
    async run({ backend }) {
      const deleted = "t_1%";
      const others = ["t", "t_", "t_1", "t_1%%", "t_1% ", " t_1%", "T_1%", "tx1%", "t_1x", "t_1%:sub", "t_1*", "", "*"];
      for (const thread of [deleted, ...others]) await accept(backend, ...everything(thread));
      await accept(backend, deleteThread(deleted));
      assert.deepEqual(await rows.ids(backend.checkpoints({ thread: deleted })), []);
      for (const thread of others) await assertWhole(backend, thread);
    },
  },
  {
    name: "runs that loaded a thread before it was deleted are refused with THREAD_DELETED, whatever they store",
    async run({ backend }) {
      await accept(backend, ...everything("t"));
      await accept(backend, deleteThread("t"));
      for (const op of everything("t")) await refuse(backend, "THREAD_DELETED", op);
      assert.deepEqual(await rows.ids(backend.checkpoints({ thread: "t" })), []);
      assert.equal((await backend.blobs("t", ["h"])).size, 0);
      await accept(backend, ...everything("t", 1));
      await assertWhole(backend, "t");
      for (const op of everything("t")) await refuse(backend, "THREAD_DELETED", op);
      for (const op of everything("t", 2)) await refuse(backend, "THREAD_DELETED", op);
    },
  },
  {
    name: "the era counts the deletions of a thread, also of one that had no rows yet",
    async run({ backend }) {
      const era = async () => (await backend.load("t", "", undefined)).era;
      for (let count = 0; count < 3; count++) {
        assert.equal(await era(), count);
        if (count > 0) await accept(backend, ...everything("t", count));
        assert.equal(await era(), count);
        await accept(backend, deleteThread("t"));
      }
      assert.equal(await era(), 3);
      assert.equal((await backend.load("u", "", undefined)).era, 0);
    },
  },
  {
    name: "an effect with a given key outlives its thread, with an empty thread id, and can be changed",
    async run({ backend }) {
      const given = effectRow("given", { ordinal: -1, status: "done", rev: 2 });
      await accept(backend, effect(given, null), effect(effectRow("own"), null));
      await accept(backend, effect(effectRow("given by another", { ordinal: -1, thread: "u" }), null));
      await accept(backend, deleteThread("t"));
      assert.deepEqual(await backend.effects({ key: "given" }), [{ ...given, thread: "" }]);
      assert.deepEqual(await backend.effects({ thread: "" }), [{ ...given, thread: "" }]);
      assert.deepEqual(await backend.effects({ thread: "t" }), []);
      assert.deepEqual(await backend.effects({ key: "own" }), []);
      assert.equal((await backend.effects({ thread: "u" })).length, 1);
      await refuse(backend, "EFFECT_CONFLICT", effect(given, null, 1));
      await accept(backend, effect({ ...given, rev: 3 }, 2, 1));
      assert.deepEqual(await backend.effects({ thread: "t" }), [{ ...given, rev: 3 }]);
    },
  },
  {
    name: "deletion and a new beginning may stand in one commit",
    async run({ backend }) {
      await accept(backend, ...everything("t"), effect(effectRow("given", { ordinal: -1 }), null));
      await accept(
        backend,
        rows.blob("late", "data"),
        rows.wait(rows.waitRow("late"), null),
        rows.decision(rows.decisionRow(3)),
        effect(effectRow("given 2", { ordinal: -1 }), null),
        deleteThread("t"),
        ...everything("t", 1),
        effect(effectRow("given", { ordinal: -1, rev: 1 }), 0, 1),
        rows.wait(rows.waitRow("late", { thread: "u" }), null),
      );
      assert.deepEqual(await rows.waitsOf(backend, "u"), ["late open 0"]);
      assert.equal((await backend.blobs("t", ["late"])).size, 0);
      assert.equal((await backend.effects({ key: "given 2" }))[0]?.thread, "");
      assert.deepEqual((await backend.effects({ thread: "t" })).map((row) => row.key).sort(), ["effect of t", "given"]);
      assert.equal((await backend.load("t", "", "1")).writes.length, 2);
      assert.deepEqual(await rows.waitsOf(backend), ["answered of t consumed 1", "wait of t open 0"]);
      assert.deepEqual(await rows.decisionsOf(backend, "t"), ["1", "2"]);
    },
  },
];
