/** Effects: changed only from the revision that the writer has seen; found by key, by thread and by name and input. */

import assert from "node:assert/strict";
import type { BackendCase } from "../backend-case.ts";
import * as rows from "../backend-rows.ts";

const { accept, effect, effectRow, refuse } = rows;

export const effectCases: readonly BackendCase[] = [
  {
    name: "an effect is read back as it was stored, with every field, and a change replaces it",
    async run({ backend }) {
      const first = effectRow("k", { ns: "sub:1|x", ordinal: 3, owner: "o-1", body: 'json/1 "\\u0000😀"' });
      await accept(backend, effect(first, null));
      assert.deepEqual(await backend.effects({ key: "k" }), [first]);
      for (const status of ["failed", "not-executed", "given-up", "done"] as const) {
        const [stored] = await backend.effects({ key: "k" });
        assert.ok(stored);
        const next = { ...stored, status, rev: stored.rev + 1, attempt: stored.attempt + 1, owner: `o ${status}` };
        await accept(backend, effect({ ...next, body: rows.encoded(status) }, stored.rev));
        assert.deepEqual(await backend.effects({ key: "k" }), [{ ...next, body: rows.encoded(status) }]);
      }
    },
  },
  {
    name: "an effect that exists is not begun a second time: EFFECT_CONFLICT",
    async run({ backend }) {
      await accept(backend, effect(effectRow("k"), null));
      await refuse(backend, "EFFECT_CONFLICT", effect(effectRow("other"), null), effect(effectRow("k"), null));
      assert.deepEqual(await backend.effects({ key: "k" }), [effectRow("k")]);
      assert.deepEqual(await backend.effects({ key: "other" }), []);
    },
  },
  {
    name: "an effect is changed only from the revision that is stored: EFFECT_CONFLICT",
    async run({ backend }) {
      await refuse(backend, "EFFECT_CONFLICT", effect(effectRow("k", { rev: 1 }), 0));
      await accept(backend, effect(effectRow("k"), null));
      await accept(backend, effect(effectRow("k", { rev: 1, status: "done" }), 0));
      await refuse(backend, "EFFECT_CONFLICT", effect(effectRow("k", { rev: 1, status: "failed" }), 0));
      await refuse(backend, "EFFECT_CONFLICT", effect(effectRow("k", { rev: 3 }), 2));
      assert.deepEqual(await backend.effects({ key: "k" }), [effectRow("k", { rev: 1, status: "done" })]);
    },
  },
  {
    name: "effects are found by key, by thread, by task, and by name and input, each exactly",
    async run({ backend }) {
      await accept(
        backend,
        effect(effectRow("k1"), null),
        effect(effectRow("k2", { task: "b" }), null),
        effect(effectRow("k3", { name: "mail" }), null),
        effect(effectRow("k4", { digest: "d2", status: "done" }), null),
        effect(effectRow("k5", { thread: "u" }), null),
        effect(effectRow("k6", { ordinal: -1, task: "ab" }), null),
      );
      const found = async (query: Parameters<typeof backend.effects>[0]) =>
        (await backend.effects(query)).map((row) => row.key).sort();
      assert.deepEqual(await found({ key: "k3" }), ["k3"]);
      assert.deepEqual(await found({ key: "k" }), []);
      assert.deepEqual(await found({ thread: "t" }), ["k1", "k2", "k3", "k4", "k6"]);
      assert.deepEqual(await found({ thread: "t", task: "a" }), ["k1", "k3", "k4"]);
      assert.deepEqual(await found({ thread: "t", task: "A" }), []);
      assert.deepEqual(await found({ thread: "t", name: "charge", digest: "d1" }), ["k1", "k2", "k6"]);
      assert.deepEqual(await found({ thread: "u", name: "charge", digest: "d2" }), []);
      assert.deepEqual(await found({ thread: "v" }), []);
      assert.deepEqual(await found({ thread: "" }), []);
    },
  },
  {
    name: "an effect that changes what it is found by is found by the new values only",
    async run({ backend }) {
      await accept(backend, effect(effectRow("k", { ordinal: -1 }), null));
      const moved = effectRow("k", { ordinal: -1, rev: 1, thread: "u", task: "b", name: "mail", digest: "d2" });
      await accept(backend, effect(moved, 0));
      assert.deepEqual(await backend.effects({ thread: "t" }), []);
      assert.deepEqual(await backend.effects({ thread: "u", task: "b" }), [moved]);
      assert.deepEqual(await backend.effects({ thread: "u", name: "mail", digest: "d2" }), [moved]);
      assert.deepEqual(await backend.effects({ thread: "u", name: "charge", digest: "d1" }), []);
    },
  },
];
