/**
 * What a kill takes: the README's table, one test a cell. A power cut is another matter: what survives it is SQLite's and
 * the disk's promise, and no test on a running machine can show it.
 */

import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { kill, testRow } from "./loss/kill.ts";

test.each(["sync", "async", "exit"] as const)("memory, %s durability: a kill takes everything", (durability) => {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-loss-"));
  kill("memory", durability, true, join(directory, "state"));
  expect(readdirSync(directory)).toEqual([]);
  rmSync(directory, { recursive: true });
});

testRow("sqlite FULL");
testRow("jsonl fsync");
