/** How SQLite would go about a query of ours. */

import Database from "better-sqlite3";
import { onTestFinished } from "vitest";
import { migrate } from "../../checkpointers/sqlite/schema.ts";

/** A line per step, without steps that a filter on kinds takes. */
export function planOf(sql: string): string[] {
  const db = new Database(":memory:");
  onTestFinished(() => void db.close());
  migrate(db, 0);
  const names = [...sql.matchAll(/@(\w+)/g)].map(([, name]) => [name, null]);
  const parameters = sql.includes("?") ? [...sql.matchAll(/\?/g)].map(() => 1) : [Object.fromEntries(names)];
  const steps = db.prepare(`explain query plan ${sql}`).all(...parameters) as { detail: string }[];
  return steps.map(({ detail }) => detail).filter((detail) => !/json_each|BLOOM|^LIST SUBQUERY/.test(detail));
}
