import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { jsonl } from "holdfast/checkpointers/jsonl";
import { afterAll } from "vitest";
import { publicSuite } from "./public-suite.ts";

const directory = mkdtempSync(join(tmpdir(), "holdfast-validate-"));
afterAll(() => rmSync(directory, { recursive: true }));
let stores = 0;

publicSuite("jsonl", async () => {
  stores += 1;
  return jsonl(join(directory, String(stores)), { fsync: false });
});
