/** Defects in how a backend finds runs, and what it offers to workers: each must fail the suite, by the case meant for it. */

import {
  type Backend,
  type DueRunsQuery,
  isEnded,
  RUN_MOVES,
  type RunQuery,
  type RunRow,
  type RunStatus,
} from "holdfast";
import { expect, test } from "vitest";
import { compareIds } from "../../checkpointers/ids.ts";
import { type Defect, failures, type Mutant } from "./broken.ts";

const STATUSES = Object.keys(RUN_MOVES) as RunStatus[];

/** Sorts anew what the good backend finds, then cuts. */
function sortedBy(compare: (a: RunRow, b: RunRow) => number): Defect {
  return (good) => ({
    runs: async ({ limit, ...query }) => [...(await good.runs(query))].sort(compare).slice(0, limit),
  });
}

const asking = (change: (query: RunQuery) => RunQuery): Defect => {
  return (good) => ({ runs: (query) => good.runs(change(query)) });
};

/** What is due, as the contract says, but for what is given here. */
interface DueRules {
  readonly isClaimable?: (row: RunRow) => boolean;
  readonly isDue?: (row: RunRow, dueBy: number) => boolean;
  readonly isHeldUp?: (row: RunRow, ofThread: readonly RunRow[], query: DueRunsQuery) => boolean;
  readonly compare?: (a: RunRow, b: RunRow) => number;
  readonly query?: (query: DueRunsQuery) => DueRunsQuery;
}

const byMoment = (a: RunRow, b: RunRow) => a.createdAt - b.createdAt || compareIds(a.id, b.id);
const byPriority = (a: RunRow, b: RunRow) => b.priority - a.priority;
const byDue = (a: RunRow, b: RunRow) => (a.due ?? 0) - (b.due ?? 0) || compareIds(a.id, b.id);
const byUnits = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
const isQueued = (row: RunRow) => row.status === "queued" || row.status === "retrying";
const comesBefore = (row: RunRow) => (other: RunRow) => !isEnded(other.status) && byMoment(other, row) < 0;
const isRunning = (row: RunRow) => row.status === "running";

function due(rules: DueRules): Defect {
  const {
    isClaimable = isQueued,
    isDue = (row, dueBy) => row.due !== undefined && row.due <= dueBy,
    isHeldUp = (row, others) => others.some(comesBefore(row)) || others.some(isRunning),
    compare = (a, b) => byPriority(a, b) || byDue(a, b),
    query: change = (query) => query,
  } = rules;
  return (good) => ({
    async dueRuns(asked) {
      const query = change(asked);
      const all = await good.runs({});
      return all
        .filter((row) => isClaimable(row) && isDue(row, query.dueBy) && (query.graphs?.includes(row.graph) ?? true))
        .filter((row) => {
          const others = all.filter((other) => other.thread === row.thread && other.id !== row.id);
          return !isHeldUp(row, others, query);
        })
        .sort(compare)
        .slice(0, query.limit);
    },
  });
}

const nextDue = (
  find: (good: Backend, graphs: readonly string[] | undefined) => Promise<readonly RunRow[]>,
): Defect => {
  return (good) => ({
    async nextDue({ graphs }) {
      const moments = (await find(good, graphs)).flatMap((row) => row.due ?? []);
      return moments.length === 0 ? undefined : Math.min(...moments);
    },
  });
};

const ORDER = "runs come by (createdAt, id), ids in the order of code points, whatever order they were started in";
const SEVERAL = "runs of several statuses are in one order over all of them";
const PAGES = "a page of runs continues after the place where the last one ended, also within one moment";
const FILTERS = "every filter of runs is exact, and several of them must all match";
const CHANGED = "a run that changes is found by the new values only";
const IN_TURN = "due runs come by priority, the higher first, then by (due, id), ids in the order of code points";
const DUE = "due are queued and retrying runs whose moment has come, to the very moment, and no others";
const FIRST = "due is only the first run of its thread that has not ended, whatever the priority of those behind it";
const NEXT_TURN =
  "a run is due no more when it is claimed or cancelled, and the next one of its thread when it has ended";
const WHILE = "while a run of its thread is running nothing of the thread is due, not even what has come in before it";
const ACCEPTED = "whatever is due is accepted as running, and of what has not ended nothing else is";
const GRAPHS = "a worker is offered the runs of its graphs only, and none where it has none";
const NEXT =
  "the next due moment is the earliest of queued and retrying runs, first in their thread or not, of the graphs asked for";
const CLOCK = "the clock gives milliseconds since 1970, and goes on";
const MANY = "thousands of runs that wait, have ended or are due later are in nobody's way";

test("the rules that the defects below change are those of the contract", async () => {
  const stored = nextDue(async (good, graphs) =>
    (await good.runs({ status: ["queued", "retrying"] })).filter((row) => graphs?.includes(row.graph) ?? true),
  );
  const names = [IN_TURN, DUE, FIRST, NEXT_TURN, WHILE, ACCEPTED, GRAPHS, NEXT, MANY];
  expect(await failures((good, shared) => ({ ...due({})(good, shared), ...stored(good, shared) }), names)).toEqual([]);
});

const queryMutants: Record<string, Mutant> = {
  "runs come by id": {
    defect: sortedBy((a, b) => compareIds(a.id, b.id)),
    caughtBy: [ORDER, SEVERAL],
  },
  "runs of one moment come by UTF-16 units": {
    defect: sortedBy((a, b) => a.createdAt - b.createdAt || byUnits(a.id, b.id)),
    caughtBy: [ORDER],
  },
  "runs of one moment come as they were started": {
    defect(good, shared) {
      const place = (row: RunRow) => (shared.get(row.id) as number | undefined) ?? 0;
      return {
        ...sortedBy((a, b) => a.createdAt - b.createdAt || place(a) - place(b))(good, shared),
        commit(group) {
          for (const op of group.flat()) if (op.kind === "run") shared.set(op.row.id, shared.size);
          return good.commit(group);
        },
      };
    },
    caughtBy: [ORDER, SEVERAL, PAGES],
  },
  "runs of several statuses come one status after the other": {
    defect: (good) => ({
      async runs({ limit, ...query }) {
        const found: RunRow[] = [];
        for (const status of query.status ?? []) found.push(...(await good.runs({ ...query, status: [status] })));
        return query.status === undefined ? good.runs({ limit, ...query }) : found.slice(0, limit);
      },
    }),
    caughtBy: [SEVERAL],
  },
  "a page of runs leaves out the rest of the moment where the last one ended": {
    defect: (good) => ({
      runs: async ({ limit, ...query }) =>
        (await good.runs(query))
          .filter((row) => query.after === undefined || row.createdAt > query.after.createdAt)
          .slice(0, limit),
    }),
    caughtBy: [PAGES],
  },
  "a page of runs begins with the one where the last page ended": {
    defect: (good) => ({
      async runs({ after, limit, ...query }) {
        const rows = await good.runs(query);
        const from = rows.findIndex((row) => row.createdAt === after?.createdAt && row.id === after.id);
        return from < 0 ? good.runs({ ...query, after, limit }) : rows.slice(from).slice(0, limit);
      },
    }),
    caughtBy: [PAGES],
  },
  "the limit counts runs before they are filtered": {
    defect: (good) => ({
      async runs({ limit, after, ...query }) {
        const first = new Set((await good.runs({ after, limit })).map((row) => row.id));
        return (await good.runs({ after, ...query })).filter((row) => first.has(row.id));
      },
    }),
    caughtBy: [FILTERS, PAGES],
  },
  "a limit of no runs is no limit": {
    defect: asking((query) => ({ ...query, limit: query.limit || undefined })),
    caughtBy: [FILTERS, PAGES],
  },
  "no status of runs is all of them": {
    defect: asking((query) => ({ ...query, status: query.status?.length ? query.status : undefined })),
    caughtBy: [FILTERS],
  },
  "only the first of several statuses of runs counts": {
    defect: asking((query) => ({ ...query, status: query.status?.slice(0, 1) })),
    caughtBy: [FILTERS, SEVERAL],
  },
  ...Object.fromEntries(
    (["id", "key", "thread", "status", "graph", "owner", "worker", "after"] as const).map((field): [string, Mutant] => [
      `runs are found whatever ${field} is asked for`,
      { defect: asking((query) => ({ ...query, [field]: undefined })), caughtBy: [FILTERS] },
    ]),
  ),
  ...Object.fromEntries(
    (["key", "thread", "graph", "owner", "worker"] as const).map((field): [string, Mutant] => [
      `an empty ${field} of runs is not asked for`,
      { defect: asking((query) => ({ ...query, [field]: query[field] || undefined })), caughtBy: [FILTERS] },
    ]),
  ),
  "a run is found by what it was": {
    defect(good, shared) {
      return {
        commit(group) {
          for (const op of group.flat()) if (op.kind === "run" && op.expect === null) shared.set(op.row.id, op.row);
          return good.commit(group);
        },
        runs: async ({ graph, owner, ...query }) =>
          (await good.runs(query)).filter((row) => {
            const was = (shared.get(row.id) as RunRow | undefined) ?? row;
            return was.graph === (graph ?? was.graph) && (owner === undefined || was.owner === owner);
          }),
      };
    },
    caughtBy: [CHANGED],
  },
  "the lowest priority is first": {
    defect: due({ compare: (a, b) => byPriority(b, a) || byDue(a, b) }),
    caughtBy: [IN_TURN],
  },
  "priorities are no numbers": {
    defect: due({ compare: (a, b) => byUnits(`${b.priority}`, `${a.priority}`) || byDue(a, b) }),
    caughtBy: [IN_TURN],
  },
  "due runs come by when they are due": {
    defect: due({ compare: byDue }),
    caughtBy: [IN_TURN, MANY],
  },
  "due runs of one priority come by when they were started": {
    defect: due({ compare: (a, b) => byPriority(a, b) || byMoment(a, b) }),
    caughtBy: [IN_TURN],
  },
  "due runs of one moment come by UTF-16 units": {
    defect: due({ compare: (a, b) => byPriority(a, b) || (a.due ?? 0) - (b.due ?? 0) || byUnits(a.id, b.id) }),
    caughtBy: [IN_TURN],
  },
  "the limit of due runs is one too high": {
    defect: due({ query: (query) => ({ ...query, limit: query.limit + 1 }) }),
    caughtBy: [IN_TURN, FIRST, GRAPHS, MANY],
  },
  "what is due at the very moment is offered later": {
    defect: due({ isDue: (row, dueBy) => row.due !== undefined && row.due < dueBy }),
    caughtBy: [DUE],
  },
  "a queued run without a moment is due at once": {
    defect: due({ isDue: (row, dueBy) => (row.due ?? -Infinity) <= dueBy }),
    caughtBy: [DUE],
  },
  ...Object.fromEntries(
    STATUSES.map((status): [string, Mutant] => [
      `whether a run that is ${status} is offered is the other way round`,
      {
        defect: due({ isClaimable: (row) => (row.status === status ? !isQueued(row) : isQueued(row)) }),
        caughtBy: [DUE],
      },
    ]),
  ),
  "every queued run is offered, first in its thread or not": {
    defect: due({ isHeldUp: () => false }),
    caughtBy: [FIRST, NEXT_TURN, WHILE, ACCEPTED, GRAPHS],
  },
  "the run of the highest priority is offered, first in its thread or not": {
    defect: due({
      isHeldUp: (row, others) =>
        others.some(isRunning) || others.some((other) => !isEnded(other.status) && other.priority > row.priority),
    }),
    caughtBy: [FIRST],
  },
  "a run is held up only by what is due": {
    defect: due({
      isHeldUp: (row, others, { dueBy }) =>
        others.some(isRunning) ||
        others.filter(comesBefore(row)).some((other) => !isQueued(other) || (other.due ?? Infinity) <= dueBy),
    }),
    caughtBy: [FIRST],
  },
  "a run is held up by what has ended, too": {
    defect: due({
      isHeldUp: (row, others) => others.some((other) => byMoment(other, row) < 0) || others.some(isRunning),
    }),
    caughtBy: [FIRST, NEXT_TURN],
  },
  ...Object.fromEntries(
    (["queued", "waiting", "retrying", "parked"] as const).map((status): [string, Mutant] => [
      `a run is not held up by one that is ${status}`,
      {
        defect: due({
          isHeldUp: (row, others) =>
            others.some(isRunning) || others.filter((other) => other.status !== status).some(comesBefore(row)),
        }),
        caughtBy: [FIRST],
      },
    ]),
  ),
  "the first run of a thread is that of UTF-16 units": {
    defect: due({
      isHeldUp: (row, others) =>
        others.some(isRunning) ||
        others.some(
          (other) => !isEnded(other.status) && (other.createdAt - row.createdAt || byUnits(other.id, row.id)) < 0,
        ),
    }),
    caughtBy: [FIRST],
  },
  "a running run holds up only what is behind it": {
    defect: due({ isHeldUp: (row, others) => others.some(comesBefore(row)) }),
    caughtBy: [WHILE],
  },
  "what has been offered stays on offer": {
    defect: (good, shared) => ({
      async dueRuns(query) {
        for (const row of await good.dueRuns(query)) shared.set(row.id, row);
        return [...shared.values()] as RunRow[];
      },
    }),
    caughtBy: [NEXT_TURN],
  },
  "the graphs of a worker are passed over": {
    defect: due({ query: (query) => ({ ...query, graphs: undefined }) }),
    caughtBy: [GRAPHS],
  },
  "a worker without graphs is offered everything": {
    defect: due({ query: (query) => ({ ...query, graphs: query.graphs?.length ? query.graphs : undefined }) }),
    caughtBy: [GRAPHS],
  },
  "only the first graph of a worker counts": {
    defect: due({ query: (query) => ({ ...query, graphs: query.graphs?.slice(0, 1) }) }),
    caughtBy: [GRAPHS],
  },
  "a run is held up by those of the worker's graphs only": {
    defect: due({
      isHeldUp: (row, others, { graphs }) =>
        others.some(isRunning) ||
        others.filter((other) => graphs?.includes(other.graph) ?? true).some(comesBefore(row)),
    }),
    caughtBy: [GRAPHS],
  },
  "the limit of due runs counts those of all graphs": {
    defect: (good) => ({
      dueRuns: async ({ graphs, ...query }) =>
        (await good.dueRuns(query)).filter((row) => graphs?.includes(row.graph) ?? true),
    }),
    caughtBy: [GRAPHS],
  },
  "the limit of due runs counts those that are held up": {
    defect: (good, shared) => ({
      async dueRuns(query) {
        const claimable = (await due({ isHeldUp: () => false })(good, shared).dueRuns?.(query)) ?? [];
        const offered = (await good.dueRuns({ ...query, limit: 1000 })).map((row) => row.id);
        return claimable.filter((row) => offered.includes(row.id));
      },
    }),
    caughtBy: [FIRST],
  },
  "a poll looks at the first thousand runs": {
    defect: (good) => ({
      async dueRuns(query) {
        const seen = new Set((await good.runs({ limit: 1000 })).map((row) => row.id));
        return (await good.dueRuns(query)).filter((row) => seen.has(row.id));
      },
    }),
    caughtBy: [MANY],
  },
  "the next moment is that of what is first in its thread": {
    defect: nextDue((good, graphs) => good.dueRuns({ dueBy: 1e6, graphs, limit: 1000 })),
    caughtBy: [NEXT],
  },
  "the next moment is that of the highest priority": {
    defect: nextDue(async (good, graphs) => {
      const rows = (await good.runs({ status: ["queued", "retrying"] })).filter(
        (row) => graphs?.includes(row.graph) ?? true,
      );
      return rows.filter((row) => rows.every((other) => other.priority <= row.priority));
    }),
    caughtBy: [NEXT],
  },
  "the next moment is that of whatever has one": {
    defect: nextDue(async (good, graphs) => (await good.runs({})).filter((row) => graphs?.includes(row.graph) ?? true)),
    caughtBy: [NEXT],
  },
  "the next moment of retrying runs is not known": {
    defect: nextDue(async (good, graphs) =>
      (await good.runs({ status: ["queued"] })).filter((row) => graphs?.includes(row.graph) ?? true),
    ),
    caughtBy: [NEXT],
  },
  "the next moment is that of all graphs": {
    defect: (good) => ({ nextDue: () => good.nextDue({}) }),
    caughtBy: [NEXT],
  },
  "the next moment of no graphs is that of all": {
    defect: (good) => ({ nextDue: ({ graphs }) => good.nextDue({ graphs: graphs?.length ? graphs : undefined }) }),
    caughtBy: [NEXT],
  },
  "the clock counts seconds": {
    defect: (good) => ({ now: async () => Math.floor((await good.now()) / 1000) }),
    caughtBy: [CLOCK],
  },
  "the clock is fast": {
    defect: (good) => {
      const began = Date.now();
      return { now: async () => began + ((await good.now()) - began) * 1e6 };
    },
    caughtBy: [CLOCK],
  },
};

for (const [name, { defect, caughtBy }] of Object.entries(queryMutants)) {
  test(`a backend fails the suite in which ${name}`, async () => {
    expect(await failures(defect, caughtBy)).toEqual(expect.arrayContaining([...caughtBy]));
  });
}
