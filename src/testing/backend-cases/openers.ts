/** B4, owners, the end, and what is there afterwards. */

import assert from "node:assert/strict";
import type { BackendCase, OpenedBackend } from "../backend-case.ts";
import * as rows from "../backend-rows.ts";

const { accept, checkpoint, codes, effect, effectRow, headOf, rejectsWith, writes } = rows;

async function openSecond({ second }: OpenedBackend) {
  assert.ok(second, "a backend for many processes must be openable twice");
  return second();
}

export const openerCases: readonly BackendCase[] = [
  {
    name: "the owner is alive while it has the backend open",
    async run({ backend }) {
      assert.ok(backend.owner.length >= 16, "long enough to be unique");
      assert.equal(await backend.ownerAlive(backend.owner), true);
      assert.equal(await backend.ownerAlive("nobody"), false);
      assert.equal(await backend.ownerAlive(""), false);
      assert.equal(await backend.ownerAlive("../../nobody"), false);
    },
  },
  {
    name: "a transaction is there exactly where the capabilities say so",
    async run({ backend }) {
      assert.equal(backend.transaction !== undefined, backend.capabilities.transactions);
    },
  },
  {
    name: "closing twice is fine, and every later call fails with CLOSED",
    async run({ backend }) {
      await accept(backend, checkpoint("1"));
      await Promise.all([backend.close(), backend.close()]);
      await backend.close();
      await rejectsWith("CLOSED", Promise.resolve(backend.commit([[checkpoint("2")]])));
      await rejectsWith("CLOSED", Promise.resolve(backend.commit([])));
      await rejectsWith("CLOSED", backend.load("t", "", undefined));
      await rejectsWith("CLOSED", rows.collect(backend.checkpoints({})));
      await rejectsWith("CLOSED", rows.collect(backend.ancestors("t", "", "1")));
      await rejectsWith("CLOSED", backend.items("t", "l", 1));
      await rejectsWith("CLOSED", backend.blobs("t", []));
      await rejectsWith("CLOSED", backend.effects({ key: "k" }));
      await rejectsWith("CLOSED", backend.waits({}));
      await rejectsWith("CLOSED", rows.collect(backend.decisions({})));
      await rejectsWith("CLOSED", backend.decision("t", 1));
      await rejectsWith("CLOSED", backend.ownerAlive(backend.owner));
      if (backend.transaction !== undefined) {
        await rejectsWith(
          "CLOSED",
          backend.transaction(() => ({ ops: [], value: undefined })),
        );
      }
    },
  },
  {
    name: "a commit handed over before the end is answered and kept",
    needs: "reopen",
    async run({ backend, reopen }) {
      const commit = codes(backend, [[checkpoint("1")]]);
      await backend.close();
      assert.deepEqual(await commit, ["accepted"]);
      assert.equal(await headOf((await reopen?.()) ?? backend), "1");
    },
  },
  {
    name: "each of two openers sees what the other one has committed",
    needs: "second",
    async run(opened) {
      const { backend } = opened;
      const other = await openSecond(opened);
      try {
        assert.notEqual(other.owner, backend.owner);
        await accept(backend, checkpoint("1"), rows.blob("h", "data"), rows.items("l", 0, [1]));
        assert.equal(await headOf(other), "1");
        assert.equal((await other.blobs("t", ["h"])).get("h"), "data");
        await accept(other, checkpoint("2", { parent: "1", heads: ["1"] }), effect(effectRow("k"), null));
        assert.deepEqual(await rows.ids(backend.checkpoints({ thread: "t" })), ["2", "1"]);
        assert.deepEqual(await backend.effects({ thread: "t" }), [effectRow("k")]);
        await rows.refuse(backend, "HEAD_MOVED", checkpoint("3", { parent: "1", heads: ["1"] }));
        await rows.refuse(backend, "EFFECT_CONFLICT", effect(effectRow("k"), null));
        await rows.refuse(other, "LIST_CONFLICT", rows.items("l", 0, [2]));
        await accept(backend, rows.wait(rows.waitRow("w"), null));
        await accept(other, rows.wait(rows.waitRow("w", { rev: 1, status: "answered" }), 0));
        await accept(other, rows.decision(rows.decisionRow(1)));
        assert.deepEqual(await rows.waitsOf(backend), ["w answered 1"]);
        assert.deepEqual(await rows.decisionsOf(backend), ["t 1"]);
        await rows.refuse(backend, "WAIT_CONFLICT", rows.wait(rows.waitRow("w", { rev: 1 }), 0));
        await rows.refuse(backend, "DECISION_CONFLICT", rows.decision(rows.decisionRow(1)));
        await rows.refuse(other, "WAIT_CONFLICT", rows.wait(rows.waitRow("w", { thread: "u" }), null));
        await accept(backend, rows.endWait("w"));
        assert.deepEqual((await other.load("t", "", undefined)).waits, []);
        await accept(other, rows.deleteThread("t"));
        assert.equal((await backend.load("t", "", undefined)).era, 1);
        await rows.refuse(backend, "THREAD_DELETED", writes([[0, "c", 1]]));
      } finally {
        await other.close();
      }
    },
  },
  {
    name: "a read sees what another opener has committed since the same read before",
    needs: "second",
    async run(opened) {
      const { backend } = opened;
      const other = await openSecond(opened);
      try {
        for (let at = 1; at <= 6; at++) {
          const [writer, reader] = at <= 3 ? [other, backend] : [backend, other];
          await accept(writer, checkpoint(`${at}`, { parent: `${at - 1}` }), effect(effectRow(`${at}`), null));
          await accept(writer, writes([[at, "c", at]]), rows.items("l", at - 1, [at]), rows.blob(`${at}`, "data"));
          await accept(writer, rows.wait(rows.waitRow(`${at}`), null), rows.decision(rows.decisionRow(at)));
          const { head, checkpoint: latest } = await reader.load("t", "", undefined);
          assert.deepEqual([head, latest?.id], [`${at}`, `${at}`]);
          assert.equal((await reader.load("t", "", "1")).writes.length, at);
          assert.equal((await rows.ids(reader.checkpoints({ thread: "t" }))).length, at);
          assert.equal((await rows.ids(reader.ancestors("t", "", `${at}`))).length, at);
          assert.equal((await rows.itemsOf(reader, "l", 99)).length, at);
          assert.equal((await reader.items("t", "l", at - 1)).extended, true);
          assert.equal((await reader.blobs("t", [`${at}`])).size, 1);
          assert.equal((await reader.effects({ thread: "t" })).length, at);
          assert.equal((await reader.load("t", "", undefined)).waits.length, at);
          assert.equal((await reader.waits({ status: ["open"] })).length, at);
          assert.equal((await reader.decision("t", undefined))?.seq, at);
          assert.equal((await rows.decisionsOf(reader)).length, at);
        }
      } finally {
        await other.close();
      }
    },
  },
  ...(["head", "effect", "list", "wait", "decision"] as const).map(
    (what): BackendCase => ({
      name: `of two openers that change one ${what} at the same time exactly one wins`,
      needs: "second",
      async run(opened) {
        const { backend } = opened;
        const other = await openSecond(opened);
        try {
          await accept(backend, rows.wait(rows.waitRow("w"), null));
          for (let at = 0; at < 20; at++) {
            const head = (await headOf(backend)) ?? null;
            const change = (name: string) => {
              if (what === "head") return checkpoint(`${at} ${name}`, { heads: [head] });
              if (what === "list") return rows.items("l", at, [name]);
              if (what === "decision") return rows.decision(rows.decisionRow(at + 1, { wait: name }));
              if (what === "wait") {
                return rows.wait(rows.waitRow("w", { rev: at + 1, holder: name, status: "answered" }), at);
              }
              return effect(effectRow("k", { rev: at, owner: name }), at === 0 ? null : at - 1);
            };
            const race = (by: typeof backend, name: string) =>
              codes(by, [[change(name), checkpoint(`${at} ${name}`, { ns: "sub" })]]);
            const verdicts = (await Promise.all([race(backend, "a"), race(other, "b")])).flat();
            assert.equal(verdicts.filter((verdict) => verdict === "accepted").length, 1, verdicts.join());
            const winner = `${at} ${verdicts[0] === "accepted" ? "a" : "b"}`;
            assert.deepEqual([await headOf(backend, "t", "sub"), await headOf(other, "t", "sub")], [winner, winner]);
          }
        } finally {
          await other.close();
        }
      },
    }),
  ),
  {
    name: "an owner is alive for the others until it closes, and its end closes nobody else",
    needs: "second",
    async run(opened) {
      const { backend } = opened;
      const other = await openSecond(opened);
      assert.equal(await backend.ownerAlive(other.owner), true);
      assert.equal(await other.ownerAlive(backend.owner), true);
      await other.close();
      assert.equal(await backend.ownerAlive(other.owner), false);
      assert.equal(await backend.ownerAlive(backend.owner), true);
      await accept(backend, checkpoint("1"));
    },
  },
  {
    name: "everything acknowledged is there after closing and opening again, and is judged by",
    needs: "reopen",
    async run({ backend, reopen }) {
      const everything = async (from: typeof backend) => ({
        listed: await rows.collect(from.checkpoints({})),
        heads: [await headOf(from), await headOf(from, "t", "sub"), await headOf(from, "u")],
        values: [await rows.valuesOf(from, "m", 9), (await from.items("t", "l", 1)).extended],
        blobs: [...(await from.blobs("t", ["text", "bytes"]))].map(([hash, data]) => [hash, ...data]).sort(),
        effects: [...(await from.effects({ thread: "t" })), ...(await from.effects({ thread: "" }))],
        waits: [await from.waits({}), await from.waits({ status: ["open"], dueBy: 99 })],
        active: (await from.load("t", "", undefined)).waits.map((row) => row.id).sort(),
        decisions: await rows.collect(from.decisions({})),
        eras: [(await from.load("t", "", undefined)).era, (await from.load("gone", "", undefined)).era],
      });
      await accept(backend, checkpoint("9"), checkpoint("5", { parent: "9" }), checkpoint("2", { ns: "sub" }));
      await accept(backend, writes([[0, "c", "\u0000😀\n"]], { checkpoint: "5" }), checkpoint("1", { thread: "u" }));
      await accept(backend, writes([[-1, "__error__", 1]], { checkpoint: "5", slot: -1 }));
      await accept(backend, writes([[-1, "__error__", 2]], { checkpoint: "5", slot: -1 }));
      await accept(backend, rows.items("l", 0, [0, 1]), rows.items("m", 1, ["m"], rows.base("l", 1)));
      await accept(backend, rows.blob("text", "a\u0000\n😀"), rows.blob("bytes", Uint8Array.of(0, 10, 255)));
      await accept(backend, effect(effectRow("k"), null));
      await accept(backend, effect(effectRow("k", { rev: 1, status: "done" }), 0));
      await accept(backend, rows.wait(rows.waitRow("open", { due: 9, graph: "g", body: 'json/1 "\\n😀"' }), null));
      await accept(backend, rows.wait(rows.waitRow("a", { openedAt: 1.5 }), null), rows.decision(rows.decisionRow(1)));
      await accept(backend, rows.wait(rows.waitRow("a", { status: "answered", decision: 1, rev: 1 }), 0));
      await accept(backend, rows.wait(rows.waitRow("c"), null), rows.endWait("c"));
      await accept(backend, rows.decision(rows.decisionRow(2)), rows.decision(rows.decisionRow(1, { thread: "u" })));
      await accept(backend, checkpoint("1", { thread: "gone" }));
      await accept(backend, rows.wait(rows.waitRow("gone", { thread: "gone" }), null));
      await accept(backend, rows.decision(rows.decisionRow(1, { thread: "gone" })));
      await accept(backend, effect(effectRow("given", { thread: "gone", ordinal: -1 }), null));
      await accept(backend, rows.deleteThread("gone"));
      const before = await everything(backend);
      await backend.close();
      const again = (await reopen?.()) ?? backend;
      assert.deepEqual(await everything(again), before);
      assert.notEqual(again.owner, backend.owner);
      assert.equal(await again.ownerAlive(backend.owner), false);
      await rows.refuse(again, "HEAD_MOVED", checkpoint("10", { heads: ["9"] }));
      await rows.refuse(again, "LIST_CONFLICT", rows.items("l", 0, [0]));
      await rows.refuse(again, "EFFECT_CONFLICT", effect(effectRow("k"), null));
      await rows.refuse(again, "WAIT_CONFLICT", rows.wait(rows.waitRow("a", { rev: 1 }), 0));
      await rows.refuse(again, "DECISION_CONFLICT", rows.decision(rows.decisionRow(2)));
      await accept(again, rows.decision(rows.decisionRow(3)), rows.endWait("a"), rows.endWait("open"));
      assert.deepEqual(await rows.waitsOf(again), ["a consumed 2", "c superseded 1", "open superseded 1"]);
      await rows.refuse(again, "THREAD_DELETED", checkpoint("2", { thread: "gone" }));
      await accept(again, rows.decision(rows.decisionRow(1, { thread: "gone" }), 1));
      await accept(again, checkpoint("3", { thread: "gone", era: 1, heads: [null] }));
      await accept(again, checkpoint("10", { heads: ["5"], parent: "5" }));
    },
  },
];
