/** Defects in what a backend stores and refuses of runs: each must fail the suite, by the case meant for it. */

import { type Backend, HoldfastError, type Op, RUN_MOVES, type RunRow, type RunStatus, type Verdict } from "holdfast";
import { expect, test } from "vitest";
import { commitChanged, type Defect, failures, ignoring, type Mutant, mapOps } from "./broken.ts";

type RunOp = Extract<Op, { kind: "run" }>;
type FenceOp = Extract<Op, { kind: "fence" }>;

const runOf = async (backend: Backend, id: string): Promise<RunRow | undefined> => (await backend.runs({ id }))[0];

/** Changes the starts and changes of runs, given what is stored under their id; undefined leaves the operation out. */
function runAs(
  change: (op: RunOp, stored: RunRow | undefined, good: Backend) => Op | undefined | Promise<Op | undefined>,
): Defect {
  return (good) => ({
    commit: (group) =>
      commitChanged(good, group, async (op) =>
        op.kind === "run" ? change(op, await runOf(good, op.row.id), good) : op,
      ),
  });
}

/** Lets fences pass that the good backend would refuse. */
function passing(passes: (op: FenceOp, stored: RunRow | undefined) => boolean): Defect {
  return (good) => ({
    commit: (group) =>
      commitChanged(good, group, async (op) =>
        op.kind === "fence" && passes(op, await runOf(good, op.run)) ? undefined : op,
      ),
  });
}

const running = (row: RunRow | undefined, op: FenceOp) => row?.status === "running" && row.thread === op.thread;

/** Never that of a run: whatever is changed from it is refused. */
const NOWHERE = -1;

const READ = "a run is read back as it was stored, with every field, and a change replaces it";
const ONCE =
  "a run is started once: a second one under its id or its key is refused with RUN_CONFLICT, which names the first";
const REVISION = "a run is changed only from the revision that is stored, and only in its thread: RUN_CONFLICT";
const MOVES = "a run moves as RUN_MOVES says and no other way: RUN_CONFLICT with both statuses";
const KEEPS = "a run keeps its key and the moment of its start: a change of either is refused with RUN_CONFLICT";
const ONE = "of the runs of a thread one at most is running, and those of other threads are in nobody's way";
const BEGINS = "a run begins when every run before it in its thread, by (createdAt, id), has ended, and not before";
const TAKEOVER = "a run that is running is taken over even where another one has come in before it since";
const FENCE = "a fence lets its commit pass while its run is running in exactly that epoch, and stores nothing";
const FENCED =
  "a fence refuses its whole commit with RUN_LOST, wherever it stands, unless its run is running in that epoch";
const EACH = "each operation on runs is judged on what the ones before it left, in one commit as in one group";
const WHOLE = "a refused commit leaves no run, and no change of one, wherever the refused operation stands";
const LARGE = "what a run was given and what became of it may be megabytes";
const IDS = "runs' ids, keys and all that they are found by may have any characters and 3,000 of them";
const DELETED = "a deleted thread leaves no run, and the ids and keys of its runs are free again";
const OUTDATED = "a worker's fence is refused when its thread was deleted, and so is every change of its run";
const REBORN = "a deletion of a thread and runs before and after it may stand in one commit";
const SIMILAR = "a deletion touches the runs of no other thread, however similar its id";
const TWO =
  "each of two openers sees the runs of the other one, is judged by them, and loses what the other takes over";
const race = (what: string) => `of two openers that take one run at the same time, by ${what}, exactly one wins`;
const KEPT = "every run that was acknowledged is there after closing and opening again, and is judged by";
const CLOSED = "a closed backend answers nothing about runs: CLOSED";

const runMutants: Record<string, Mutant> = {
  "what a run does not have is null": {
    defect: (good) => ({
      runs: async (query) =>
        (await good.runs(query)).map((row) => ({ ...row, worker: row.worker ?? (null as unknown as undefined) })),
    }),
    caughtBy: [READ],
  },
  "moments of runs are whole milliseconds": {
    defect: (good) => ({
      commit: (group) =>
        good.commit(
          mapOps(group, "run", (op) => ({ ...op, row: { ...op.row, createdAt: Math.round(op.row.createdAt) } })),
        ),
    }),
    caughtBy: [READ],
  },
  "the texts of runs end somewhere": {
    defect: (good) => ({
      commit: (group) =>
        good.commit(mapOps(group, "run", (op) => ({ ...op, row: { ...op.row, body: op.row.body.slice(0, 2 ** 20) } }))),
    }),
    caughtBy: [LARGE],
  },
  "a run that is started twice is left as it is, and nobody is told": {
    defect: ignoring("RUN_CONFLICT", ({ details }) => details["stored"] !== undefined),
    caughtBy: [ONCE, DELETED, race("id"), race("key")],
  },
  "who starts a run twice is told the id that was given": {
    defect: (good) => ({
      commit: async (group) =>
        (await good.commit(group)).map((verdict) =>
          verdict?.details["stored"] === undefined
            ? verdict
            : new HoldfastError("RUN_CONFLICT", "", { details: { ...verdict.details, stored: verdict.details["id"] } }),
        ),
    }),
    caughtBy: [ONCE],
  },
  "the key of a run is unique in its thread only": {
    defect(good) {
      const inside = (op: RunOp) => op.row.key && JSON.stringify([op.row.thread, op.row.key]);
      return {
        commit: (group) => good.commit(mapOps(group, "run", (op) => ({ ...op, row: { ...op.row, key: inside(op) } }))),
        runs: async (query) =>
          (await good.runs(query)).map((row) => ({ ...row, key: row.key && JSON.parse(row.key)[1] })),
      };
    },
    caughtBy: [ONCE],
  },
  "the key of a run that has ended is free": {
    defect: runAs(async (op, _, good) => {
      const [other] = op.expect === null && op.row.key !== undefined ? await good.runs({ key: op.row.key }) : [];
      return other !== undefined && RUN_MOVES[other.status].length === 0 && other.id !== op.row.id ? undefined : op;
    }),
    caughtBy: [ONCE],
  },
  "the revision of a run is ignored": {
    defect: runAs((op, stored) => (op.expect === null || stored === undefined ? op : { ...op, expect: stored.rev })),
    caughtBy: [REVISION],
  },
  "a run is changed in the name of any thread": {
    defect: runAs((op, stored) =>
      op.expect === null || stored === undefined
        ? op
        : { ...op, thread: stored.thread, row: { ...op.row, thread: stored.thread } },
    ),
    caughtBy: [REVISION],
  },
  "a change of a run that is refused is left out, and nobody is told": {
    defect: ignoring("RUN_CONFLICT"),
    caughtBy: [REVISION, MOVES, KEEPS, ONE, BEGINS, TWO, race("claim"), race("takeover")],
  },
  "a refused move names no statuses": {
    defect: (good) => ({
      commit: async (group) =>
        (await good.commit(group)).map((verdict) =>
          verdict?.details["from"] === undefined ? verdict : new HoldfastError("RUN_CONFLICT", "It may not."),
        ),
    }),
    caughtBy: [MOVES],
  },
  "another key, given with a change, is passed over": {
    defect: runAs((op, stored) => ({ ...op, row: { ...op.row, key: op.expect === null ? op.row.key : stored?.key } })),
    caughtBy: [KEEPS],
  },
  "another moment of the start, given with a change, is passed over": {
    defect: runAs((op, stored) => ({ ...op, row: { ...op.row, createdAt: stored?.createdAt ?? op.row.createdAt } })),
    caughtBy: [KEEPS],
  },
  "any number of runs of a thread may be running": {
    defect: ignoring(
      "RUN_CONFLICT",
      ({ details }) => details["ahead"] !== undefined && details["status"] === "running",
    ),
    caughtBy: [ONE, EACH],
  },
  "one run at most of all threads is running": {
    defect: runAs(async (op, stored, good) =>
      op.row.status === "running" &&
      stored?.status !== "running" &&
      (await good.runs({ status: ["running"] })).length > 0
        ? { ...op, expect: NOWHERE }
        : op,
    ),
    caughtBy: [ONE],
  },
  "a run need not wait for those before it": {
    defect: ignoring(
      "RUN_CONFLICT",
      ({ details }) => details["ahead"] !== undefined && details["status"] !== "running",
    ),
    caughtBy: [BEGINS],
  },
  ...Object.fromEntries(
    (["queued", "waiting", "retrying", "parked"] as const).map((status): [string, Mutant] => [
      `a run need not wait for one before it that is ${status}`,
      {
        defect: ignoring(
          "RUN_CONFLICT",
          ({ details }) => details["ahead"] !== undefined && details["status"] === status,
        ),
        caughtBy: [BEGINS],
      },
    ]),
  ),
  "a run waits for those before it that have ended, too": {
    defect: runAs(async (op, stored, good) => {
      if (op.row.status !== "running" || stored === undefined) return op;
      const [first] = await good.runs({ thread: op.thread });
      return first?.id === op.row.id ? op : { ...op, expect: NOWHERE };
    }),
    caughtBy: [BEGINS],
  },
  "runs of one moment begin in the order of UTF-16 units": {
    defect: ignoring("RUN_CONFLICT", ({ details }) => (details["ahead"] as string) > (details["id"] as string)),
    caughtBy: [BEGINS],
  },
  "a run is taken over only where it is the first of its thread": {
    defect: runAs(async (op, stored, good) => {
      if (op.row.status !== "running" || stored?.status !== "running") return op;
      const [first] = await good.runs({ thread: op.thread, status: ["queued", "running"] });
      return first?.id === op.row.id ? op : { ...op, expect: NOWHERE };
    }),
    caughtBy: [TAKEOVER],
  },
  "every fence passes": {
    defect: passing(() => true),
    caughtBy: [FENCED, EACH, OUTDATED, TWO, KEPT],
  },
  "a fence passes in every epoch": {
    defect: passing((op, stored) => running(stored, op)),
    caughtBy: [FENCED, TWO],
  },
  "a fence passes in a later epoch": {
    defect: passing((op, stored) => running(stored, op) && (stored as RunRow).epoch > op.epoch),
    caughtBy: [FENCED, TWO],
  },
  "a fence passes in whatever status": {
    defect: passing((op, stored) => stored?.thread === op.thread && stored.epoch === op.epoch),
    caughtBy: [FENCED],
  },
  ...Object.fromEntries(
    (Object.keys(RUN_MOVES) as RunStatus[])
      .filter((status) => status !== "running")
      .map((status): [string, Mutant] => [
        `a fence passes while its run is ${status}`,
        {
          defect: passing((op, stored) => stored?.status === status && stored.epoch === op.epoch),
          caughtBy: [FENCED],
        },
      ]),
  ),
  "a fence passes for another thread's run": {
    defect: passing((op, stored) => stored?.status === "running" && stored.epoch === op.epoch),
    caughtBy: [FENCED],
  },
  "a fence passes where there is no such run": {
    defect: passing((_, stored) => stored === undefined),
    caughtBy: [FENCED, OUTDATED],
  },
  "no fence passes": {
    defect: (good) => ({ commit: (group) => good.commit(mapOps(group, "fence", (op) => ({ ...op, epoch: NOWHERE }))) }),
    caughtBy: [FENCE],
  },
  "a fence is a sign of life, and stored": {
    defect: (good) => ({
      async commit(group) {
        const verdicts = await good.commit(group);
        for (const op of group.flat()) {
          const row = op.kind === "fence" ? await runOf(good, op.run) : undefined;
          if (row?.status !== "running") continue;
          const { era } = await good.load(row.thread, "", undefined);
          await good.commit([
            [{ kind: "run", thread: row.thread, era, row: { ...row, rev: row.rev + 1 }, expect: row.rev }],
          ]);
        }
        return verdicts;
      },
    }),
    caughtBy: [FENCE],
  },
  "a fence refuses only what comes after it": {
    defect: (good) => ({
      async commit(group) {
        const verdicts: Verdict[] = [];
        for (const commit of group) {
          const at = commit.findIndex((op) => op.kind === "fence");
          const [first] = await good.commit([commit.slice(0, Math.max(0, at))]);
          verdicts.push(first ?? (await good.commit([commit.slice(Math.max(0, at))]))[0]);
        }
        return verdicts;
      },
    }),
    caughtBy: [FENCED],
  },
  "fences are looked at before the rest of their commit": {
    defect: (good) => ({
      commit: (group) =>
        good.commit(
          group.map((commit) => [
            ...commit.filter((op) => op.kind === "fence"),
            ...commit.filter((op) => op.kind !== "fence"),
          ]),
        ),
    }),
    caughtBy: [FENCE, EACH],
  },
  "runs are stored before the rest of their commit": {
    defect: (good) => ({
      async commit(group) {
        const verdicts: Verdict[] = [];
        for (const commit of group) {
          const [first] = await good.commit([commit.filter((op) => op.kind === "run" || op.kind === "fence")]);
          verdicts.push(
            first ?? (await good.commit([commit.filter((op) => op.kind !== "run" && op.kind !== "fence")]))[0],
          );
        }
        return verdicts;
      },
    }),
    caughtBy: [WHOLE],
  },
  "the keys of runs are trimmed": {
    defect: (good) => ({
      commit: (group) =>
        good.commit(mapOps(group, "run", (op) => ({ ...op, row: { ...op.row, key: op.row.key?.trim() } }))),
    }),
    caughtBy: [IDS],
  },
  "the graphs of runs are kept to a thousand characters": {
    defect: (good) => ({
      commit: (group) =>
        good.commit(mapOps(group, "run", (op) => ({ ...op, row: { ...op.row, graph: op.row.graph.slice(0, 1000) } }))),
    }),
    caughtBy: [IDS],
  },
  "runs are left when their thread is deleted": {
    defect(good, shared) {
      return {
        async commit(group) {
          for (const op of group.flat()) {
            if (op.kind === "deleteThread") shared.set(op.thread, await good.runs({ thread: op.thread }));
          }
          return good.commit(group);
        },
        async runs(query) {
          const left = query.thread === undefined ? [] : (shared.get(query.thread) as RunRow[] | undefined);
          return [...(await good.runs(query)), ...(left ?? [])];
        },
      };
    },
    caughtBy: [DELETED],
  },
  "the key of a run is taken for ever, whatever becomes of its thread": {
    defect(good, shared) {
      return {
        commit: (group) =>
          commitChanged(good, group, (op) => {
            if (op.kind !== "run" || op.expect !== null || op.row.key === undefined) return op;
            const key = `key ${op.row.key}`;
            const taken = shared.has(key);
            shared.set(key, true);
            return taken ? { ...op, expect: NOWHERE } : op;
          }),
      };
    },
    caughtBy: [DELETED, REBORN, KEPT],
  },
  "runs and fences pay no regard to the era": {
    defect: (good) => ({
      commit: (group) =>
        commitChanged(good, group, async (op) =>
          op.kind === "run" || op.kind === "fence"
            ? { ...op, era: (await good.load(op.thread, "", undefined)).era }
            : op,
        ),
    }),
    caughtBy: [OUTDATED],
  },
  "a deletion comes after the rest of its commit": {
    defect: (good) => ({
      commit: (group) =>
        good.commit(
          group.map((commit) => [
            ...commit.filter((op) => op.kind !== "deleteThread"),
            ...commit.filter((op) => op.kind === "deleteThread"),
          ]),
        ),
    }),
    caughtBy: [REBORN],
  },
  "the id of a deleted thread is a pattern": {
    defect(good) {
      const like = (pattern: string) => new RegExp(`^${pattern.replace(/_/g, ".").replace(/%/g, ".*")}$`, "s");
      const matching = async (pattern: string) =>
        (await good.runs({})).map((row) => row.thread).filter((thread) => like(pattern).test(thread));
      return {
        async commit(group) {
          const verdicts: Verdict[] = [];
          for (const commit of group) {
            const ops: Op[] = [];
            for (const op of commit) {
              const threads = op.kind === "deleteThread" ? await matching(op.thread) : [];
              ops.push(op, ...threads.map((thread): Op => ({ kind: "deleteThread", thread })));
            }
            verdicts.push(...(await good.commit([ops])));
          }
          return verdicts;
        },
      };
    },
    caughtBy: [SIMILAR],
  },
  "an opener keeps what it has once read of runs": {
    defect(good) {
      const known = new Map<string, readonly RunRow[]>();
      return {
        async runs(query) {
          const key = JSON.stringify(query);
          const found = known.get(key) ?? (await good.runs(query));
          known.set(key, found);
          return found;
        },
        async dueRuns(query) {
          const key = JSON.stringify(query);
          const found = known.get(key) ?? (await good.dueRuns(query));
          known.set(key, found);
          return found;
        },
      };
    },
    caughtBy: [TWO],
  },
  "what is queued is kept in the process that has it open": {
    defect(good, shared) {
      const late = shared.get("closed") === true;
      return {
        runs: async (query) => (await good.runs(query)).filter((row) => !late || row.status !== "queued"),
        async close() {
          shared.set("closed", true);
          await good.close();
        },
      };
    },
    caughtBy: [KEPT],
  },
  "a closed backend says what time it is": {
    defect: () => ({ now: () => Date.now() }),
    caughtBy: [CLOSED],
  },
  ...Object.fromEntries(
    (["runs", "dueRuns"] as const).map((read): [string, Mutant] => [
      `a closed backend has nothing to tell by ${read}`,
      { defect: (good) => ({ [read]: (query: never) => good[read](query).catch(() => []) }), caughtBy: [CLOSED] },
    ]),
  ),
};

for (const [name, { defect, caughtBy }] of Object.entries(runMutants)) {
  test(`a backend fails the suite in which ${name}`, async () => {
    expect(await failures(defect, caughtBy)).toEqual(expect.arrayContaining([...caughtBy]));
  });
}

test("a backend fails the suite that allows a single move too many, or too few", async () => {
  const statuses = Object.keys(RUN_MOVES) as RunStatus[];
  for (const from of statuses) {
    for (const to of statuses) {
      const allowed = RUN_MOVES[from].includes(to);
      const defect = runAs((op, stored) => {
        if (stored?.status !== from || op.row.status !== to) return op;
        return allowed ? { ...op, expect: NOWHERE } : undefined;
      });
      expect(await failures(defect, [MOVES]), `${from} → ${to}`).toEqual([MOVES]);
    }
  }
});
