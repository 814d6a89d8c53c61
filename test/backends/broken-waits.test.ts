/** Defects in what a backend does with waits and decisions: each must fail the suite, by the case meant for it. */

import type { Backend, DecisionRow, Op, Verdict, WaitRow } from "holdfast";
import { expect, test } from "vitest";
import { commitChanged, type Defect, failures, ignoring, type Mutant, mapOps } from "./broken.ts";

type WaitOp = Extract<Op, { kind: "wait" }>;

const waitOf = async (backend: Backend, id: string): Promise<WaitRow | undefined> => (await backend.waits({ id }))[0];

/** Instead of what `endWait` does: the wait gets this status, whoever has it. */
function endAs(status: (row: WaitRow, op: Extract<Op, { kind: "endWait" }>) => WaitRow["status"] | undefined): Defect {
  return (good) => ({
    commit: (group) =>
      commitChanged(good, group, async (op) => {
        if (op.kind !== "endWait") return op;
        const row = await waitOf(good, op.id);
        const next = row && status(row, op);
        if (row === undefined || next === undefined) return undefined;
        const ended: WaitOp = {
          ...{ kind: "wait", thread: row.thread, era: (await good.load(row.thread, "", undefined)).era },
          ...{ row: { ...row, status: next, holder: undefined, rev: row.rev + 1 }, expect: row.rev },
        };
        return ended;
      }),
  });
}

/** Changes what is read, in every way that waits are read. */
function readAs(change: (rows: readonly WaitRow[]) => readonly WaitRow[]): Defect {
  return (good) => ({
    waits: async (query) => change(await good.waits(query)),
    async load(thread, ns, id) {
      const loaded = await good.load(thread, ns, id);
      return { ...loaded, waits: change(loaded.waits) };
    },
  });
}

/** Sorts anew what the good backend finds, then cuts. */
function sortedBy(compare: (a: WaitRow, b: WaitRow) => number): Defect {
  return (good) => ({
    waits: async ({ limit, ...query }) => [...(await good.waits(query))].sort(compare).slice(0, limit),
  });
}

const ORDER = "waits come by (openedAt, id), ids in the order of code points, whatever order they were opened in";
const SEVERAL = "waits of several statuses are in one order over all of them";
const PAGES =
  "a page continues after the place where the last one ended, also within one moment and after what is gone";
const FILTERS = "every filter of waits is exact, and several of them must all match";
const DUE = "what is due by a moment is found in the order of all waits, and what is never due is not among it";
const LOADED =
  "a load of the root namespace has the thread's waits that are open or answered, whatever checkpoint it asks for";
const AGAIN = "a wait opened again in its thread stays as it is, whatever has become of it, and refuses nothing";
const ENDED = "an ended wait is consumed where it was answered and superseded where it was open; no other is touched";
const REVISION = "a wait is changed only from the revision that is stored: WAIT_CONFLICT";
const OF_ANOTHER = "a wait under the id of another thread's is refused with WAIT_CONFLICT";
const CHAIN = "a decision that does not follow the thread's last one is refused with DECISION_CONFLICT";
const TOGETHER = "a decision and the wait it decides are stored together or not at all";
const DELETED = "a deleted thread leaves no row of any kind, not even for a new thread with the same ids";
const NEXT_LIFE =
  "the ids of a deleted thread's waits are free again, and its next life begins its chain of decisions at 1";
const CHAINS = "long chains and many of them come in the order of (thread, place), threads by code points";

const waitMutants: Record<string, Mutant> = {
  "a wait opened again begins anew": {
    defect: (good) => ({
      commit: (group) =>
        commitChanged(good, group, async (op) => {
          const row = op.kind === "wait" && op.expect === null ? await waitOf(good, op.row.id) : undefined;
          return row !== undefined && row.thread === op.thread ? ({ ...op, expect: row.rev } as Op) : op;
        }),
    }),
    caughtBy: [AGAIN],
  },
  "a wait opened again is refused": {
    defect: (good) => ({
      commit: (group) =>
        commitChanged(good, group, async (op) =>
          op.kind === "wait" && op.expect === null && (await waitOf(good, op.row.id)) ? { ...op, expect: -1 } : op,
        ),
    }),
    caughtBy: [AGAIN],
  },
  "the id of a wait is unique within its thread only": {
    defect(good) {
      const inside = (thread: string, id: string) => JSON.stringify([thread, id]);
      return {
        commit: (group) =>
          good.commit(mapOps(group, "wait", (op) => ({ ...op, row: { ...op.row, id: inside(op.thread, op.row.id) } }))),
        waits: async (query) =>
          (await good.waits(query)).map((row) => ({ ...row, id: (JSON.parse(row.id) as [string, string])[1] })),
      };
    },
    caughtBy: [OF_ANOTHER],
  },
  "the revision of a wait is ignored": {
    defect: (good) => ({
      commit: (group) =>
        commitChanged(good, group, async (op) =>
          op.kind === "wait" && op.expect !== null
            ? { ...op, expect: (await waitOf(good, op.row.id))?.rev ?? null }
            : op,
        ),
    }),
    caughtBy: [REVISION],
  },
  "a wait that was changed meanwhile is left as it is, and nobody is told": {
    defect: ignoring("WAIT_CONFLICT"),
    caughtBy: [REVISION, "of two openers that change one wait at the same time exactly one wins"],
  },
  "the end of a wait pays no regard to its answer": {
    defect: endAs((row, op) =>
      row.thread === op.thread && ["open", "answered"].includes(row.status) ? "superseded" : undefined,
    ),
    caughtBy: [ENDED],
  },
  "the end of a wait ends again what has ended": {
    defect: endAs((row, op) =>
      row.thread !== op.thread ? undefined : row.status === "answered" ? "consumed" : "superseded",
    ),
    caughtBy: [ENDED],
  },
  "the end of a wait ends another thread's": {
    defect: endAs((row) => (row.status === "answered" ? "consumed" : row.status === "open" ? "superseded" : undefined)),
    caughtBy: [ENDED],
  },
  "the end of a wait that is not there is refused": {
    defect: (good) => ({
      commit: (group) =>
        commitChanged(good, group, async (op): Promise<Op> => {
          if (op.kind !== "endWait" || (await waitOf(good, op.id))) return op;
          const row = { ...({} as WaitRow), id: op.id, thread: op.thread };
          return { kind: "wait", thread: op.thread, era: op.era, row, expect: 0 };
        }),
    }),
    caughtBy: [ENDED],
  },
  "the end of a wait keeps its holder": {
    defect(good, shared) {
      return {
        commit(group) {
          for (const op of group.flat()) if (op.kind === "wait") shared.set(op.row.id, op.row.holder);
          return good.commit(group);
        },
        waits: async (query) =>
          (await good.waits(query)).map((row) => ({ ...row, holder: shared.get(row.id) as string | undefined })),
      };
    },
    caughtBy: [ENDED],
  },
  "what a wait does not have is null": {
    defect: readAs((rows) => rows.map((row) => ({ ...row, due: row.due ?? (null as unknown as undefined) }))),
    caughtBy: ["a wait is read back as it was stored, with every field, and a change replaces it"],
  },
  "waits are left when their thread is deleted": {
    defect(good, shared) {
      return {
        async commit(group) {
          for (const op of group.flat()) {
            if (op.kind === "deleteThread") shared.set(op.thread, await good.waits({ thread: op.thread }));
          }
          return good.commit(group);
        },
        async waits(query) {
          const left = query.thread === undefined ? [] : (shared.get(query.thread) as WaitRow[] | undefined);
          return [...(await good.waits(query)), ...(left ?? [])];
        },
      };
    },
    caughtBy: [DELETED, NEXT_LIFE],
  },
  "the chain of decisions goes on in a thread's next life": {
    defect(good, shared) {
      return {
        async commit(group) {
          for (const op of group.flat()) {
            if (op.kind !== "deleteThread") continue;
            const last = (await good.decision(op.thread, undefined))?.seq ?? 0;
            shared.set(op.thread, last + ((shared.get(op.thread) as number | undefined) ?? 0));
          }
          return good.commit(
            mapOps(group, "decision", (op) => {
              const seq = op.row.seq - ((shared.get(op.thread) as number | undefined) ?? 0);
              return { ...op, row: { ...op.row, seq } };
            }),
          );
        },
      };
    },
    caughtBy: [NEXT_LIFE],
  },
  "waits come by id": {
    defect: sortedBy((a, b) => (a.id < b.id ? -1 : 1)),
    caughtBy: [ORDER, SEVERAL, DUE],
  },
  "waits of one moment come by UTF-16 units": {
    defect: sortedBy((a, b) => a.openedAt - b.openedAt || (a.id < b.id ? -1 : 1)),
    caughtBy: [ORDER],
  },
  "waits of one moment come as they were opened": {
    defect(good, shared) {
      const place = (row: WaitRow) => (shared.get(row.id) as number | undefined) ?? 0;
      return {
        ...sortedBy((a, b) => a.openedAt - b.openedAt || place(a) - place(b))(good, shared),
        commit(group) {
          for (const op of group.flat()) if (op.kind === "wait") shared.set(op.row.id, shared.size);
          return good.commit(group);
        },
      };
    },
    caughtBy: [ORDER, SEVERAL, PAGES],
  },
  "waits of several statuses come one status after the other": {
    defect: (good) => ({
      async waits({ limit, ...query }) {
        const found: WaitRow[] = [];
        for (const status of query.status ?? []) found.push(...(await good.waits({ ...query, status: [status] })));
        return query.status === undefined ? good.waits({ limit, ...query }) : found.slice(0, limit);
      },
    }),
    caughtBy: [SEVERAL],
  },
  "a page leaves out the rest of the moment where the last one ended": {
    defect: (good) => ({
      waits: async ({ limit, ...query }) =>
        (await good.waits(query))
          .filter((row) => query.after === undefined || row.openedAt > query.after.openedAt)
          .slice(0, limit),
    }),
    caughtBy: [PAGES],
  },
  "a page begins with the row where the last one ended": {
    defect: (good) => ({
      async waits({ after, limit, ...query }) {
        const rows = await good.waits(query);
        const from = rows.findIndex((row) => row.openedAt === after?.openedAt && row.id === after.id);
        return from < 0 ? good.waits({ ...query, after, limit }) : rows.slice(from).slice(0, limit);
      },
    }),
    caughtBy: [PAGES],
  },
  "the limit counts waits before they are filtered": {
    defect: (good) => ({
      async waits({ limit, after, ...query }) {
        const first = new Set((await good.waits({ after, limit })).map((row) => row.id));
        return (await good.waits({ after, ...query })).filter((row) => first.has(row.id));
      },
    }),
    caughtBy: [FILTERS, PAGES],
  },
  "a limit of none is no limit": {
    defect: (good) => ({ waits: (query) => good.waits({ ...query, limit: query.limit || undefined }) }),
    caughtBy: [FILTERS, PAGES],
  },
  "no status and no kind are all of them": {
    defect: (good) => ({
      waits: ({ status, kind, ...query }) =>
        good.waits({ ...query, status: status?.length ? status : undefined, kind: kind?.length ? kind : undefined }),
    }),
    caughtBy: [FILTERS],
  },
  ...Object.fromEntries(
    (["id", "thread", "task", "status", "kind", "name", "graph", "assignee", "owner", "after"] as const).map(
      (field): [string, Mutant] => [
        `waits are found whatever ${field} is asked for`,
        { defect: (good) => ({ waits: (query) => good.waits({ ...query, [field]: undefined }) }), caughtBy: [FILTERS] },
      ],
    ),
  ),
  "only the first of several kinds counts": {
    defect: (good) => ({ waits: (query) => good.waits({ ...query, kind: query.kind?.slice(0, 1) }) }),
    caughtBy: [FILTERS],
  },
  "nobody's waits are found by an empty owner": {
    defect: (good) => ({ waits: (query) => good.waits({ ...query, owner: query.owner || undefined }) }),
    caughtBy: [FILTERS],
  },
  "what is due at the very moment is not due": {
    defect: (good) => ({
      waits: ({ dueBy, ...query }) => good.waits({ ...query, dueBy: dueBy === undefined ? undefined : dueBy - 0.5 }),
    }),
    caughtBy: [DUE],
  },
  "what is never due is always due": {
    defect: (good) => ({
      waits: async ({ dueBy, limit, ...query }) =>
        (await good.waits(query)).filter((row) => (row.due ?? -Infinity) <= (dueBy ?? Infinity)).slice(0, limit),
    }),
    caughtBy: [DUE],
  },
  "what is due comes by when it is due": {
    defect(good) {
      const byDue = sortedBy((a, b) => (a.due ?? 0) - (b.due ?? 0))(good, new Map());
      return { waits: (query) => (query.dueBy === undefined ? good : (byDue as Backend)).waits(query) };
    },
    caughtBy: [DUE],
  },
  "a load has the waits that are over, too": {
    defect: (good) => ({
      load: async (thread, ns, id) => ({
        ...(await good.load(thread, ns, id)),
        waits: ns === "" ? await good.waits({ thread }) : [],
      }),
    }),
    caughtBy: [LOADED],
  },
  "a load has the open waits only": {
    defect: (good) => ({
      async load(...place) {
        const loaded = await good.load(...place);
        return { ...loaded, waits: loaded.waits.filter((row) => row.status === "open") };
      },
    }),
    caughtBy: [LOADED],
  },
  "a load of any namespace has the thread's waits": {
    defect: (good) => ({
      load: async (thread, ns, id) => ({
        ...(await good.load(thread, ns, id)),
        waits: (await good.load(thread, "", undefined)).waits,
      }),
    }),
    caughtBy: [LOADED],
  },
  "a load has the waits of its own checkpoint only": {
    defect: (good) => ({
      async load(...place) {
        const loaded = await good.load(...place);
        return { ...loaded, waits: loaded.waits.filter((row) => row.checkpoint === loaded.checkpoint?.id) };
      },
    }),
    caughtBy: [LOADED],
  },
  "a load reads the waits a moment after the head": {
    defect: (good) => ({
      async load(thread, ns, id) {
        const loaded = await good.load(thread, ns, id);
        return { ...loaded, waits: (await good.load(thread, ns, id)).waits };
      },
    }),
    caughtBy: ["a load sees the head and the waits of one commit, never the one without the other"],
  },
  "decisions need not follow each other": {
    defect(good, shared) {
      const key = (row: DecisionRow) => JSON.stringify([row.thread, row.seq]);
      return {
        commit: (group) =>
          commitChanged(good, group, async (op) => {
            if (op.kind !== "decision") return op;
            const seq = ((await good.decision(op.thread, undefined))?.seq ?? 0) + 1;
            shared.set(key({ ...op.row, seq }), op.row);
            return { ...op, row: { ...op.row, seq } };
          }),
        async *decisions(query) {
          for await (const row of good.decisions(query)) yield (shared.get(key(row)) as DecisionRow | undefined) ?? row;
        },
      };
    },
    caughtBy: [CHAIN],
  },
  "a decision whose place is taken is left out, and nobody is told": {
    defect: ignoring("DECISION_CONFLICT"),
    caughtBy: [
      ...[CHAIN, TOGETHER, "of two decisions in one group that take the same place the first one stands"],
      "of two openers that change one decision at the same time exactly one wins",
    ],
  },
  "decisions are stored before the rest of their commit": {
    defect: (good) => ({
      async commit(group) {
        const verdicts: Verdict[] = [];
        for (const commit of group) {
          const [decisions, others] = [true, false].map((wanted) =>
            commit.filter((op) => (op.kind === "decision") === wanted),
          );
          const [first] = await good.commit([decisions ?? []]);
          verdicts.push(first ?? (await good.commit([others ?? []]))[0]);
        }
        return verdicts;
      },
    }),
    caughtBy: [TOGETHER],
  },
  "a decision that is refused takes no wait with it": {
    defect: (good) => ({
      async commit(group) {
        const verdicts = await good.commit(group);
        for (const [at, verdict] of verdicts.entries()) {
          if (verdict?.code === "DECISION_CONFLICT") {
            await good.commit([(group[at] ?? []).filter((op) => op.kind !== "decision")]);
          }
        }
        return verdicts;
      },
    }),
    caughtBy: [TOGETHER],
  },
  "all decisions come by place": {
    defect: (good) => ({
      async *decisions(query) {
        const found: DecisionRow[] = [];
        for await (const row of good.decisions(query)) found.push(row);
        yield* found.sort((a, b) => a.seq - b.seq);
      },
    }),
    caughtBy: [CHAINS],
  },
  "threads with decisions come by UTF-16 units": {
    defect: (good) => ({
      async *decisions(query) {
        const found: DecisionRow[] = [];
        for await (const row of good.decisions(query)) found.push(row);
        yield* found.sort((a, b) => (a.thread < b.thread ? -1 : a.thread > b.thread ? 1 : 0));
      },
    }),
    caughtBy: [CHAINS],
  },
  "a chain ends after its first hundred decisions": {
    defect: (good) => ({
      async *decisions(query) {
        for await (const row of good.decisions(query)) if (row.seq <= 100) yield row;
      },
    }),
    caughtBy: [CHAINS],
  },
};

for (const [name, { defect, caughtBy }] of Object.entries(waitMutants)) {
  test(`a backend fails the suite in which ${name}`, async () => {
    expect(await failures(defect, caughtBy)).toEqual(expect.arrayContaining([...caughtBy]));
  });
}
