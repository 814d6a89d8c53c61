/** The conformance suite is itself tested: backends with one defect each must fail it, and by the case meant for it. */

import { type BackendCase, backendCases } from "holdfast/testing";
import type { Backend, Commit, Op, Verdict } from "holdfast";
import { expect, test } from "vitest";
import { failures, type Mutant, map, mapOps } from "./broken.ts";

const mutants: Record<string, Mutant> = {
  "the head check is ignored": {
    defect: (good) => ({
      commit: (group) => good.commit(mapOps(group, "checkpoint", (op) => ({ ...op, heads: undefined }))),
    }),
    caughtBy: [
      "a checkpoint whose writer did not know the head is refused with HEAD_MOVED",
      "of two openers that change one head at the same time exactly one wins",
    ],
  },
  "special writes are first-writer-wins like all others": {
    defect: (good) => ({
      commit: (group) => good.commit(mapOps(group, "writes", (op) => ({ ...op, slot: undefined }))),
    }),
    caughtBy: ["a special write replaces the one in its slot and leaves the other slots alone"],
  },
  "writes are left when their thread is deleted": {
    defect(good) {
      const left = new Map<string, Awaited<ReturnType<Backend["load"]>>["writes"]>();
      return {
        async commit(group) {
          for (const op of group.flat()) {
            if (op.kind !== "deleteThread") continue;
            for await (const row of good.checkpoints({ thread: op.thread })) {
              left.set(JSON.stringify([row.thread, row.ns, row.id]), row.writes);
            }
          }
          return good.commit(group);
        },
        async load(thread, ns, id) {
          const loaded = await good.load(thread, ns, id);
          const old = left.get(JSON.stringify([thread, ns, loaded.checkpoint?.id])) ?? [];
          return { ...loaded, writes: [...loaded.writes, ...old] };
        },
      };
    },
    caughtBy: ["a deleted thread leaves no row of any kind, not even for a new thread with the same ids"],
  },
  "the latest checkpoint is the one with the greatest id": {
    defect: (good) => ({
      async load(thread, ns, id) {
        let latest = id;
        if (latest === undefined) for await (const row of good.checkpoints({ thread, ns, limit: 1 })) latest = row.id;
        return { ...(await good.load(thread, ns, latest)), ...(id === undefined ? { head: latest } : {}) };
      },
    }),
    caughtBy: ["the head is the checkpoint stored last, not the one with the greatest id"],
  },
  "what stands before the refused operation of a commit is applied": {
    defect: (good) => ({
      async commit(group) {
        const verdicts = [...(await good.commit(group))];
        for (const [at, verdict] of verdicts.entries()) {
          if (verdict === undefined) continue;
          for (const op of group[at] ?? []) if ((await good.commit([[op]]))[0] !== undefined) break;
        }
        return verdicts;
      },
    }),
    caughtBy: ["a refused commit leaves none of its operations, wherever the refused one stands"],
  },
  "another run's different writes are silently ignored": {
    defect: (good) => ({
      commit: async (group) =>
        (await good.commit(group)).map((verdict) => (verdict?.code === "WRITE_CONFLICT" ? undefined : verdict)),
    }),
    caughtBy: ["another run's different result of a task is refused with WRITE_CONFLICT and leaves nothing"],
  },
  "another run's equal writes are refused": {
    defect: (good) => ({
      async commit(group) {
        const verdicts: Verdict[] = [];
        for (const commit of group) {
          const changed = mapOps([commit], "writes", (op) =>
            op.run === "run 2" ? { ...op, body: op.body.replace('json/1 [[0,"c",1]]', 'json/1 [[0,"c",1.5]]') } : op,
          );
          verdicts.push(...(await good.commit(changed)));
        }
        return verdicts;
      },
    }),
    caughtBy: [
      "another run's equal result is no conflict, nor is a result of another task, checkpoint, namespace or thread",
    ],
  },
  "the era of an operation is ignored": {
    defect: (good) => ({
      async commit(group) {
        const verdicts: Verdict[] = [];
        for (const commit of group) {
          const ops: Op[] = [];
          for (const op of commit) {
            if (op.kind === "deleteThread") ops.push(op);
            else ops.push({ ...op, era: (await good.load(op.thread, "", undefined)).era });
          }
          verdicts.push(...(await good.commit([ops])));
        }
        return verdicts;
      },
    }),
    caughtBy: ["runs that loaded a thread before it was deleted are refused with THREAD_DELETED, whatever they store"],
  },
  "branches store their items in the list that they continue": {
    defect(good, shared) {
      const root = (list: string): string => {
        const base = shared.get(list);
        return typeof base === "string" ? root(base) : list;
      };
      return {
        commit: (group) =>
          good.commit(
            mapOps(group, "items", (op) => {
              if (op.base !== undefined) shared.set(op.list, op.base.list);
              return { ...op, list: root(op.list), base: undefined };
            }),
          ),
        items: (thread, list, length) => good.items(thread, root(list), length),
      };
    },
    caughtBy: ["two branches that continue one list do not see each other's items"],
  },
  "a base is read to its end, not to where the branch left it": {
    defect: (good) => ({
      commit: (group) =>
        good.commit(mapOps(group, "items", (op) => (op.base ? { ...op, base: { ...op.base, length: 999 } } : op))),
    }),
    caughtBy: ["two branches that continue one list do not see each other's items"],
  },
  "a list never says that it goes on": {
    defect: (good) => ({ items: async (...args) => ({ ...(await good.items(...args)), extended: false }) }),
    caughtBy: ["a list says whether it goes on after the items asked for"],
  },
  "a taken place in a list is skipped, not refused": {
    defect: (good) => ({
      commit: async (group) =>
        (await good.commit(group)).map((verdict) => (verdict?.code === "LIST_CONFLICT" ? undefined : verdict)),
    }),
    caughtBy: ["a place in a list is taken once: storing it again is refused with LIST_CONFLICT"],
  },
  "the revision of an effect is ignored": {
    defect: (good) => ({
      async commit(group) {
        const verdicts: Verdict[] = [];
        for (const commit of group) {
          const revs = new Map<string, number | null>();
          const ops: Op[] = [];
          for (const op of commit) {
            if (op.kind !== "effect") {
              ops.push(op);
              continue;
            }
            const stored = (await good.effects({ key: op.row.key }))[0]?.rev ?? null;
            ops.push({ ...op, expect: revs.get(op.row.key) ?? stored });
            revs.set(op.row.key, op.row.rev);
          }
          verdicts.push(...(await good.commit([ops])));
        }
        return verdicts;
      },
    }),
    caughtBy: [
      "an effect that exists is not begun a second time: EFFECT_CONFLICT",
      "an effect is changed only from the revision that is stored: EFFECT_CONFLICT",
    ],
  },
  "effects with a given key are deleted with their thread": {
    defect: (good) => ({
      effects: async (query) => (await good.effects(query)).filter((row) => row.thread !== ""),
    }),
    caughtBy: ["an effect with a given key outlives its thread, with an empty thread id, and can be changed"],
  },
  "deletion takes every thread whose id begins alike": {
    defect: (good) => ({
      async commit(group) {
        const threads = new Set<string>();
        for await (const row of good.checkpoints({})) threads.add(row.thread);
        const alike = (thread: string) => [...threads].filter((id) => id.startsWith(thread) && id !== thread);
        return good.commit(
          group.map((commit) =>
            commit.flatMap((op): Op[] =>
              op.kind === "deleteThread"
                ? [op, ...alike(op.thread).map((thread) => ({ kind: "deleteThread", thread }) as const)]
                : [op],
            ),
          ),
        );
      },
    }),
    caughtBy: ["a deletion touches no other thread, however similar its id"],
  },
  "a refused commit ends its group": {
    defect: (good) => ({
      async commit(group) {
        const verdicts: Verdict[] = [];
        for (const commit of group) {
          const refused = verdicts.find((verdict) => verdict !== undefined);
          verdicts.push(...(refused === undefined ? await good.commit([commit]) : [refused]));
        }
        return verdicts;
      },
    }),
    caughtBy: ["a refused commit in the middle of a group hinders none of the others"],
  },
  "the commits of a group are judged on the state before the group": {
    defect: (good) => ({
      async commit(group) {
        const heads = new Map<string, string | undefined>();
        for (const op of group.flat()) {
          if (op.kind !== "checkpoint") continue;
          heads.set(JSON.stringify([op.thread, op.ns]), (await good.load(op.thread, op.ns, undefined)).head);
        }
        return good.commit(
          mapOps(group, "checkpoint", (op) => {
            const head = heads.get(JSON.stringify([op.thread, op.ns])) ?? null;
            return { ...op, heads: op.heads?.includes(head) ? undefined : op.heads };
          }),
        );
      },
    }),
    caughtBy: ["each commit of a group is judged on what the accepted ones before it left"],
  },
  "an id ends at its first NUL": {
    defect(good) {
      const cut = (id: string) => id.split("\u0000")[0] ?? "";
      return {
        commit: (group) =>
          good.commit(group.map((commit) => commit.map((op) => ({ ...op, thread: cut(op.thread) }) as Op))),
        load: (thread, ns, id) => good.load(cut(thread), ns, id),
        items: (thread, list, length) => good.items(cut(thread), list, length),
        blobs: (thread, hashes) => good.blobs(cut(thread), hashes),
      };
    },
    caughtBy: ["thread ids of any characters and of 3,000 characters stay apart"],
  },
  "namespaces are compared without regard to case": {
    defect: (good) => ({
      commit: (group) =>
        good.commit(
          group.map((commit) => commit.map((op) => ("ns" in op ? { ...op, ns: op.ns.toLowerCase() } : op) as Op)),
        ),
      load: (thread, ns, id) => good.load(thread, ns.toLowerCase(), id),
      ancestors: (thread, ns, id) => good.ancestors(thread, ns.toLowerCase(), id),
    }),
    caughtBy: ["namespaces and checkpoint ids of any characters and of 3,000 characters stay apart"],
  },
  "checkpoints are ordered by UTF-16 units": {
    defect: (good) => ({
      async *checkpoints(query) {
        const { limit, ...rest } = query;
        const found = [];
        for await (const row of good.checkpoints(rest)) found.push(row);
        yield* found.sort((a, b) => (a.id < b.id ? 1 : a.id > b.id ? -1 : 0)).slice(0, limit);
      },
    }),
    caughtBy: ["checkpoints come by descending id in the order of code points"],
  },
  "the limit counts rows before they are filtered": {
    defect: (good) => ({
      async *checkpoints({ before, ...query }) {
        const all = new Set<string>();
        for await (const row of good.checkpoints({ ...query, before }))
          all.add(JSON.stringify([row.thread, row.ns, row.id]));
        for await (const row of good.checkpoints(query)) {
          if (all.has(JSON.stringify([row.thread, row.ns, row.id]))) yield row;
        }
      },
    }),
    caughtBy: ["checkpoints come by descending id in the order of code points"],
  },
  "listed checkpoints have no writes": {
    defect: (good) => ({ checkpoints: (query) => map(good.checkpoints(query), (row) => ({ ...row, writes: [] })) }),
    caughtBy: ["every listed checkpoint has its own writes"],
  },
  "ancestors are the smaller ids, not the parents": {
    defect: (good) => ({
      async *ancestors(thread, ns, id) {
        for await (const row of good.checkpoints({ thread, ns })) if (row.id <= id) yield row;
      },
    }),
    caughtBy: ["ancestors follow the parents through branches and forks, newest first, each with its writes"],
  },
  "a checkpoint stored again keeps its first row": {
    defect: (good) => ({
      async commit(group) {
        const known = new Set<string>();
        for await (const row of good.checkpoints({})) known.add(JSON.stringify([row.thread, row.ns, row.id]));
        return good.commit(
          group.map((commit) =>
            commit.filter((op) => op.kind !== "checkpoint" || !known.has(JSON.stringify([op.thread, op.ns, op.id]))),
          ),
        );
      },
    }),
    caughtBy: ["the same checkpoint stored again replaces the row, keeps its writes and needs no other head"],
  },
  "a blob stored again replaces the first one": {
    defect(good, shared) {
      return {
        commit(group) {
          for (const op of group.flat())
            if (op.kind === "blob") shared.set(JSON.stringify([op.thread, op.hash]), op.data);
          return good.commit(group);
        },
        async blobs(thread, hashes) {
          const found = await good.blobs(thread, hashes);
          return new Map(
            [...found].map(([hash, data]) => [
              hash,
              (shared.get(JSON.stringify([thread, hash])) as string | Uint8Array) ?? data,
            ]),
          );
        },
      };
    },
    caughtBy: ["what is stored under a hash stays, and belongs to one thread"],
  },
  "an opener reads heads from its own memory": {
    defect(good) {
      const heads = new Map<string, string | undefined>();
      return {
        async commit(group) {
          heads.clear();
          return good.commit(group);
        },
        async load(thread, ns, id) {
          const loaded = await good.load(thread, ns, id);
          const place = JSON.stringify([thread, ns]);
          if (!heads.has(place)) heads.set(place, loaded.head);
          return { ...loaded, head: heads.get(place) };
        },
      };
    },
    caughtBy: ["a read sees what another opener has committed since the same read before"],
  },
  "heads are judged on what was read before other openers committed": {
    defect: (good) => ({
      async commit(group) {
        const judged: Commit[] = [];
        for (const commit of group) {
          const ops: Op[] = [];
          for (const op of commit) {
            const head = op.kind === "checkpoint" ? (await good.load(op.thread, op.ns, undefined)).head : undefined;
            const known = op.kind === "checkpoint" && op.heads?.includes(head ?? null);
            ops.push(known ? { ...op, heads: undefined } : op);
          }
          judged.push(ops);
        }
        return good.commit(judged);
      },
    }),
    caughtBy: ["of two openers that change one head at the same time exactly one wins"],
  },
  "an owner that has closed is still alive": {
    defect: () => ({ ownerAlive: async (owner) => owner.length > 30 }),
    caughtBy: ["an owner is alive for the others until it closes, and its end closes nobody else"],
  },
  "closing closes nothing": {
    defect: () => ({ close: async () => {} }),
    caughtBy: ["closing twice is fine, and every later call fails with CLOSED"],
  },
};

test("the backend that the defects are put into has none", async () => {
  expect(await failures(() => ({}))).toEqual([]);
});

test("every case of the suite has a name of its own", () => {
  const names = backendCases.map((entry: BackendCase) => entry.name);
  expect(new Set(names).size).toBe(names.length);
});

for (const [name, { defect, caughtBy }] of Object.entries(mutants)) {
  test(`a backend fails the suite in which ${name}`, async () => {
    expect(await failures(defect, caughtBy)).toEqual(expect.arrayContaining([...caughtBy]));
  });
}
