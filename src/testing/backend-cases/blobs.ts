/** Blobs: kept unit by unit and byte by byte, once per thread. */

import assert from "node:assert/strict";
import type { BackendCase } from "../backend-case.ts";
import * as rows from "../backend-rows.ts";

const { accept, blob } = rows;

export const blobCases: readonly BackendCase[] = [
  {
    name: "text and bytes come back as they were stored, each as its kind",
    async run({ backend }) {
      const stored: Record<string, string | Uint8Array> = {
        empty: "",
        nul: "a\u0000b\u0000",
        quotes: `'"\`\\ ; -- %s $1 ? :x`,
        lines: "a\r\nb\nc\u2028d\u2029\n",
        emoji: "😀 𝒳 e\u0301 \uffff \ufeff",
        json: '{"kind":"blob"}\n',
        bytes: Uint8Array.from({ length: 256 }, (_, at) => at),
        noBytes: new Uint8Array(0),
        textBytes: new TextEncoder().encode("text"),
      };
      await accept(backend, ...Object.entries(stored).map(([hash, data]) => blob(hash, data)));
      const found = await backend.blobs("t", Object.keys(stored));
      assert.equal(found.size, Object.keys(stored).length);
      for (const [hash, data] of Object.entries(stored)) {
        const back = found.get(hash);
        if (typeof data === "string") assert.equal(back, data, hash);
        else {
          assert.ok(back instanceof Uint8Array, hash);
          assert.deepEqual([...back], [...data], hash);
        }
      }
    },
  },
  {
    name: "five megabytes of text and of bytes are kept",
    async run({ backend }) {
      const text = "0123456789 abcdé😀\n".repeat(280_000);
      const bytes = new Uint8Array(5 << 20).map((_, at) => (at * 31) & 255);
      await accept(backend, blob("text", text), blob("bytes", bytes));
      const found = await backend.blobs("t", ["text", "bytes"]);
      assert.ok(found.get("text") === text);
      assert.ok(Buffer.from(bytes).equals(found.get("bytes") as Uint8Array));
    },
  },
  {
    name: "what is stored under a hash stays, and belongs to one thread",
    async run({ backend }) {
      await accept(backend, blob("h", "first"));
      await accept(backend, blob("h", "second"), blob("h2", "new"));
      assert.deepEqual([...(await backend.blobs("t", ["h", "h2", "h3"]))].sort(), [
        ["h", "first"],
        ["h2", "new"],
      ]);
      assert.equal((await backend.blobs("u", ["h"])).size, 0);
      assert.equal((await backend.blobs("t", [])).size, 0);
    },
  },
  {
    name: "bytes that the caller changes afterwards do not change the stored ones",
    async run({ backend }) {
      const bytes = Uint8Array.of(1, 2, 3);
      const done = accept(backend, blob("h", bytes));
      await done;
      bytes[0] = 9;
      const found = (await backend.blobs("t", ["h"])).get("h") as Uint8Array;
      assert.deepEqual([...found], [1, 2, 3]);
      found[1] = 9;
      assert.deepEqual([...((await backend.blobs("t", ["h"])).get("h") as Uint8Array)], [1, 2, 3]);
    },
  },
  {
    name: "two thousand blobs are stored and read in one call",
    async run({ backend }) {
      const hashes = Array.from({ length: 2000 }, (_, at) => `hash ${at}`);
      await accept(backend, ...hashes.map((hash) => blob(hash, `data of ${hash}`)));
      const found = await backend.blobs("t", hashes);
      assert.ok(hashes.every((hash) => found.get(hash) === `data of ${hash}`));
    },
  },
];
