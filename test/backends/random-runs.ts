/** Random operations on runs, random questions about them, and what the contract says in words about the answers. */

import fc from "fast-check";
import {
  type Backend,
  type DueRunsQuery,
  isEnded,
  type Op,
  RUN_MOVES,
  type RunQuery,
  type RunRow,
  type RunStatus,
} from "holdfast";
import { compareIds } from "../../checkpointers/ids.ts";
import * as rows from "../../src/testing/backend-rows.ts";

const STATUSES = Object.keys(RUN_MOVES) as RunStatus[];

// Few of everything, so that operations meet; UTF-16 units would put the last two ids the other way round.
const ids = ["", "0", "1", "2", "a", "b", "0f8fad5b-d9cb-469f-a165-70867728950e", "\uffff", "😀"];
const id = fc.constantFrom(...ids);
const few = fc.constantFrom("a", "b", "");
const maybe = fc.option(few, { nil: undefined });
const moment = fc.constantFrom(-1, 0, 0.5, 2);
const status = fc.constantFrom<RunStatus>(...STATUSES);
const rarely = fc.oneof({ arbitrary: fc.constant(0), weight: 11 }, { arbitrary: fc.constant(1), weight: 1 });

/** What is free to change in a run. */
const fields = {
  ...{ graph: few, owner: maybe, worker: maybe, due: fc.option(moment, { nil: undefined, freq: 8 }) },
  priority: fc.integer({ min: -1, max: 1 }),
};

/** An operation, given what is stored when its group is made: so it is nearly always made from what it changes. */
export type MakeOp = (stored: ReadonlyMap<string, RunRow>, eraOf: (thread: string) => number) => Op;

const start: fc.Arbitrary<MakeOp> = fc
  .record({
    ...{
      ...fields,
      id,
      thread: few,
      key: fc.option(fc.constantFrom("0", "1", "2"), { nil: undefined, freq: 1 }),
      createdAt: moment,
    },
    ...{ status: fc.constantFrom<RunStatus>("queued", "queued", "queued", "retrying", ...STATUSES), late: rarely },
  })
  .map(
    ({ id, late, ...row }) =>
      (_, eraOf) =>
        rows.run(rows.runRow(id, row), null, eraOf(row.thread) + late),
  );

const change: fc.Arbitrary<MakeOp> = fc
  .record({
    ...{ ...fields, id, late: rarely, stale: rarely, wanted: status, legal: fc.nat(7), any: rarely, ends: rarely },
    ...{ other: fc.constantFrom({}, {}, {}, {}, {}, { key: "2" }, { createdAt: 0.5 }, { thread: "b" }) },
  })
  .map(({ id, late, stale, wanted, legal, any, ends, other, ...change }) => (stored, eraOf) => {
    const old = stored.get(id) ?? [...stored.values()][legal % 3] ?? rows.runRow(id, { thread: "a" });
    const moves = RUN_MOVES[old.status].filter((next) => ends === 1 || !isEnded(next));
    const status = any === 1 ? wanted : (moves[legal % moves.length] ?? wanted);
    const epoch = old.epoch + (status === "running" ? 1 : 0);
    const next = { ...old, ...change, ...other, status, epoch, rev: old.rev + 1 };
    return rows.run(next, old.rev - stale, eraOf(next.thread) + late);
  });

const fence: fc.Arbitrary<MakeOp> = fc
  .record({ id, late: rarely, stale: rarely, elsewhere: fc.option(few, { nil: undefined, freq: 1 }) })
  .map(({ id, late, stale, elsewhere }) => (stored, eraOf) => {
    const thread = elsewhere ?? stored.get(id)?.thread ?? "a";
    return rows.fence(id, (stored.get(id)?.epoch ?? 0) - stale, { thread, era: eraOf(thread) + late });
  });

/** Groups of commits on runs. */
export const runScript = fc.array(
  fc.array(
    fc.array(
      fc.oneof(
        { arbitrary: start, weight: 16 },
        { arbitrary: change, weight: 24 },
        { arbitrary: fence, weight: 6 },
        {
          arbitrary: few.map(
            (thread): MakeOp =>
              () =>
                rows.deleteThread(thread),
          ),
          weight: 1,
        },
      ),
      { minLength: 1, maxLength: 2 },
    ),
    { minLength: 1, maxLength: 3 },
  ),
  { minLength: 20, maxLength: 25 },
);

/** Two fields at most: those that ask for more find nothing. */
export const randomRunQuery: fc.Arbitrary<RunQuery> = fc
  .record({
    asked: fc.subarray(["id", "key", "thread", "status", "graph", "owner", "worker"] as const, { maxLength: 2 }),
    all: fc.record({
      ...{ id, key: fc.constantFrom("0", "1", "2"), thread: few, graph: few, owner: few, worker: few },
      status: fc.subarray(STATUSES, { minLength: 1 }),
    }),
    page: fc.record({ after: fc.record({ createdAt: moment, id }), limit: fc.nat(4) }, { requiredKeys: [] }),
  })
  .map(({ asked, all, page }) => ({ ...Object.fromEntries(asked.map((field) => [field, all[field]])), ...page }));

export const randomDueQuery = fc.record(
  { dueBy: moment, graphs: fc.array(few, { maxLength: 2 }), limit: fc.nat(4) },
  { requiredKeys: ["dueBy", "limit"] },
) as fc.Arbitrary<DueRunsQuery>;

const inOrder = (a: NonNullable<RunQuery["after"]>, b: NonNullable<RunQuery["after"]>) =>
  a.createdAt - b.createdAt || compareIds(a.id, b.id);

export function expectedRuns(all: readonly RunRow[], query: RunQuery): RunRow[] {
  const { status, after, limit, ...fields } = query;
  return all
    .filter((row) => Object.entries(fields).every(([name, value]) => row[name as keyof RunRow] === value))
    .filter((row) => status?.includes(row.status) ?? true)
    .filter((row) => after === undefined || inOrder(row, after) > 0)
    .sort(inOrder)
    .slice(0, limit);
}

export function expectedDue(all: readonly RunRow[], { dueBy, graphs, limit }: DueRunsQuery): RunRow[] {
  const unended = all.filter((row) => !isEnded(row.status)).sort(inOrder);
  return claimable(all, graphs)
    .filter((row) => row.due <= dueBy)
    .filter((row) => unended.find(({ thread }) => thread === row.thread)?.id === row.id)
    .filter((row) => !unended.some((other) => other.thread === row.thread && other.status === "running"))
    .sort((a, b) => b.priority - a.priority || a.due - b.due || compareIds(a.id, b.id))
    .slice(0, limit);
}

export function expectedNext(all: readonly RunRow[], graphs: readonly string[] | undefined): number | undefined {
  const moments = claimable(all, graphs).map((row) => row.due);
  return moments.length === 0 ? undefined : Math.min(...moments);
}

function claimable(all: readonly RunRow[], graphs: readonly string[] | undefined) {
  return all
    .filter((row): row is RunRow & { readonly due: number } => row.due !== undefined)
    .filter((row) => (row.status === "queued" || row.status === "retrying") && (graphs?.includes(row.graph) ?? true));
}

/** Plays a script on both, each group made from what the first has stored; the verdicts of either, in full. */
export async function playRuns(
  first: Backend,
  second: Backend,
  script: readonly (readonly (readonly MakeOp[])[])[],
): Promise<[unknown[], unknown[]]> {
  const verdicts: [unknown[], unknown[]] = [[], []];
  for (const group of script) {
    const stored = new Map((await first.runs({})).map((row) => [row.id, row]));
    const eras = new Map<string, number>();
    for (const thread of ["a", "b", ""]) eras.set(thread, (await first.load(thread, "", undefined)).era);
    const commits = group.map((commit) =>
      commit.map((make) => {
        const op = make(stored, (thread) => eras.get(thread) ?? 0);
        if (op.kind === "run") stored.set(op.row.id, op.row);
        if (op.kind === "deleteThread") eras.set(op.thread, (eras.get(op.thread) ?? 0) + 1);
        return op;
      }),
    );
    for (const [at, backend] of [first, second].entries()) {
      for (const verdict of await backend.commit(commits)) {
        verdicts[at]?.push(verdict === undefined ? "accepted" : [verdict.code, verdict.message, verdict.details]);
      }
    }
  }
  return verdicts;
}
