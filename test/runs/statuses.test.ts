/** The states of a run: one table in the code, and the same one in the guide. */

import { readFileSync } from "node:fs";
import { LANGGRAPH_STATUS, RUN_MOVES } from "holdfast";
import { expect, test } from "vitest";

const guide = readFileSync(new URL("../../docs/runs.md", import.meta.url), "utf8");
const codes = (cell: string) => [...cell.replaceAll(/\([^)]*\)/g, "").matchAll(/`([a-z]+)`/g)].map(([, code]) => code);

test("the guide's table of statuses, what may follow each, and LangGraph's name of it is that of the code", () => {
  const rows = [...guide.matchAll(/^\| `([a-z]+)` \| [^|]* \| ([^|]*) \| ([^|]*) \|$/gm)];
  const told = rows.map(([, status = "", moves = "", sdk = ""]) => [status, codes(moves), codes(sdk)[0]]);
  const meant = Object.entries(RUN_MOVES).map(([status, moves]) => [
    status,
    moves,
    LANGGRAPH_STATUS[status as keyof typeof RUN_MOVES],
  ]);
  expect(told).toEqual(meant);
});
