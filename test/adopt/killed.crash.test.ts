import { copyFileSync } from "node:fs";
import { join } from "node:path";
import type Database from "better-sqlite3";
import { crashMatrix } from "holdfast/testing";
import { expect, test } from "vitest";
import { asking, at, branch, nested, plain } from "./graphs.ts";
import { officialSqlite } from "./official.ts";
import { compiled } from "../backends/scratch.ts";

/** Every tenth point: commits of every kind, before, inside and after. */
const some = (all: readonly string[]) => all.filter((_, i) => i % 10 === 3);

test("an adoption that is killed and begun again ends as one that was not killed", { timeout: 300_000 }, async () => {
  const { saver, connection } = await officialSqlite();
  const begin = { log: ["begun"] };
  await plain(saver).invoke(begin, at("plain"));
  await asking(saver).invoke(begin, at("question"));
  await nested(saver).invoke(begin, at("questions in a subgraph"));
  await branch(saver);
  (saver as unknown as { db: Database.Database }).db.pragma("wal_checkpoint(truncate)");
  const report = await crashMatrix({
    program: compiled("bundled/test/adopt/programs/adopt-killed.ts"),
    prepare: (dir) => copyFileSync(connection, join(dir, "official.db")),
    points: some,
    print: () => {},
    check: ({ result }) => {
      const { complete, threads } = result as { complete: boolean; threads: { waits: number }[] };
      expect({ complete, waits: threads.map(({ waits }) => waits) }).toEqual({ complete: true, waits: [0, 0, 1, 2] });
    },
  });
  expect(report).toMatchObject({ violations: [], missed: [], failedStarts: 0 });
  expect(report.kills).toBeGreaterThanOrEqual(8);
});
