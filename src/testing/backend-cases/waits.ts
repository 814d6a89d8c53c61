/** Waits: opened once, changed only from the revision that the writer has seen, ended when their task goes on. */

import assert from "node:assert/strict";
import type { WaitRow } from "../../model.ts";
import type { BackendCase } from "../backend-case.ts";
import * as rows from "../backend-rows.ts";

const { accept, checkpoint, endWait, refuse, wait, waitRow } = rows;

/** Differs from {@link waitRow} in every field that may be left out, and in some that may not. */
const full: Partial<WaitRow> = {
  ...{ ns: "sub:1|x", kind: "event", name: "paid", due: 1500, graph: "orders", assignee: "ann", owner: "acme" },
  ...{ decision: 3, holder: "owner-1", body: 'json/1 "\\u0000😀"' },
};

export const waitCases: readonly BackendCase[] = [
  {
    name: "a wait is read back as it was stored, with every field, and a change replaces it",
    async run({ backend }) {
      const first = waitRow("w", full);
      await accept(backend, wait(first, null), wait(waitRow("plain"), null));
      assert.deepEqual(await backend.waits({ id: "w" }), [first]);
      assert.deepEqual(await backend.waits({ id: "plain" }), [waitRow("plain")]);
      const changes: Partial<WaitRow>[] = [
        { status: "answered", decision: 1, holder: undefined },
        { status: "open", due: undefined, assignee: "bob", owner: undefined },
        { digest: "d2", name: "paid twice", openedAt: 1001.5, due: 0, graph: undefined, kind: "timer" },
        { status: "superseded", ns: "", checkpoint: "2", task: "b", body: rows.encoded("new") },
      ];
      for (const change of changes) {
        const [stored] = await backend.waits({ id: "w" });
        assert.ok(stored);
        const next = { ...stored, ...change, rev: stored.rev + 1 };
        await accept(backend, wait(next, stored.rev));
        assert.deepEqual(await backend.waits({ id: "w" }), [next]);
      }
      assert.deepEqual(await backend.waits({ id: "plain" }), [waitRow("plain")]);
    },
  },
  {
    name: "a wait opened again in its thread stays as it is, whatever has become of it, and refuses nothing",
    async run({ backend }) {
      await accept(backend, wait(waitRow("w"), null), wait(waitRow("w", { name: "again" }), null), checkpoint("1"));
      assert.deepEqual(await backend.waits({}), [waitRow("w")]);
      for (const status of ["answered", "consumed", "superseded"] as const) {
        const [stored] = await backend.waits({ id: "w" });
        assert.ok(stored);
        const next = { ...stored, status, rev: stored.rev + 1 };
        await accept(backend, wait(next, stored.rev));
        await accept(backend, wait(waitRow("w"), null), checkpoint(status));
        assert.deepEqual(await backend.waits({}), [next]);
        assert.equal(await rows.headOf(backend), status);
      }
    },
  },
  {
    name: "a wait under the id of another thread's is refused with WAIT_CONFLICT",
    async run({ backend }) {
      await accept(backend, wait(waitRow("w"), null));
      const other = { thread: "u" };
      await refuse(backend, "WAIT_CONFLICT", checkpoint("1", other), wait(waitRow("w", other), null));
      await refuse(backend, "WAIT_CONFLICT", wait(waitRow("w", { ...other, rev: 1 }), 0));
      assert.deepEqual(await backend.waits({}), [waitRow("w")]);
      assert.equal(await rows.headOf(backend, "u"), undefined);
    },
  },
  {
    name: "a wait is changed only from the revision that is stored: WAIT_CONFLICT",
    async run({ backend }) {
      const answered = waitRow("w", { rev: 1, status: "answered" });
      await refuse(backend, "WAIT_CONFLICT", wait(answered, 0));
      await accept(backend, wait(waitRow("w"), null));
      await refuse(backend, "WAIT_CONFLICT", wait(waitRow("w", { rev: 2, status: "answered" }), 1));
      await accept(backend, wait(answered, 0));
      await refuse(backend, "WAIT_CONFLICT", wait(waitRow("w", { rev: 1, status: "superseded" }), 0));
      await refuse(backend, "WAIT_CONFLICT", wait(waitRow("w", { rev: 3 }), 2), checkpoint("1"));
      assert.deepEqual(await backend.waits({}), [answered]);
      assert.equal(await rows.headOf(backend), undefined);
    },
  },
  {
    name: "an ended wait is consumed where it was answered and superseded where it was open; no other is touched",
    async run({ backend }) {
      const before = (["open", "answered", "consumed", "superseded"] as const).map((status, at) =>
        waitRow(status, { ...full, status, rev: at }),
      );
      const bystanders = [waitRow("other"), waitRow("other thread", { thread: "u" })];
      await accept(backend, ...[...before, ...bystanders].map((row) => wait(row, null)));
      for (let times = 0; times < 2; times++) {
        await accept(backend, ...before.map(({ id }) => endWait(id)), endWait("unknown"), endWait("other thread"));
        const ended = { holder: undefined };
        assert.deepEqual(await rows.waitsOf(backend), [
          ...["answered consumed 2", "consumed consumed 2", "open superseded 1", "other open 0"],
          "superseded superseded 3",
        ]);
        assert.deepEqual(await backend.waits({ id: "answered" }), [
          waitRow("answered", { ...full, ...ended, status: "consumed", rev: 2 }),
        ]);
        assert.deepEqual(await backend.waits({ id: "open" }), [
          waitRow("open", { ...full, ...ended, status: "superseded", rev: 1 }),
        ]);
        assert.deepEqual(await backend.waits({ id: "superseded" }), [before[3]]);
        assert.deepEqual(await rows.waitsOf(backend, "u"), ["other thread open 0"]);
      }
      await refuse(backend, "WAIT_CONFLICT", wait(waitRow("answered", { rev: 2 }), 1));
    },
  },
  {
    name: "each operation on a wait is judged on what the ones before it left, in one commit as in one group",
    async run({ backend }) {
      const answered = (id: string) => waitRow(id, { status: "answered", rev: 1 });
      await accept(backend, wait(waitRow("a"), null), wait(answered("a"), 0), endWait("a"), endWait("a"));
      await accept(backend, wait(waitRow("b"), null), endWait("b"), wait(waitRow("b"), null));
      const verdicts = await rows.codes(backend, [
        [wait(waitRow("c"), null)],
        [wait(waitRow("c", { thread: "u" }), null)],
        [wait(answered("c"), 0)],
        [wait(answered("c"), 0)],
        [endWait("c")],
        [endWait("c"), wait(waitRow("d"), null), wait(waitRow("d", { rev: 2 }), 1)],
        [wait(waitRow("d", { thread: "u" }), null)],
      ]);
      assert.deepEqual(verdicts, [
        ...["accepted", "WAIT_CONFLICT", "accepted", "WAIT_CONFLICT", "accepted", "WAIT_CONFLICT", "accepted"],
      ]);
      assert.deepEqual(await rows.waitsOf(backend), ["a consumed 2", "b superseded 1", "c consumed 2"]);
      assert.deepEqual(await rows.waitsOf(backend, "u"), ["d open 0"]);
    },
  },
  {
    name: "a load of the root namespace has the thread's waits that are open or answered, whatever checkpoint it asks for",
    async run({ backend }) {
      await accept(backend, checkpoint("1"), checkpoint("2"), checkpoint("1", { ns: "sub" }));
      await accept(backend, wait(waitRow("other thread", { thread: "u" }), null));
      const active = async (ns = "", id?: string) =>
        (await backend.load("t", ns, id)).waits.map((row) => `${row.id} ${row.status}`).sort();
      assert.deepEqual(await active(), []);
      const opened = [waitRow("open", full), waitRow("below", { ns: "sub" }), waitRow("answered"), waitRow("over")];
      await accept(backend, ...opened.map((row) => wait(row, null)));
      await accept(backend, wait(waitRow("answered", { status: "answered", rev: 1 }), 0), endWait("over"));
      const expected = ["answered answered", "below open", "open open"];
      for (const id of [undefined, "1", "2", "unknown"]) assert.deepEqual(await active("", id), expected);
      for (const ns of ["sub", "unknown"]) assert.deepEqual(await active(ns), []);
      const { waits } = await backend.load("t", "", undefined);
      assert.deepEqual(
        waits.find((row) => row.id === "open"),
        waitRow("open", full),
      );
      await accept(backend, endWait("answered"), endWait("open"));
      assert.deepEqual(await active(), ["below open"]);
      assert.equal((await backend.load("u", "", undefined)).waits.length, 1);
      assert.deepEqual((await backend.load("v", "", undefined)).waits, []);
    },
  },
  {
    name: "a load sees the head and the waits of one commit, never the one without the other",
    async run({ backend }) {
      const step = (at: number) =>
        rows.codes(backend, [
          [
            checkpoint(`${at}`),
            wait(waitRow(`${at}`, { checkpoint: `${at}` }), null),
            endWait(`${at - 1}`),
            rows.decision(rows.decisionRow(at)),
          ],
        ]);
      for (let at = 1; at <= 20; at++) {
        const load = () => backend.load("t", "", undefined);
        // Before, while and after the commit is made.
        const before = load();
        const commit = step(at);
        for (const { head, waits } of await Promise.all([before, load(), load()])) {
          assert.deepEqual(
            waits.map((row) => row.id),
            head === undefined ? [] : [head],
          );
        }
        assert.deepEqual(await commit, ["accepted"]);
      }
    },
  },
  {
    name: "what is shown in a wait and what decides it may be megabytes",
    async run({ backend }) {
      const body = rows.encoded("é😀".repeat(500_000));
      await accept(backend, wait(waitRow("w", { body }), null), rows.decision(rows.decisionRow(1, { body })));
      const same = (row: { readonly body: string } | undefined) => assert.ok(row?.body === body, "the same text");
      same((await backend.waits({ id: "w" }))[0]);
      same((await backend.load("t", "", undefined)).waits[0]);
      same(await backend.decision("t", 1));
      for await (const row of backend.decisions({ thread: "t" })) same(row);
    },
  },
];
