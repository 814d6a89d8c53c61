import { statSync } from "node:fs";
import { join } from "node:path";
import type { Op } from "holdfast";
import { expect, test } from "vitest";
import { jsonlBackend } from "../../checkpointers/jsonl/index.ts";
import { scratchDirectory } from "./scratch.ts";

test("a log that is larger than the longest string is read, and its outdated part takes no memory", {
  timeout: 600_000,
}, async () => {
  const directory = await scratchDirectory();
  const options = { fsync: false, compactBytesMin: Number.POSITIVE_INFINITY };
  const backend = await jsonlBackend(directory, options);
  const checkpoint = (at: number): Op => ({
    ...{
      kind: "checkpoint",
      thread: "t",
      era: 0,
      ns: "",
      id: "1",
      parent: undefined,
      source: "loop",
      heads: undefined,
    },
    body: `json/1 "${`${at} é`.padEnd(4 << 20, "x")}"`,
  });
  for (let at = 0; at < 150; at++) await backend.commit([[checkpoint(at)]]);
  await backend.close();
  expect(statSync(join(directory, "log.jsonl")).size).toBeGreaterThan(600 << 20);
  const again = await jsonlBackend(directory, options);
  expect((await again.load("t", "", "1")).checkpoint?.body).toMatch(/^json\/1 "149 é/);
  expect(process.memoryUsage().rss).toBeLessThan(1 << 30);
  await again.close();
  const compacted = await jsonlBackend(directory);
  expect(statSync(join(directory, "log.jsonl")).size).toBeLessThan(5 << 20);
  expect((await compacted.load("t", "", "1")).checkpoint?.body).toMatch(/^json\/1 "149 é/);
  await compacted.close();
});
