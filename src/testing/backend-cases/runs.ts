/** Runs: started once, moved as the table of moves says, one at a time in a thread and in order, and fences. */

import assert from "node:assert/strict";
import type { Backend, Op } from "../../backend.ts";
import { isEnded, RUN_MOVES, type RunRow, type RunStatus } from "../../model.ts";
import type { BackendCase } from "../backend-case.ts";
import * as rows from "../backend-rows.ts";

const { accept, checkpoint, fence, move, moved, refusal, refuse, run, runRow } = rows;

const STATUSES = Object.keys(RUN_MOVES) as RunStatus[];

/** Differs from {@link runRow} in every field that may be left out, and in some that may not. */
const full: Partial<RunRow> = {
  ...{ graph: "orders", worker: "0f8fad5b-d9cb-469f-a165-70867728950e", due: 1500.5, priority: -7, key: "a:b|😀" },
  ...{ owner: "acme", createdAt: 999.5, epoch: 2 ** 40, body: 'json/1 "\\u0000😀"' },
};

const start = (backend: Backend, ...started: RunRow[]) => accept(backend, ...started.map((row) => run(row, null)));

const stored = async (backend: Backend, id: string): Promise<RunRow> => {
  const [row] = await backend.runs({ id });
  assert.ok(row, `run ${id} is there`);
  return row;
};

export const runCases: readonly BackendCase[] = [
  {
    name: "a run is read back as it was stored, with every field, and a change replaces it",
    async run({ backend }) {
      const first = runRow("r", full);
      await start(backend, first, runRow("plain", { thread: "u" }));
      assert.deepEqual(await backend.runs({ id: "r" }), [first]);
      assert.deepEqual(await backend.runs({ id: "plain" }), [runRow("plain", { thread: "u" })]);
      const changes: Partial<RunRow>[] = [
        { status: "running", epoch: 1, worker: "owner-1", due: undefined, body: rows.encoded("new") },
        { status: "running", epoch: 2, worker: "owner-2", priority: 2 ** 40 },
        { status: "retrying", worker: undefined, due: 0, graph: "other", owner: undefined },
        { status: "parked", due: undefined, owner: "ann" },
        { status: "queued", due: -1.5, priority: 0 },
      ];
      for (const change of changes) {
        const old = await stored(backend, "r");
        const next = { ...old, ...change, rev: old.rev + 1 };
        await accept(backend, run(next, old.rev));
        assert.deepEqual(await backend.runs({ id: "r" }), [next]);
      }
      assert.deepEqual(await backend.runs({ id: "plain" }), [runRow("plain", { thread: "u" })]);
    },
  },
  {
    name: "a run is started once: a second one under its id or its key is refused with RUN_CONFLICT, which names the first",
    async run({ backend }) {
      const first = runRow("r", { key: "k" });
      await start(backend, first, runRow("plain"));
      const again = async (row: RunRow, id: string) => {
        const { details } = await refusal(backend, "RUN_CONFLICT", checkpoint("1"), run(row, null));
        assert.deepEqual([details["id"], details["key"], details["stored"]], [row.id, row.key, id]);
      };
      for (const thread of ["t", "u"]) {
        await again(runRow("r", { thread }), "r");
        await again(runRow("r", { thread, key: "another" }), "r");
        await again(runRow("s", { thread, key: "k" }), "r");
        await again(runRow("plain", { thread, key: "k" }), "plain");
      }
      await accept(backend, move(first, "cancelled"));
      await again(runRow("s", { key: "k" }), "r");
      assert.deepEqual(await rows.runIds(backend), ["plain", "r"]);
      assert.equal(await rows.headOf(backend), undefined);
      await start(backend, runRow("s", { key: "K" }), runRow("u", { key: "k " }), runRow("no key"));
    },
  },
  {
    name: "a run is changed only from the revision that is stored, and only in its thread: RUN_CONFLICT",
    async run({ backend }) {
      const first = runRow("r");
      await refuse(backend, "RUN_CONFLICT", run(moved(first, "running"), 0));
      await start(backend, first);
      await refuse(backend, "RUN_CONFLICT", run({ ...moved(first, "running"), rev: 2 }, 1));
      await refuse(backend, "RUN_CONFLICT", run(moved({ ...first, thread: "u" }, "running"), 0));
      await accept(backend, move(first, "running"));
      await refuse(backend, "RUN_CONFLICT", run(moved(first, "cancelled"), 0));
      await refuse(backend, "RUN_CONFLICT", run({ ...moved(first, "succeeded"), rev: 3 }, 2), checkpoint("1"));
      await refuse(backend, "RUN_CONFLICT", checkpoint("1"), run({ ...moved(first, "succeeded"), rev: 0 }, -1));
      assert.deepEqual(await backend.runs({}), [moved(first, "running")]);
      assert.equal(await rows.headOf(backend), undefined);
    },
  },
  {
    name: "a run moves as RUN_MOVES says and no other way: RUN_CONFLICT with both statuses",
    async run({ backend }) {
      for (const from of STATUSES) {
        for (const to of STATUSES) {
          const thread = `${from} ${to}`;
          const old = runRow(thread, { thread, status: from });
          await start(backend, old);
          if (RUN_MOVES[from].includes(to)) {
            await accept(backend, move(old, to));
            assert.deepEqual(await backend.runs({ thread }), [moved(old, to)]);
            continue;
          }
          const { details, message } = await refusal(backend, "RUN_CONFLICT", move(old, to));
          assert.deepEqual([details["id"], details["from"], details["to"]], [thread, from, to]);
          assert.ok(message.includes(from) && message.includes(to), message);
          assert.deepEqual(await backend.runs({ thread }), [old]);
        }
      }
    },
  },
  {
    name: "a run keeps its key and the moment of its start: a change of either is refused with RUN_CONFLICT",
    async run({ backend }) {
      const keyed = runRow("keyed", { key: "k" });
      const plain = runRow("plain", { thread: "u" });
      await start(backend, keyed, plain, runRow("other", { key: "other", thread: "v" }));
      for (const [row, change] of [
        [keyed, { key: "new" }],
        [keyed, { key: undefined }],
        [keyed, { key: "other" }],
        [plain, { key: "new" }],
        [plain, { key: "k" }],
        [plain, { createdAt: 999 }],
        [keyed, { createdAt: 1000.5 }],
      ] as const) {
        await refuse(backend, "RUN_CONFLICT", move(row, "running", change));
      }
      assert.deepEqual(await backend.runs({ id: "keyed" }), [keyed]);
      assert.deepEqual(await rows.runIds(backend, { key: "k" }), ["keyed"]);
      await accept(backend, move(keyed, "running"), move(plain, "running"));
    },
  },
  {
    name: "of the runs of a thread one at most is running, and those of other threads are in nobody's way",
    async run({ backend }) {
      const [a, b, other] = [runRow("a"), runRow("b"), runRow("c", { thread: "u" })];
      await start(backend, a, b, other);
      await accept(backend, move(a, "running"), move(other, "running"));
      const { details } = await refusal(backend, "RUN_CONFLICT", move(b, "running"));
      assert.deepEqual([details["id"], details["ahead"], details["status"]], ["b", "a", "running"]);
      // Before it in the order, and started as running.
      const first = runRow("0", { createdAt: 1 });
      await start(backend, first);
      await refuse(backend, "RUN_CONFLICT", move(first, "running"));
      await refuse(backend, "RUN_CONFLICT", run(runRow("now", { status: "running", epoch: 1 }), null));
      await refuse(backend, "RUN_CONFLICT", run(runRow("", { status: "running", epoch: 1, createdAt: 0 }), null));
      await accept(backend, run(runRow("now", { status: "running", epoch: 1, thread: "v" }), null));
      // Handed back, it waits for the one that came in before it.
      await accept(backend, move(moved(a, "running"), "queued"));
      await refuse(backend, "RUN_CONFLICT", move(moved(moved(a, "running"), "queued"), "running"));
      await accept(backend, move(first, "running"));
    },
  },
  {
    name: "a run begins when every run before it in its thread, by (createdAt, id), has ended, and not before",
    async run({ backend }) {
      const last = runRow("a", { createdAt: 1001 });
      for (const status of STATUSES.filter((one) => one !== "running")) {
        const thread = `after ${status}`;
        const [own, before] = [
          runRow(status, { ...last, id: status, thread }),
          runRow(`b ${status}`, { thread, status }),
        ];
        await start(backend, own, before, runRow(`later ${status}`, { thread, createdAt: 1001, id: `z ${status}` }));
        if (isEnded(status)) await accept(backend, move(own, "running"));
        else {
          const { details } = await refusal(backend, "RUN_CONFLICT", move(own, "running"));
          assert.deepEqual([details["ahead"], details["status"]], [before.id, status]);
        }
      }
      // UTF-16 units would put the emoji before "\uffff".
      const [first, second, third] = ["", "\uffff", "😀"].map((id) => runRow(id, { thread: "order" }));
      assert.ok(first && second && third);
      await start(backend, third, second, first);
      const ahead = async (row: RunRow) =>
        (await refusal(backend, "RUN_CONFLICT", move(row, "running"))).details["ahead"];
      assert.equal(await ahead(second), first.id);
      await accept(backend, move(first, "cancelled"));
      assert.equal(await ahead(third), second.id);
      await accept(backend, move(second, "cancelled"), move(third, "running"));
    },
  },
  {
    name: "a run that is running is taken over even where another one has come in before it since",
    async run({ backend }) {
      const own = runRow("b");
      await start(backend, own);
      await accept(backend, move(own, "running"), run(runRow("a", { createdAt: 1 }), null));
      const again = moved(moved(own, "running"), "running", { worker: "worker 2" });
      await accept(backend, run(again, 1));
      assert.deepEqual(await stored(backend, "b"), again);
      await refuse(backend, "RUN_CONFLICT", move(runRow("a", { createdAt: 1 }), "running"));
      await accept(backend, move(again, "succeeded"), move(runRow("a", { createdAt: 1 }), "running"));
    },
  },
  {
    name: "a fence lets its commit pass while its run is running in exactly that epoch, and stores nothing",
    async run({ backend }) {
      const own = runRow("r");
      await start(backend, own);
      await accept(backend, move(own, "running"));
      const before = await backend.runs({});
      await accept(backend, fence("r", 1));
      await accept(backend, fence("r", 1), checkpoint("1"), fence("r", 1));
      assert.deepEqual(await backend.runs({}), before);
      assert.equal(await rows.headOf(backend), "1");
      await accept(
        backend,
        fence("r", 1),
        move(moved(own, "running"), "running", { worker: "worker 2" }),
        fence("r", 2),
      );
      await accept(backend, fence("r", 2), checkpoint("2"));
      assert.equal(await rows.headOf(backend), "2");
    },
  },
  {
    name: "a fence refuses its whole commit with RUN_LOST, wherever it stands, unless its run is running in that epoch",
    async run({ backend }) {
      await start(backend, runRow("own", { thread: "own", status: "running", epoch: 2 }));
      await start(
        backend,
        runRow("never"),
        ...STATUSES.map((status) => runRow(status, { thread: status, status, epoch: 2 })),
      );
      const refused: Op[] = [
        ...[1, 3, 0, -2, 2.5].map((epoch) => fence("own", epoch, { thread: "own" })),
        ...[fence("own", 2), fence("other", 2, { thread: "own" }), fence("", 2), fence("never", 0)],
        ...STATUSES.filter((status) => status !== "running").map((status) => fence(status, 2, { thread: status })),
      ];
      const others = [checkpoint("1"), run(runRow("new"), null), rows.wait(rows.waitRow("w"), null)];
      for (const op of refused) {
        for (let at = 0; at <= others.length; at++) {
          await refuse(backend, "RUN_LOST", ...others.slice(0, at), op, ...others.slice(at));
        }
      }
      assert.equal(await rows.headOf(backend), undefined);
      assert.deepEqual([await backend.runs({ id: "new" }), await backend.waits({})], [[], []]);
      const { details } = await refusal(backend, "RUN_LOST", fence("own", 1, { thread: "own" }));
      assert.deepEqual([details["run"], details["epoch"], details["found"]], ["own", 1, 2]);
      await accept(backend, fence("own", 2, { thread: "own" }), ...others);
    },
  },
  {
    name: "each operation on runs is judged on what the ones before it left, in one commit as in one group",
    async run({ backend }) {
      const a = runRow("a", { key: "k" });
      const done = moved(moved(a, "running"), "succeeded");
      await accept(backend, run(a, null), move(a, "running"), fence("a", 1), move(moved(a, "running"), "succeeded"));
      await refuse(backend, "RUN_LOST", fence("a", 1));
      const [b, c] = [runRow("b", { key: "l" }), runRow("c")];
      const verdicts = await rows.codes(backend, [
        [run(b, null), run(c, null)],
        [run(runRow("b", { thread: "u" }), null)],
        [run(runRow("d", { key: "l" }), null)],
        [run(runRow("d", { key: "k" }), null)],
        [move(c, "running")],
        [move(b, "running"), checkpoint("lost"), move(c, "running")],
        [move(b, "running"), checkpoint("kept")],
        [move(b, "running")],
        [fence("b", 1), move(moved(b, "running"), "succeeded"), move(c, "running"), fence("c", 1)],
        [fence("b", 1), checkpoint("late")],
        [move(done, "queued")],
      ]);
      assert.deepEqual(verdicts, [
        ...["accepted", "RUN_CONFLICT", "RUN_CONFLICT", "RUN_CONFLICT", "RUN_CONFLICT", "RUN_CONFLICT"],
        ...["accepted", "RUN_CONFLICT", "accepted", "RUN_LOST", "RUN_CONFLICT"],
      ]);
      assert.deepEqual(await rows.runsOf(backend), ["a succeeded 2", "b succeeded 2", "c running 1"]);
      assert.deepEqual(await rows.ids(backend.checkpoints({})), ["kept"]);
    },
  },
  {
    name: "a refused commit leaves no run, and no change of one, wherever the refused operation stands",
    async run({ backend }) {
      const [a, b] = [runRow("a", { key: "k" }), runRow("b", { thread: "u", status: "running", epoch: 1 })];
      await start(backend, a, b);
      const refused = checkpoint("2", { heads: ["1"] });
      const ops = [run(runRow("c", { key: "l" }), null), move(a, "running"), fence("a", 1), move(b, "failed")];
      for (let at = 0; at <= ops.length; at++) {
        await refuse(backend, "HEAD_MOVED", ...ops.slice(0, at), refused, ...ops.slice(at));
        assert.deepEqual(await backend.runs({}), [a, b]);
        assert.deepEqual(await backend.runs({ key: "l" }), []);
        assert.deepEqual(await rows.dueIds(backend), ["a"]);
        assert.deepEqual(await rows.runIds(backend, { status: ["running"] }), ["b"]);
      }
      await accept(backend, ...ops);
    },
  },
  {
    name: "what a run was given and what became of it may be megabytes",
    async run({ backend }) {
      const own = runRow("r", { body: rows.encoded("é😀".repeat(500_000)) });
      await start(backend, own);
      const same = (row: RunRow | undefined) => assert.ok(row?.body === own.body, "the same text");
      same((await backend.runs({ id: "r" }))[0]);
      same((await backend.dueRuns({ dueBy: 1000, limit: 1 }))[0]);
      await accept(backend, move(own, "running"));
      same((await backend.runs({ thread: "t" }))[0]);
    },
  },
];
