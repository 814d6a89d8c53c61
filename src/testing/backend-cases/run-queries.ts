/** Finding runs: every filter, the order, and pages. */

import assert from "node:assert/strict";
import type { Backend, RunQuery } from "../../backend.ts";
import { RUN_MOVES, type RunRow, type RunStatus } from "../../model.ts";
import type { BackendCase } from "../backend-case.ts";
import * as rows from "../backend-rows.ts";

const { accept, move, moved, run, runIds, runRow } = rows;

const STATUSES = Object.keys(RUN_MOVES) as RunStatus[];
/** Of which a thread may have any number. */
const MANY = STATUSES.filter((status) => status !== "running");

const start = (backend: Backend, ...started: RunRow[]) => accept(backend, ...started.map((row) => run(row, null)));

/** All pages of a query, each of at most `size`. */
async function pages(backend: Backend, query: RunQuery, size: number): Promise<string[][]> {
  const found: string[][] = [];
  for (let after = query.after; ; ) {
    const page = await backend.runs({ ...query, after, limit: size });
    found.push(page.map((row) => row.id));
    assert.ok(found.length < 100, "each page comes after the one before it");
    const last = page.at(-1);
    if (last === undefined || page.length < size) return found;
    after = { createdAt: last.createdAt, id: last.id };
  }
}

export const runQueryCases: readonly BackendCase[] = [
  {
    name: "runs come by (createdAt, id), ids in the order of code points, whatever order they were started in",
    async run({ backend }) {
      // UTF-16 units would put the emoji before "\uffff"; UUIDs, hex digits and words are no different kinds of ids.
      const uuid = "0f8fad5b-d9cb-469f-a165-70867728950e";
      const sameTime = ["", "0", "0".repeat(32), uuid, "A", "a", "a\u0000", "ab", "f".repeat(32), "\uffff", "😀"];
      const inOrder = ["00", ...sameTime, "-"];
      const shuffled = [...sameTime.slice(5).reverse(), ...sameTime.slice(0, 5)];
      await start(backend, runRow("-", { createdAt: 1001 }), ...shuffled.map((id) => runRow(id)));
      await start(backend, runRow("00", { createdAt: -5, thread: "u" }));
      assert.deepEqual(await runIds(backend), inOrder);
      assert.deepEqual(await runIds(backend, { status: ["queued"] }), inOrder);
      assert.deepEqual(await runIds(backend, { thread: "t" }), inOrder.slice(1));
      assert.deepEqual(await runIds(backend, { thread: "t", status: ["queued"] }), inOrder.slice(1));
    },
  },
  {
    name: "runs of several statuses are in one order over all of them",
    async run({ backend }) {
      // The ids of a later moment come before those of an earlier one.
      const all = Array.from({ length: 42 }, (_, at) => {
        const status = MANY[(at * 5 + (at >> 2)) % MANY.length] ?? "queued";
        const moment = at >> 1;
        return runRow(`${99 - moment} ${at % 2}`, { createdAt: moment, thread: at % 3 ? "t" : "u", status });
      });
      await start(backend, runRow("x", { createdAt: 100, status: "running", thread: "v" }), ...[...all].reverse());
      all.push(runRow("x", { createdAt: 100, status: "running", thread: "v" }));
      for (const thread of [undefined, "t", "u"]) {
        for (let mask = 0; mask < 256; mask += 11) {
          const status = STATUSES.filter((_, at) => mask & (1 << at));
          const expected = all.filter((row) => status.includes(row.status) && row.thread === (thread ?? row.thread));
          const ids = expected.map((row) => row.id);
          assert.deepEqual(await runIds(backend, { thread, status }), ids);
          assert.deepEqual(await runIds(backend, { thread, status: [...status, ...status].reverse() }), ids);
          if (mask % 2 === 0) assert.deepEqual((await pages(backend, { thread, status }, 5)).flat(), ids);
        }
        assert.deepEqual(await runIds(backend, { thread }), await runIds(backend, { thread, status: STATUSES }));
      }
    },
  },
  {
    name: "a page of runs continues after the place where the last one ended, also within one moment",
    async run({ backend }) {
      const expected = Array.from({ length: 25 }, (_, at) => `r${`${at}`.padStart(2, "0")}`);
      const row = (id: string, at: number) => runRow(id, { createdAt: at < 3 ? 1000 : at < 20 ? 1001 : 1000 + at });
      await start(backend, ...expected.map(row).reverse());
      await start(backend, runRow("r10b", { thread: "u", createdAt: 1001 }));
      for (const query of [
        { thread: "t" },
        { thread: "t", status: ["queued"] },
        { status: ["queued"], graph: "g" },
      ] as const) {
        const all = "thread" in query ? expected : [...expected.slice(0, 11), "r10b", ...expected.slice(11)];
        for (const size of [1, 4, 5, 100]) {
          const found = await pages(backend, query, size);
          assert.deepEqual(found.flat(), all);
          assert.ok(
            found.slice(0, -1).every((page) => page.length === size),
            "each page but the last one is full",
          );
        }
        const after = { createdAt: 1001, id: "r10" };
        assert.deepEqual(await runIds(backend, { ...query, after, limit: 2 }), all.slice(11, 13));
        assert.deepEqual(await runIds(backend, { ...query, after: { createdAt: 1000.5, id: "" } }), all.slice(3));
        assert.deepEqual(await runIds(backend, { ...query, after: { createdAt: 1001, id: "r15x" } }), all.slice(-9));
        assert.deepEqual(await runIds(backend, { ...query, after: { createdAt: 9999, id: "" } }), []);
        assert.deepEqual(await runIds(backend, { ...query, limit: 0 }), []);
      }
      await accept(backend, move(row("r10", 10), "cancelled"));
      const afterEnded = { status: ["queued"], after: { createdAt: 1001, id: "r10" }, limit: 2 } as const;
      assert.deepEqual(await runIds(backend, afterEnded), ["r10b", "r11"]);
    },
  },
  {
    name: "every filter of runs is exact, and several of them must all match",
    async run({ backend }) {
      await start(
        backend,
        runRow("3", { graph: "h", status: "running", worker: "w", key: "K" }),
        runRow("4", { thread: "u", status: "running", worker: "W", owner: "" }),
        runRow("1"),
        runRow("2", { thread: "u", graph: "G", owner: "o", key: "k" }),
        runRow("5", { thread: "t2", graph: "h", status: "waiting", owner: "o", key: "" }),
        runRow("6", { thread: "t2", status: "succeeded", owner: "O" }),
      );
      const found: [query: RunQuery, ids: string][] = [
        [{}, "1 2 3 4 5 6"],
        [{ id: "3" }, "3"],
        [{ id: "33" }, ""],
        [{ id: "3", thread: "t" }, "3"],
        [{ id: "3", thread: "u" }, ""],
        [{ id: "3", status: ["queued", "running"] }, "3"],
        [{ id: "3", status: ["queued"] }, ""],
        [{ id: "3", graph: "g" }, ""],
        [{ id: "3", key: "K" }, "3"],
        [{ id: "3", key: "k" }, ""],
        [{ id: "3", after: { createdAt: 1000, id: "2" } }, "3"],
        [{ id: "3", after: { createdAt: 1000, id: "3" } }, ""],
        [{ id: "3", limit: 0 }, ""],
        [{ key: "k" }, "2"],
        [{ key: "K" }, "3"],
        [{ key: "" }, "5"],
        [{ key: "other" }, ""],
        [{ key: "k", thread: "u" }, "2"],
        [{ key: "k", thread: "t" }, ""],
        [{ key: "k", status: ["waiting"] }, ""],
        [{ key: "k", owner: "O" }, ""],
        [{ key: "k", after: { createdAt: 1000, id: "2" } }, ""],
        [{ key: "k", limit: 0 }, ""],
        [{ thread: "t" }, "1 3"],
        [{ thread: "T" }, ""],
        [{ thread: "" }, ""],
        [{ status: ["running"] }, "3 4"],
        [{ status: ["waiting", "succeeded", "waiting"] }, "5 6"],
        [{ status: [] }, ""],
        [{ thread: "t", status: [] }, ""],
        [{ graph: "h" }, "3 5"],
        [{ graph: "G" }, "2"],
        [{ graph: "" }, ""],
        [{ owner: "o" }, "2 5"],
        [{ owner: "" }, "4"],
        [{ worker: "w" }, "3"],
        [{ worker: "" }, ""],
        [{ worker: "W", status: ["running"], thread: "u" }, "4"],
        [{ owner: "o", status: ["waiting"], graph: "h", thread: "t2", key: "", id: "5" }, "5"],
        [{ owner: "o", status: ["waiting"], graph: "g", thread: "t2" }, ""],
        [{ owner: "o", limit: 1 }, "2"],
        [{ graph: "h", after: { createdAt: 1000, id: "3" }, limit: 1 }, "5"],
      ];
      for (const [query, ids] of found) {
        assert.equal((await runIds(backend, query)).join(" "), ids, JSON.stringify(query));
      }
    },
  },
  {
    name: "a run that changes is found by the new values only",
    async run({ backend }) {
      const own = runRow("r", { owner: "o", key: "k" });
      await start(backend, own, runRow("s", { createdAt: 1001 }));
      await accept(backend, move(own, "running", { owner: "p", graph: "h" }));
      for (const query of [{ status: ["queued"], thread: "t" }, { graph: "g" }, { owner: "o" }] as const) {
        assert.ok(!(await runIds(backend, query)).includes("r"), JSON.stringify(query));
      }
      assert.deepEqual(await runIds(backend, { owner: "p", graph: "h", worker: "worker 1", key: "k" }), ["r"]);
      await accept(backend, move(moved(own, "running"), "failed"));
      assert.deepEqual(await runIds(backend, { worker: "worker 1" }), []);
      assert.deepEqual(await runIds(backend, { status: ["running"] }), []);
      assert.deepEqual(await runIds(backend, { status: ["failed"], thread: "t" }), ["r"]);
      assert.deepEqual(await runIds(backend), ["r", "s"]);
    },
  },
];
