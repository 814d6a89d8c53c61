/** What a worker asks for: the runs it may claim, when the next one is due, and what time it is. */

import assert from "node:assert/strict";
import type { Backend } from "../../backend.ts";
import { RUN_MOVES, type RunRow, type RunStatus } from "../../model.ts";
import type { BackendCase } from "../backend-case.ts";
import * as rows from "../backend-rows.ts";

const { accept, dueIds, move, moved, run, runRow } = rows;

const STATUSES = Object.keys(RUN_MOVES) as RunStatus[];

const start = (backend: Backend, ...started: RunRow[]) => accept(backend, ...started.map((row) => run(row, null)));

/** A run with a thread of its own. */
const alone = (id: string, fields: Partial<RunRow> = {}) => runRow(id, { thread: `thread of ${id}`, ...fields });

export const dueRunCases: readonly BackendCase[] = [
  {
    name: "due runs come by priority, the higher first, then by (due, id), ids in the order of code points",
    async run({ backend }) {
      const inOrder = [
        alone("z", { priority: 2 ** 40, due: 9 }),
        alone("y", { priority: 10, due: 9 }),
        alone("x", { priority: 9, due: 2 }),
        ...["", "A", "a", "\uffff", "😀"].map((id) => alone(id, { due: 3 })),
        alone("b", { due: 3.5, createdAt: 1, graph: "another" }),
        alone("0", { due: 10, status: "retrying" }),
        alone("w", { priority: -1, due: -8, createdAt: 1 }),
        alone("v", { priority: -2, due: -9 }),
      ];
      await start(backend, ...inOrder.slice(5).reverse(), ...inOrder.slice(0, 5));
      const ids = inOrder.map((row) => row.id);
      assert.deepEqual(await backend.dueRuns({ dueBy: 10, limit: 100 }), inOrder);
      for (const limit of [0, 1, 2, 3, 5, 8, 9, 11, 12]) {
        assert.deepEqual(await dueIds(backend, { limit }), ids.slice(0, limit));
        assert.deepEqual(await dueIds(backend, { limit, graphs: ["g", "another"] }), ids.slice(0, limit));
      }
    },
  },
  {
    name: "due are queued and retrying runs whose moment has come, to the very moment, and no others",
    async run({ backend }) {
      await start(
        backend,
        ...STATUSES.map((status) => alone(status, { status, due: 5 })),
        ...STATUSES.map((status) => alone(`${status} never`, { status, due: undefined })),
        alone("later", { due: 6 }),
        alone("half", { due: 4.5, status: "retrying", priority: -1 }),
        alone("before 1970", { due: -1 }),
      );
      assert.deepEqual(await dueIds(backend, { dueBy: -2 }), []);
      assert.deepEqual(await dueIds(backend, { dueBy: -1 }), ["before 1970"]);
      assert.deepEqual(await dueIds(backend, { dueBy: 4.5 }), ["before 1970", "half"]);
      assert.deepEqual(await dueIds(backend, { dueBy: 5 }), ["before 1970", "queued", "retrying", "half"]);
      assert.deepEqual(await dueIds(backend), ["before 1970", "queued", "retrying", "later", "half"]);
    },
  },
  {
    name: "due is only the first run of its thread that has not ended, whatever the priority of those behind it",
    async run({ backend }) {
      for (const status of STATUSES) {
        const thread = `after ${status}`;
        // Due later than all the others: that keeps them back too.
        await start(backend, runRow(`1 ${status}`, { thread, status, due: 9000 }));
        await start(backend, runRow(`2 ${status}`, { thread, createdAt: 1001, priority: 5 }));
        await start(backend, runRow(`0 ${status}`, { thread, createdAt: 1001.5, due: 1, priority: 9 }));
      }
      assert.deepEqual(await dueIds(backend, { dueBy: 1000 }), ["2 cancelled", "2 failed", "2 succeeded"]);
      assert.deepEqual(await dueIds(backend, { dueBy: 1000, limit: 2 }), ["2 cancelled", "2 failed"]);
      assert.deepEqual((await dueIds(backend)).slice(3), ["1 queued", "1 retrying"]);
      // UTF-16 units would put the emoji before "\uffff".
      await start(backend, ...["😀", "\uffff"].map((id) => runRow(id, { thread: "order", priority: 99 })));
      assert.deepEqual(await dueIds(backend, { dueBy: 1000, limit: 1 }), ["\uffff"]);
    },
  },
  {
    name: "a run is due no more when it is claimed or cancelled, and the next one of its thread when it has ended",
    async run({ backend }) {
      const [a, b, c] = [runRow("a"), runRow("b"), runRow("c")];
      await start(backend, a, b, c);
      const due = async (...ids: string[]) => assert.deepEqual(await dueIds(backend), ids);
      await due("a");
      await accept(backend, move(a, "running"));
      await due();
      await accept(backend, move(moved(a, "running"), "retrying", { due: 2000 }));
      await due("a");
      assert.deepEqual(await dueIds(backend, { dueBy: 1999 }), []);
      await accept(backend, move(moved(moved(a, "running"), "retrying"), "running", { epoch: 2 }));
      await accept(backend, move(b, "cancelled"));
      await due();
      await accept(backend, run({ ...moved(a, "waiting"), rev: 4, epoch: 2 }, 3));
      await due();
      await accept(backend, run({ ...moved(a, "parked"), rev: 5, epoch: 2 }, 4));
      await due();
      await accept(backend, run({ ...moved(a, "cancelled"), rev: 6, epoch: 2 }, 5));
      await due("c");
    },
  },
  {
    name: "while a run of its thread is running nothing of the thread is due, not even what has come in before it",
    async run({ backend }) {
      const own = runRow("b");
      await start(backend, own);
      await accept(backend, move(own, "running"), run(runRow("a"), null), run(alone("c"), null));
      assert.deepEqual(await dueIds(backend), ["c"]);
      await accept(backend, move(moved(own, "running"), "queued"));
      assert.deepEqual(await dueIds(backend), ["a", "c"]);
    },
  },
  {
    name: "whatever is due is accepted as running, and of what has not ended nothing else is",
    async run({ backend }) {
      const started = Array.from({ length: 48 }, (_, at) => {
        const status = STATUSES[(at * 7 + (at >> 3)) % 8] ?? "queued";
        return runRow(`${at}`, { thread: `${at % 16}`, status, createdAt: 1000 + ((at * 5) % 3) });
      });
      // Some threads have a running run already; the others of the same kind are refused.
      await backend.commit(started.map((row) => [run(row, null)]));
      const due = new Set(await dueIds(backend));
      assert.ok(due.size > 2, "some are due");
      const stored = await backend.runs({ status: ["queued", "retrying"] });
      const verdicts: string[] = [];
      for (const row of stored) {
        const [verdict] = await rows.codes(backend, [
          [move(row, "running"), rows.checkpoint("1", { heads: ["none"] })],
        ]);
        verdicts.push(verdict === "HEAD_MOVED" ? row.id : "");
      }
      assert.deepEqual(new Set(verdicts.filter(Boolean)), due);
    },
  },
  {
    name: "a worker is offered the runs of its graphs only, and none where it has none",
    async run({ backend }) {
      await start(backend, alone("1", { graph: "a" }), alone("2", { graph: "b" }), alone("3", { graph: "A" }));
      await start(backend, alone("4", { graph: "" }), alone("5", { graph: "a b" }), alone("6", { graph: "a" }));
      assert.deepEqual(await dueIds(backend), ["1", "2", "3", "4", "5", "6"]);
      assert.deepEqual(await dueIds(backend, { graphs: ["a"] }), ["1", "6"]);
      assert.deepEqual(await dueIds(backend, { graphs: ["b", "a", "b"] }), ["1", "2", "6"]);
      assert.deepEqual(await dueIds(backend, { graphs: [""] }), ["4"]);
      assert.deepEqual(await dueIds(backend, { graphs: ["other", "A"], limit: 5 }), ["3"]);
      assert.deepEqual(await dueIds(backend, { graphs: ["a", "b", "A"], limit: 2 }), ["1", "2"]);
      assert.deepEqual(await dueIds(backend, { graphs: ["a", "A"], limit: 3 }), ["1", "3", "6"]);
      for (const graphs of [[], ["other"]]) assert.deepEqual(await dueIds(backend, { graphs }), []);
      // What another graph's run holds up in the thread is held up for everybody.
      await start(backend, runRow("7", { thread: "thread of 2", graph: "a", createdAt: 2000 }));
      assert.deepEqual(await dueIds(backend, { graphs: ["a"] }), ["1", "6"]);
    },
  },
  {
    name: "the next due moment is the earliest of queued and retrying runs, first in their thread or not, of the graphs asked for",
    async run({ backend }) {
      assert.equal(await backend.nextDue({}), undefined);
      const [a, b, c] = [
        runRow("a", { due: 9000 }),
        runRow("b", { due: 500.5, priority: -5 }),
        alone("c", { due: 700, status: "retrying", graph: "h", priority: 5 }),
      ];
      await start(backend, ...STATUSES.slice(4).map((status) => alone(status, { status, due: 1 })));
      await start(backend, alone("never", { due: undefined }), alone("w", { status: "waiting", due: 1 }));
      assert.equal(await backend.nextDue({}), undefined);
      await start(backend, a);
      assert.equal(await backend.nextDue({}), 9000);
      await start(backend, b, c);
      assert.equal(await backend.nextDue({}), 500.5);
      assert.equal(await backend.nextDue({ graphs: ["h", "other"] }), 700);
      assert.equal(await backend.nextDue({ graphs: ["h", "g"] }), 500.5);
      for (const graphs of [[], ["other"], ["G"]]) assert.equal(await backend.nextDue({ graphs }), undefined);
      await accept(backend, move(b, "cancelled"), move(c, "running"));
      assert.equal(await backend.nextDue({}), 9000);
      await accept(backend, move(moved(c, "running"), "retrying", { due: -3 }));
      assert.equal(await backend.nextDue({ graphs: undefined }), -3);
    },
  },
  {
    name: "the clock gives milliseconds since 1970, and goes on",
    async run({ backend }) {
      const first = await backend.now();
      // The clock of a server may be another one; it counts the same.
      assert.ok(Math.abs(first - Date.now()) < 86_400_000, `${first} is milliseconds since 1970`);
      let last = first;
      while (last <= first) {
        await new Promise((resolve) => setImmediate(resolve));
        last = await backend.now();
      }
      assert.ok(last - first < 60_000, "and no faster than time itself");
    },
  },
  {
    name: "thousands of runs that wait, have ended or are due later are in nobody's way",
    async run({ backend }) {
      const others = (["waiting", "parked", "succeeded", "queued"] as const).flatMap((status) =>
        Array.from({ length: 500 }, (_, at) => alone(`${status} ${at}`, { status, due: 5000, priority: 3 })),
      );
      await start(backend, ...others);
      await start(backend, alone("due"), alone("first", { priority: 1 }));
      assert.deepEqual(await dueIds(backend, { dueBy: 4999 }), ["first", "due"]);
      assert.deepEqual(await dueIds(backend, { dueBy: 4999, limit: 1 }), ["first"]);
      assert.equal(await backend.nextDue({}), 1000);
      assert.equal((await dueIds(backend, { dueBy: 5000, limit: 2000 })).length, 502);
    },
  },
];
