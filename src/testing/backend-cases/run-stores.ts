/** What holds for every kind of row, for runs: ids are data, a deletion takes all, several openers, closing and opening again. */

import assert from "node:assert/strict";
import type { Backend } from "../../backend.ts";
import type { RunRow } from "../../model.ts";
import type { BackendCase, OpenedBackend } from "../backend-case.ts";
import * as rows from "../backend-rows.ts";
import { awkward } from "./ids.ts";

const { accept, checkpoint, codes, deleteThread, fence, move, moved, refuse, rejectsWith, run, runRow } = rows;

const start = (backend: Backend, ...started: RunRow[]) => accept(backend, ...started.map((row) => run(row, null)));

async function withSecond(opened: OpenedBackend, use: (other: Backend) => Promise<void>): Promise<void> {
  assert.ok(opened.second, "a backend for many processes must be openable twice");
  const other = await opened.second();
  try {
    await use(other);
  } finally {
    await other.close();
  }
}

export const runStoreCases: readonly BackendCase[] = [
  {
    name: "runs' ids, keys and all that they are found by may have any characters and 3,000 of them",
    async run({ backend }) {
      const made = awkward.map((id, at) =>
        runRow(id, { ...{ thread: id, graph: id, key: id, owner: id, worker: id, createdAt: at, due: at } }),
      );
      await start(backend, ...made);
      assert.deepEqual(await backend.runs({}), made);
      assert.deepEqual(await backend.dueRuns({ dueBy: 1e6, limit: 1000 }), made);
      for (const [at, row] of made.entries()) {
        const { id } = row;
        for (const field of ["id", "key", "thread", "graph", "owner", "worker"] as const) {
          assert.deepEqual(await backend.runs({ [field]: id }), [row], `${field} ${JSON.stringify(id)}`);
        }
        assert.deepEqual(await backend.dueRuns({ dueBy: 1e6, graphs: [id], limit: 9 }), [row]);
        assert.equal(await backend.nextDue({ graphs: [id] }), at);
        await refuse(backend, "RUN_CONFLICT", run(runRow("another", { key: id }), null));
        await accept(backend, move(row, "running"), fence(id, 1, { thread: id }));
      }
      assert.deepEqual(await rows.runIds(backend, { status: ["running"] }), awkward);
    },
  },
  {
    name: "a deleted thread leaves no run, and the ids and keys of its runs are free again",
    async run({ backend }) {
      const [own, ended] = [runRow("own", { key: "k" }), runRow("ended", { key: "l", status: "succeeded" })];
      await start(backend, own, ended);
      await accept(backend, move(own, "running"), deleteThread("t"));
      for (const query of [{}, { thread: "t" }, { id: "own" }, { key: "k" }, { status: ["running"] }] as const) {
        assert.deepEqual(await backend.runs(query), []);
      }
      assert.deepEqual([await rows.dueIds(backend), await backend.nextDue({})], [[], undefined]);
      await start(backend, runRow("own", { thread: "u", key: "l" }), runRow("new", { thread: "u", key: "k" }));
      await refuse(backend, "RUN_CONFLICT", run(runRow("own"), null, 1));
      await accept(backend, run(runRow("ended", { status: "running", epoch: 1 }), null, 1));
      assert.deepEqual(await rows.runsOf(backend), ["ended running 0"]);
      assert.deepEqual(await rows.dueIds(backend), ["new"]);
    },
  },
  {
    name: "a worker's fence is refused when its thread was deleted, and so is every change of its run",
    async run({ backend }) {
      const own = runRow("r");
      await start(backend, own);
      await accept(backend, move(own, "running"));
      await accept(backend, fence("r", 1));
      await accept(backend, deleteThread("t"));
      // In the era that it knows, and in the new one.
      await refuse(backend, "THREAD_DELETED", fence("r", 1));
      await refuse(backend, "THREAD_DELETED", checkpoint("1", { era: 1 }), fence("r", 1));
      await refuse(backend, "RUN_LOST", fence("r", 1, { era: 1 }), checkpoint("1", { era: 1 }));
      await refuse(backend, "THREAD_DELETED", move(moved(own, "running"), "succeeded"));
      await refuse(backend, "RUN_CONFLICT", move(moved(own, "running"), "succeeded", {}, 1));
      for (const era of [0, 2]) await refuse(backend, "THREAD_DELETED", run(runRow("new"), null, era));
      assert.deepEqual([await backend.runs({}), await rows.headOf(backend)], [[], undefined]);
      await accept(backend, run(own, null, 1), move(own, "running", {}, 1), fence("r", 1, { era: 1 }));
    },
  },
  {
    name: "a deletion of a thread and runs before and after it may stand in one commit",
    async run({ backend }) {
      const [a, b] = [runRow("a", { key: "k" }), runRow("b", { key: "l" })];
      await start(backend, a);
      await accept(
        backend,
        ...[move(a, "running"), run(b, null), fence("a", 1), deleteThread("t")],
        ...[run(runRow("a", { key: "l" }), null, 1), run(runRow("c", { thread: "u", key: "k" }), null)],
        ...[move(runRow("a", { key: "l" }), "running", {}, 1), fence("a", 1, { era: 1 })],
      );
      assert.deepEqual(await rows.runIds(backend), ["a", "c"]);
      assert.deepEqual(await rows.runIds(backend, { key: "l" }), ["a"]);
      await refuse(backend, "RUN_LOST", deleteThread("t"), fence("a", 1, { era: 2 }));
      await refuse(backend, "RUN_CONFLICT", deleteThread("t"), run(runRow("d", { thread: "u", key: "k" }), null));
      assert.deepEqual(await rows.runsOf(backend), ["a running 1"]);
      await accept(backend, deleteThread("t"), run(runRow("d", { thread: "u", key: "l" }), null));
      assert.deepEqual(await rows.runIds(backend), ["c", "d"]);
    },
  },
  {
    name: "a deletion touches the runs of no other thread, however similar its id",
    async run({ backend }) {
      const deleted = "t_1%";
      const others = ["t", "t_", "t_1", "t_1%%", "t_1% ", " t_1%", "T_1%", "tx1%", "t_1x", "t_1%:sub", "t_1*", "", "*"];
      const own = (thread: string) => runRow(`run of ${thread}`, { thread, key: `key of ${thread}` });
      await start(backend, ...[deleted, ...others].map(own));
      await accept(backend, deleteThread(deleted));
      assert.equal((await backend.runs({})).length, others.length);
      for (const thread of others) {
        assert.deepEqual(await backend.runs({ thread }), [own(thread)]);
        await refuse(backend, "RUN_CONFLICT", run(runRow("x", { key: `key of ${thread}` }), null));
      }
    },
  },
  {
    name: "each of two openers sees the runs of the other one, is judged by them, and loses what the other takes over",
    needs: "second",
    run: (opened) =>
      withSecond(opened, async (other) => {
        const { backend } = opened;
        const own = runRow("r", { key: "k" });
        await start(backend, own);
        assert.deepEqual([await other.runs({ key: "k" }), await rows.dueIds(other)], [[own], ["r"]]);
        assert.equal(await other.nextDue({}), 1000);
        await refuse(other, "RUN_CONFLICT", run(runRow("s", { key: "k" }), null));
        const mine = moved(own, "running", { worker: backend.owner });
        await accept(backend, run(mine, 0));
        await accept(backend, fence("r", 1), checkpoint("1"));
        assert.deepEqual([await other.runs({ key: "k" }), await rows.dueIds(other)], [[mine], []]);
        assert.deepEqual(
          [await rows.runIds(other, { worker: backend.owner }), await other.nextDue({})],
          [["r"], undefined],
        );
        const taken = moved(mine, "running", { worker: other.owner });
        await accept(other, run(taken, 1));
        await refuse(backend, "RUN_LOST", fence("r", 1), checkpoint("2"));
        await refuse(backend, "RUN_CONFLICT", run(moved(mine, "succeeded"), 1));
        await accept(other, fence("r", 2), checkpoint("2"));
        await accept(backend, run(runRow("s", { createdAt: 2000 }), null));
        await refuse(backend, "RUN_CONFLICT", move(runRow("s", { createdAt: 2000 }), "running"));
        await accept(other, run(moved(taken, "succeeded"), 2));
        assert.deepEqual(await rows.dueIds(backend), ["s"]);
        await accept(backend, move(runRow("s", { createdAt: 2000 }), "running"));
        await accept(other, deleteThread("t"));
        await refuse(backend, "RUN_LOST", fence("s", 1, { era: 1 }));
      }),
  },
  ...(["id", "key", "claim", "takeover"] as const).map(
    (what): BackendCase => ({
      name: `of two openers that take one run at the same time, by ${what}, exactly one wins`,
      needs: "second",
      run: (opened) =>
        withSecond(opened, async (other) => {
          const { backend } = opened;
          for (let at = 0; at < 20; at++) {
            const queued = runRow(`${at}`, { thread: `${at}` });
            const taken = moved(queued, "running", { worker: "dead" });
            if (what === "claim") await start(backend, queued);
            if (what === "takeover") await accept(backend, run(queued, null), run(taken, 0));
            const change = (name: string) => {
              if (what === "id") return run(runRow(`${at}`, { thread: name, owner: name }), null);
              if (what === "key")
                return run(runRow(`${at} ${name}`, { thread: name, owner: name, key: `${at}` }), null);
              const from = what === "claim" ? queued : taken;
              return run(moved(from, "running", { worker: name, owner: name }), from.rev);
            };
            const race = (by: Backend, name: string) =>
              codes(by, [[change(name), checkpoint(`${at}`, { thread: name })]]);
            const verdicts = (await Promise.all([race(backend, "a"), race(other, "b")])).flat();
            assert.deepEqual([...verdicts].sort(), ["RUN_CONFLICT", "accepted"], verdicts.join());
            const [winner, loser] = verdicts[0] === "accepted" ? ["a", "b"] : ["b", "a"];
            const owners = async (by: Backend) => [
              (await by.runs(what === "key" ? { key: `${at}` } : { id: `${at}` })).map((row) => row.owner),
              [await rows.headOf(by, winner), (await rows.headOf(by, loser)) === `${at}`],
            ];
            const expected = [[winner], [`${at}`, false]];
            assert.deepEqual([await owners(backend), await owners(other)], [expected, expected]);
          }
        }),
    }),
  ),
  {
    name: "every run that was acknowledged is there after closing and opening again, and is judged by",
    needs: "reopen",
    async run({ backend, reopen }) {
      const everything = async (from: Backend) => ({
        runs: await from.runs({}),
        due: await from.dueRuns({ dueBy: 1e6, limit: 100 }),
        next: await from.nextDue({}),
        found: [
          await from.runs({ key: "k" }),
          await from.runs({ status: ["running"] }),
          await from.runs({ thread: "u" }),
        ],
      });
      const fields = { key: "k", owner: "o", priority: -3, createdAt: 1.5, due: 2.5, body: 'json/1 "\\n😀"' };
      const [own, first, second] = [runRow("own", fields), runRow("1", { thread: "u" }), runRow("2", { thread: "u" })];
      await start(backend, own, first, second, runRow("gone", { thread: "gone", key: "g" }));
      await accept(backend, move(own, "running"), move(second, "cancelled"), deleteThread("gone"));
      await accept(backend, run(runRow("retry", { status: "retrying", due: 9, thread: "v" }), null));
      const before = await everything(backend);
      await backend.close();
      const again = (await reopen?.()) ?? backend;
      assert.deepEqual(await everything(again), before);
      await accept(again, fence("own", 1), checkpoint("1"));
      await refuse(again, "RUN_LOST", fence("own", 2));
      await refuse(again, "RUN_CONFLICT", run(runRow("x", { key: "k" }), null));
      await refuse(again, "RUN_CONFLICT", run(runRow("x", { status: "running" }), null));
      await refuse(again, "RUN_CONFLICT", move(own, "cancelled"));
      await accept(again, move(moved(own, "running"), "succeeded"), move(first, "running"));
      await accept(again, run(runRow("gone", { thread: "gone", key: "g" }), null, 1));
    },
  },
  {
    name: "a closed backend answers nothing about runs: CLOSED",
    async run({ backend }) {
      await backend.close();
      await rejectsWith("CLOSED", backend.runs({}));
      await rejectsWith("CLOSED", backend.dueRuns({ dueBy: 0, limit: 1 }));
      await rejectsWith("CLOSED", backend.nextDue({}));
      await rejectsWith("CLOSED", (async () => backend.now())());
    },
  },
];
