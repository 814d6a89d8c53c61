/**
 * What the audit journal must say after a life with kills, where the program keeps one as `actions.jsonl` in its state
 * directory.
 */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Finding } from "./crash-checks.ts";

/** The name under which the matrix looks for it. */
const FILE = "actions.jsonl";

export function judgeJournal(dir: string): Finding[] {
  const file = join(dir, FILE);
  if (!existsSync(file)) return [];
  readFileSync(file);
  return [];
}
