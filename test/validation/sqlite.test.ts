import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sqlite } from "holdfast/checkpointers/sqlite";
import { afterAll } from "vitest";
import { publicSuite } from "./public-suite.ts";

const directory = mkdtempSync(join(tmpdir(), "holdfast-validate-"));
afterAll(() => rmSync(directory, { recursive: true }));
let stores = 0;

publicSuite("sqlite", async () => {
  stores += 1;
  return sqlite(join(directory, `${stores}.db`), { synchronous: "OFF" });
});
