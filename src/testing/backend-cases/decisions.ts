/** Decisions: a chain for each thread, without a gap and never changed. */

import assert from "node:assert/strict";
import type { BackendCase } from "../backend-case.ts";
import * as rows from "../backend-rows.ts";

const { accept, checkpoint, decision, decisionRow, decisionsOf, refuse, wait, waitRow } = rows;

export const decisionCases: readonly BackendCase[] = [
  {
    name: "decisions are read back as they were stored, one by one, as a chain, and as all chains",
    async run({ backend }) {
      const hash = "0123456789abcdef".repeat(4);
      const first = decisionRow(1, { wait: "a:b|😀", hash, body: 'json/1 "\\u0000😀"' });
      const other = decisionRow(1, { thread: "s", hash: hash.toUpperCase() });
      await accept(backend, decision(first));
      await accept(backend, decision(decisionRow(2)), decision(other), decision(decisionRow(3)));
      assert.deepEqual(await rows.collect(backend.decisions({ thread: "t" })), [first, decisionRow(2), decisionRow(3)]);
      assert.deepEqual(await rows.collect(backend.decisions({ thread: "s" })), [other]);
      assert.deepEqual(await decisionsOf(backend), ["s 1", "t 1", "t 2", "t 3"]);
      assert.deepEqual(await decisionsOf(backend, "u"), []);
      assert.deepEqual(await backend.decision("t", 1), first);
      assert.deepEqual(await backend.decision("t", 2), decisionRow(2));
      assert.deepEqual(await backend.decision("t", undefined), decisionRow(3));
      assert.deepEqual(await backend.decision("s", undefined), other);
      for (const seq of [0, -1, 4, 1.5]) assert.equal(await backend.decision("t", seq), undefined);
      for (const seq of [1, undefined]) assert.equal(await backend.decision("u", seq), undefined);
    },
  },
  {
    name: "a decision that does not follow the thread's last one is refused with DECISION_CONFLICT",
    async run({ backend }) {
      for (const seq of [0, 2, -1]) await refuse(backend, "DECISION_CONFLICT", decision(decisionRow(seq)));
      await accept(backend, decision(decisionRow(1)), decision(decisionRow(2)));
      for (const seq of [1, 2, 4, 0]) await refuse(backend, "DECISION_CONFLICT", decision(decisionRow(seq)));
      await refuse(backend, "DECISION_CONFLICT", decision(decisionRow(3, { thread: "u" })));
      await refuse(backend, "DECISION_CONFLICT", decision(decisionRow(3)), decision(decisionRow(3)));
      assert.deepEqual(await rows.collect(backend.decisions({})), [decisionRow(1), decisionRow(2)]);
      await accept(backend, decision(decisionRow(3)));
    },
  },
  {
    name: "a decision and the wait it decides are stored together or not at all",
    async run({ backend }) {
      const answered = (rev: number) => wait(waitRow("w", { status: "answered", rev, decision: rev }), rev - 1);
      await accept(backend, wait(waitRow("w"), null), checkpoint("1"));
      await accept(backend, decision(decisionRow(1)), answered(1));
      const stored = async () => [await rows.waitsOf(backend), await decisionsOf(backend, "t")];
      assert.deepEqual(await stored(), [["w answered 1"], ["1"]]);
      const late = checkpoint("2", { heads: ["0"] });
      await refuse(backend, "WAIT_CONFLICT", decision(decisionRow(2)), answered(1));
      await refuse(backend, "WAIT_CONFLICT", answered(1), decision(decisionRow(2)));
      await refuse(backend, "DECISION_CONFLICT", answered(2), decision(decisionRow(1)));
      await refuse(backend, "DECISION_CONFLICT", decision(decisionRow(1)), answered(2));
      await refuse(backend, "HEAD_MOVED", decision(decisionRow(2)), answered(2), rows.endWait("w"), late);
      await refuse(backend, "HEAD_MOVED", late, decision(decisionRow(2)), answered(2));
      assert.deepEqual(await stored(), [["w answered 1"], ["1"]]);
    },
  },
  {
    name: "of two decisions in one group that take the same place the first one stands",
    async run({ backend }) {
      const verdicts = await rows.codes(backend, [
        [decision(decisionRow(1, { wait: "a" })), wait(waitRow("a"), null)],
        [decision(decisionRow(1, { wait: "b" })), wait(waitRow("b"), null)],
        [decision(decisionRow(1, { wait: "c", thread: "u" }))],
        [decision(decisionRow(2, { wait: "d" }))],
      ]);
      assert.deepEqual(verdicts, ["accepted", "DECISION_CONFLICT", "accepted", "accepted"]);
      assert.deepEqual(await rows.waitIds(backend), ["a"]);
      const found = await rows.collect(backend.decisions({}));
      assert.deepEqual(
        found.map((row) => row.wait),
        ["a", "d", "c"],
      );
    },
  },
  {
    name: "long chains and many of them come in the order of (thread, place), threads by code points",
    async run({ backend }) {
      const uuid = "0f8fad5b-d9cb-469f-a165-70867728950e";
      const threads = ["", "0", uuid, "0z", "T", "t", "t\u0000", "tt", "\uffff", "😀"];
      const opposite = [...threads].reverse();
      await accept(backend, ...opposite.map((thread) => decision(decisionRow(1, { thread }))), checkpoint("1"));
      await accept(backend, ...Array.from({ length: 249 }, (_, at) => decision(decisionRow(at + 2))));
      const chain = Array.from({ length: 250 }, (_, at) => `${at + 1}`);
      assert.deepEqual(await decisionsOf(backend, "t"), chain);
      assert.deepEqual(
        await decisionsOf(backend),
        threads.flatMap((thread) => (thread === "t" ? chain.map((seq) => `t ${seq}`) : [`${thread} 1`])),
      );
    },
  },
  {
    name: "a reader of decisions that stops early hinders nobody, and one that is slow misses none that were there",
    async run({ backend }) {
      await accept(backend, ...Array.from({ length: 150 }, (_, at) => decision(decisionRow(at + 1))));
      for await (const row of backend.decisions({})) if (row.seq === 3) break;
      const seen: number[] = [];
      for await (const row of backend.decisions({ thread: "t" })) {
        seen.push(row.seq);
        if (row.seq % 50 === 0) await accept(backend, checkpoint(`${row.seq}`));
      }
      assert.deepEqual(
        seen,
        Array.from({ length: 150 }, (_, at) => at + 1),
      );
    },
  },
];
