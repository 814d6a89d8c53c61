/** Finding waits: every filter, the order, and pages. */

import assert from "node:assert/strict";
import type { Backend, WaitQuery } from "../../backend.ts";
import type { WaitRow } from "../../model.ts";
import type { BackendCase } from "../backend-case.ts";
import * as rows from "../backend-rows.ts";

const { accept, endWait, wait, waitIds, waitRow } = rows;

const open = (backend: Backend, ...opened: WaitRow[]) => accept(backend, ...opened.map((row) => wait(row, null)));

/** All pages of a query, each of at most `size`. */
async function pages(backend: Backend, query: WaitQuery, size: number): Promise<string[][]> {
  const found: string[][] = [];
  for (let after = query.after; ; ) {
    const page = await backend.waits({ ...query, after, limit: size });
    found.push(page.map((row) => row.id));
    assert.ok(found.length < 100, "each page comes after the one before it");
    const last = page.at(-1);
    if (last === undefined || page.length < size) return found;
    after = { openedAt: last.openedAt, id: last.id };
  }
}

export const waitQueryCases: readonly BackendCase[] = [
  {
    name: "waits come by (openedAt, id), ids in the order of code points, whatever order they were opened in",
    async run({ backend }) {
      // UTF-16 units would put the emoji before "\uffff"; UUIDs, hex digits and words are no different kinds of ids.
      const uuid = "0f8fad5b-d9cb-469f-a165-70867728950e";
      const sameTime = ["", "0", uuid, "0".repeat(32), "A", "a", "a\u0000", "ab", "f".repeat(32), "\uffff", "😀"];
      const inOrder = ["00", ...sameTime.slice(0, 2), "0".repeat(32), uuid, ...sameTime.slice(4), "-"];
      const shuffled = [...sameTime.slice(5).reverse(), ...sameTime.slice(0, 5)];
      await open(backend, waitRow("-", { openedAt: 1001 }), ...shuffled.map((id) => waitRow(id)));
      await open(backend, waitRow("00", { openedAt: -5, thread: "u" }));
      assert.deepEqual(await waitIds(backend), inOrder);
      assert.deepEqual(await waitIds(backend, { status: ["open"] }), inOrder);
      assert.deepEqual(await waitIds(backend, { thread: "t" }), inOrder.slice(1));
      assert.deepEqual(await waitIds(backend, { thread: "t", status: ["open"] }), inOrder.slice(1));
    },
  },
  {
    name: "waits of several statuses are in one order over all of them",
    async run({ backend }) {
      const statuses = ["open", "answered", "consumed", "superseded"] as const;
      // Two of each moment; the ids of a later moment come before those of an earlier one.
      const all = Array.from({ length: 24 }, (_, at) => {
        const status = statuses[(at * 7 + (at >> 2)) % 4] ?? "open";
        const moment = at >> 1;
        return waitRow(`${99 - moment} ${at % 2}`, { openedAt: moment, thread: at % 3 ? "t" : "u", status });
      });
      await open(backend, ...[...all].reverse());
      for (const thread of [undefined, "t", "u"]) {
        for (let mask = 0; mask < 16; mask++) {
          const status = statuses.filter((_, at) => mask & (1 << at));
          const expected = all.filter((row) => status.includes(row.status) && row.thread === (thread ?? row.thread));
          const ids = expected.map((row) => row.id);
          assert.deepEqual(await waitIds(backend, { thread, status }), ids);
          assert.deepEqual(await waitIds(backend, { thread, status: [...status, ...status].reverse() }), ids);
          assert.deepEqual((await pages(backend, { thread, status }, 5)).flat(), ids);
        }
        assert.deepEqual(await waitIds(backend, { thread }), await waitIds(backend, { thread, status: statuses }));
      }
    },
  },
  {
    name: "a page continues after the place where the last one ended, also within one moment and after what is gone",
    async run({ backend }) {
      const expected = Array.from({ length: 25 }, (_, at) => `w${`${at}`.padStart(2, "0")}`);
      const row = (id: string, at: number) => waitRow(id, { openedAt: at < 3 ? 1000 : at < 20 ? 1001 : 1000 + at });
      await open(backend, ...expected.map(row).reverse());
      await open(backend, waitRow("w10b", { thread: "u", openedAt: 1001 }));
      for (const query of [
        { thread: "t" },
        { thread: "t", status: ["open"] },
        { status: ["open"], task: "a" },
      ] as const) {
        const all = "thread" in query ? expected : [...expected.slice(0, 11), "w10b", ...expected.slice(11)];
        for (const size of [1, 4, 5, 100]) {
          const found = await pages(backend, query, size);
          assert.deepEqual(found.flat(), all);
          assert.ok(
            found.slice(0, -1).every((page) => page.length === size),
            "each page but the last one is full",
          );
        }
        const after = { openedAt: 1001, id: "w10" };
        assert.deepEqual(await waitIds(backend, { ...query, after, limit: 2 }), all.slice(11, 13));
        assert.deepEqual(await waitIds(backend, { ...query, after: { openedAt: 1000.5, id: "" } }), all.slice(3));
        assert.deepEqual(await waitIds(backend, { ...query, after: { openedAt: 1001, id: "w15x" } }), all.slice(-9));
        assert.deepEqual(await waitIds(backend, { ...query, after: { openedAt: 9999, id: "" } }), []);
        assert.deepEqual(await waitIds(backend, { ...query, limit: 0 }), []);
      }
      await accept(backend, endWait("w10"));
      const afterEnded = { status: ["open"], after: { openedAt: 1001, id: "w10" }, limit: 2 } as const;
      assert.deepEqual(await waitIds(backend, afterEnded), ["w10b", "w11"]);
    },
  },
  {
    name: "every filter of waits is exact, and several of them must all match",
    async run({ backend }) {
      await open(
        backend,
        waitRow("1"),
        waitRow("2", { thread: "u", graph: "g", owner: "o" }),
        waitRow("3", { task: "b", kind: "event", assignee: "ann" }),
        waitRow("4", { name: "Refund", kind: "timer", graph: "G", status: "answered" }),
        waitRow("5", { thread: "t2", task: "aa", kind: "settle", owner: "o", assignee: "ann", status: "consumed" }),
        waitRow("6", { ns: "sub", kind: "interrupt", graph: "g", owner: "", status: "superseded" }),
      );
      const found: [query: WaitQuery, ids: string][] = [
        [{}, "1 2 3 4 5 6"],
        [{ id: "3" }, "3"],
        [{ id: "33" }, ""],
        [{ id: "3", thread: "t" }, "3"],
        [{ id: "3", thread: "u" }, ""],
        [{ id: "3", status: ["answered", "open"] }, "3"],
        [{ id: "3", status: ["answered"] }, ""],
        [{ id: "3", task: "a" }, ""],
        [{ id: "3", after: { openedAt: 1000, id: "2" } }, "3"],
        [{ id: "3", after: { openedAt: 1000, id: "3" } }, ""],
        [{ id: "3", limit: 0 }, ""],
        [{ thread: "t" }, "1 3 4 6"],
        [{ thread: "T" }, ""],
        [{ thread: "" }, ""],
        [{ task: "a" }, "1 2 4 6"],
        [{ thread: "t", task: "b" }, "3"],
        [{ status: ["open"] }, "1 2 3"],
        [{ status: [] }, ""],
        [{ thread: "t", status: [] }, ""],
        [{ kind: ["question"] }, "1 2"],
        [{ kind: ["timer", "event", "timer"] }, "3 4"],
        [{ kind: [] }, ""],
        [{ name: "refund" }, "1 2 3 5 6"],
        [{ name: "Refund" }, "4"],
        [{ graph: "g" }, "2 6"],
        [{ graph: "G" }, "4"],
        [{ assignee: "ann" }, "3 5"],
        [{ assignee: "ann", thread: "t2" }, "5"],
        [{ owner: "o" }, "2 5"],
        [{ owner: "" }, "6"],
        [{ owner: "o", status: ["open"], graph: "g", thread: "u", kind: ["question"], name: "refund", task: "a" }, "2"],
        [{ owner: "o", status: ["open"], graph: "g", thread: "u", kind: ["question"], name: "other", task: "a" }, ""],
        [{ owner: "o", status: ["open", "consumed"], limit: 1 }, "2"],
        [{ task: "a", after: { openedAt: 1000, id: "2" }, limit: 1 }, "4"],
      ];
      for (const [query, ids] of found) {
        assert.equal((await waitIds(backend, query)).join(" "), ids, JSON.stringify(query));
      }
    },
  },
  {
    name: "what is due by a moment is found in the order of all waits, and what is never due is not among it",
    async run({ backend }) {
      await open(
        backend,
        waitRow("1", { due: 3000, openedAt: 1003 }),
        waitRow("2", { due: 2000, openedAt: 1002 }),
        waitRow("3"),
        waitRow("4", { due: 2001, openedAt: 1001, owner: "o", thread: "u" }),
        waitRow("5", { due: 1000, openedAt: 1000, status: "answered" }),
        waitRow("6", { due: -1, openedAt: 2000, kind: "timer" }),
        waitRow("7", { due: 0, openedAt: 2001 }),
      );
      const due = (dueBy: number, query: WaitQuery = {}) => waitIds(backend, { dueBy, ...query });
      const onlyOpen = { status: ["open"] } as const;
      assert.deepEqual(await due(1e15), ["5", "4", "2", "1", "6", "7"]);
      assert.deepEqual(await due(1e15, onlyOpen), ["4", "2", "1", "6", "7"]);
      assert.deepEqual(await due(2000, onlyOpen), ["2", "6", "7"]);
      assert.deepEqual(await due(2000), ["5", "2", "6", "7"]);
      assert.deepEqual(await due(0, onlyOpen), ["6", "7"]);
      assert.deepEqual(await due(-2, onlyOpen), []);
      assert.deepEqual(await due(2001, { ...onlyOpen, limit: 2 }), ["4", "2"]);
      assert.deepEqual(await due(3000, { ...onlyOpen, after: { openedAt: 1002, id: "2" } }), ["1", "6", "7"]);
      assert.deepEqual(await due(3000, { ...onlyOpen, thread: "t" }), ["2", "1", "6", "7"]);
      assert.deepEqual(await due(3000, { ...onlyOpen, owner: "o" }), ["4"]);
      assert.deepEqual(await due(3000, { ...onlyOpen, kind: ["timer"] }), ["6"]);
      assert.deepEqual(await due(3000, { id: "4" }), ["4"]);
      assert.deepEqual(await due(2000, { id: "4" }), []);
      const later = waitRow("6", { due: 5000, openedAt: 2000, kind: "timer", rev: 1 });
      await accept(backend, wait(later, 0), endWait("7"));
      assert.deepEqual(await due(4000, onlyOpen), ["4", "2", "1"]);
      assert.deepEqual(await due(5000, onlyOpen), ["4", "2", "1", "6"]);
    },
  },
  {
    name: "a wait whose status, time or name changes is found by the new values only",
    async run({ backend }) {
      await open(backend, waitRow("w", { due: 10, owner: "o" }), waitRow("x", { openedAt: 1001 }));
      await accept(backend, wait(waitRow("w", { rev: 1, status: "answered", openedAt: 1002, name: "new" }), 0));
      assert.deepEqual(await waitIds(backend), ["x", "w"]);
      for (const query of [
        { status: ["open"], thread: "t" },
        { name: "refund" },
        { dueBy: 99, status: ["open"] },
      ] as const) {
        assert.ok(!(await waitIds(backend, query)).includes("w"));
      }
      assert.deepEqual(await waitIds(backend, { owner: "o" }), []);
      assert.deepEqual(await waitIds(backend, { status: ["answered"], name: "new" }), ["w"]);
      await accept(backend, endWait("w"));
      assert.deepEqual(await waitIds(backend, { status: ["answered"] }), []);
      assert.deepEqual(await waitIds(backend, { status: ["consumed"], thread: "t" }), ["w"]);
    },
  },
];
