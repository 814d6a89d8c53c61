/** Random groups of commits, and what a backend makes of them: to be compared with the memory backend. */

import fc from "fast-check";
import { type Backend, type Commit, type Op, RUN_MOVES, type RunRow, type RunStatus, type WaitStatus } from "holdfast";
import * as rows from "../../src/testing/backend-rows.ts";

// Few of everything, so that operations meet.
const threads = ["t", "u", ""];
const ids = ["1", "2", "3"];
const thread = fc.constantFrom(...threads);
const ns = fc.constantFrom("", "", "sub");
const id = fc.constantFrom(...ids);
const task = fc.constantFrom("a", "b");
const rev = fc.constantFrom(0, 1, 2);
const expected = fc.option(rev, { nil: null });
const run = fc.constantFrom("run 1", "run 2", undefined);
const statuses = ["open", "answered", "consumed", "superseded"] as const satisfies readonly WaitStatus[];
const entries = fc.array(fc.tuple(fc.integer({ min: -2, max: 2 }), fc.constant("c"), fc.constantFrom(1, 2)), {
  minLength: 1,
  maxLength: 2,
});

export const runStatuses = Object.keys(RUN_MOVES) as RunStatus[];
// UTF-16 units would put the last two the other way round.
export const runIds = ["", "1", "2", "\uffff", "😀"];
const epoch = fc.constantFrom(0, 1, 1, 2);

/** What a run of this id keeps. */
export function keptOf(id: string): Pick<RunRow, "thread" | "key" | "createdAt"> {
  const at = runIds.indexOf(id);
  return { thread: at < 3 ? "t" : "u", key: at % 2 === 0 ? `${at}` : undefined, createdAt: [5, -1, 5, 7, 7][at] ?? 0 };
}

/** An operation on a run or a fence. A run keeps its thread, key and first moment nearly always, so that it gets anywhere. */
export const randomRunOp = (era: fc.Arbitrary<number>): fc.Arbitrary<Op> =>
  fc.oneof(
    {
      arbitrary: fc
        .record({
          ...{ id: fc.constantFrom(...runIds), era, epoch, priority: fc.constantFrom(0, 0, 2, -1) },
          ...{ expect: fc.constantFrom(null, null, 0, 0, 0, 1, 1, 2, -1), due: fc.constantFrom(undefined, 3, 3, 9) },
          status: fc.constantFrom<RunStatus>(...runStatuses, "queued", "queued", "running", "running", "running"),
          ...{ graph: fc.constantFrom("g", "h", ""), owner: fc.constantFrom(undefined, "o", "") },
          ...{ worker: fc.constantFrom(undefined, "w"), other: fc.nat(20) },
        })
        .map(({ id, era, other, expect, ...fields }) => {
          const odd = [{}, { thread: "u" }, { key: "0" }, { createdAt: 5.5 }][other];
          const kept = { ...keptOf(id), ...odd };
          return rows.run(rows.runRow(id, { ...fields, ...kept, rev: expect === null ? 0 : expect + 1 }), expect, era);
        }),
      weight: 6,
    },
    fc
      .record({ thread: fc.constantFrom("t", "u"), era, id: fc.constantFrom(...runIds), epoch })
      .map(({ id, epoch, ...place }) => rows.fence(id, epoch, place)),
  );

export interface OpOptions {
  /** What the contract excludes too: special writes of several entries, and rows of a list that differ in its base. */
  readonly odd?: boolean;
  /** Effects in the name of a thread that is not the row's own, which the library never makes. */
  readonly foreign?: boolean;
}

/** Any operation but a deletion. */
export const randomOp = (
  era: fc.Arbitrary<number>,
  { odd = false, foreign = false }: OpOptions = {},
): fc.Arbitrary<Op> =>
  fc.oneof(
    fc
      .record({
        thread,
        era,
        ns,
        id,
        heads: fc.option(fc.array(fc.option(id, { nil: null }), { maxLength: 2 }), { nil: undefined }),
      })
      .map(({ id, ...fields }) => rows.checkpoint(id, fields)),
    fc
      .record({
        thread,
        era,
        ns,
        checkpoint: id,
        task,
        run,
        entries,
        slot: fc.constantFrom(undefined, undefined, -1, -3),
      })
      // A special write is one write.
      .map(({ entries, ...fields }) =>
        rows.writes(odd || fields.slot === undefined ? entries : entries.slice(0, 1), fields),
      ),
    fc
      .record({
        thread,
        era,
        list: fc.constantFrom("l", "m"),
        start: fc.integer({ min: 0, max: 3 }),
        based: odd ? fc.boolean() : fc.constant(true),
      })
      // Only the first row of a list says what it continues; the others are ignored.
      .map(({ list, start, based, ...fields }) =>
        rows.items(list, start, [start], { ...fields, ...(based && list === "m" ? rows.base("l", start) : {}) }),
      ),
    fc.record({ thread, era, hash: id, data: id }).map(({ hash, data, ...fields }) => rows.blob(hash, data, fields)),
    fc
      .record({
        key: id,
        thread,
        era,
        task,
        rev,
        expected,
        ordinal: fc.constantFrom(0, -1),
        digest: fc.constantFrom("d1", "d2"),
        by: foreign ? fc.option(thread, { nil: undefined }) : fc.constant(undefined),
      })
      .map(({ key, era, expected, by, ...fields }) => {
        const op = rows.effect(rows.effectRow(key, fields), expected, era);
        return by === undefined ? op : { ...op, thread: by };
      }),
    fc
      .record({
        ...{
          id,
          thread,
          era,
          rev,
          expected,
          status: fc.constantFrom(...statuses),
          openedAt: fc.constantFrom(-1, 5, 5.5),
        },
        ...{ due: fc.constantFrom(undefined, 3, 9), owner: fc.constantFrom(undefined, "o", "") },
      })
      .map(({ id, era, expected, ...fields }) => rows.wait(rows.waitRow(id, fields), expected, era)),
    fc.record({ thread, era, id }).map(({ id, ...fields }) => rows.endWait(id, fields)),
    fc
      .record({ thread, era, seq: fc.integer({ min: 1, max: 3 }) })
      .map(({ thread, era, seq }) => rows.decision(rows.decisionRow(seq, { thread }), era)),
    randomRunOp(era),
  );

export const randomDeletion: fc.Arbitrary<Op> = thread.map(rows.deleteThread);

/** `RUNS=1000 npx vitest run …` takes so many others instead of the same 150. */
export const runs = {
  numRuns: Number(process.env["RUNS"] ?? 150),
  ...(process.env["RUNS"] === undefined ? { seed: 20_261_130 } : {}),
};

async function everything(backend: Backend): Promise<unknown> {
  const sorted = (list: readonly unknown[]) => list.map((one) => JSON.stringify(one)).sort();
  const found: unknown[] = [
    sorted((await rows.collect(backend.checkpoints({}))).map((row) => ({ ...row, writes: sorted(row.writes) }))),
  ];
  for (const thread of threads) {
    for (const ns of ["", "sub"]) {
      for (const id of [undefined, ...ids]) {
        const { writes, waits, ...loaded } = await backend.load(thread, ns, id);
        found.push({ ...loaded, writes: sorted(writes), waits: sorted(waits) });
      }
    }
    for (const list of ["l", "m"]) {
      for (const length of [1, 3, 5]) found.push(await backend.items(thread, list, length));
    }
    found.push([...(await backend.blobs(thread, ids))].sort());
    for (const query of [{ thread }, { thread, task: "a" }, { thread, name: "charge", digest: "d2" }])
      found.push(sorted(await backend.effects(query)));
    found.push(await backend.waits({ thread }), await backend.decision(thread, undefined));
    found.push(await backend.runs({ thread }));
  }
  for (const key of ids) found.push(await backend.effects({ key }), await backend.waits({ id: key }));
  for (const status of statuses) found.push(await backend.waits({ status: [status] }));
  found.push(await backend.waits({ owner: "o" }), await backend.waits({ status: ["open"], dueBy: 5 }));
  found.push(await backend.waits({}), await rows.collect(backend.decisions({})));
  await runsOf(backend, found);
  return found;
}

async function runsOf(backend: Backend, found: unknown[]): Promise<void> {
  for (const id of runIds) found.push(await backend.runs({ id }));
  for (const status of runStatuses) found.push(await backend.runs({ status: [status] }));
  const queries = [{}, { key: "0" }, { key: "2" }, { owner: "o" }, { graph: "h" }, { worker: "w", limit: 1 }];
  for (const query of queries) found.push(await backend.runs(query));
  found.push(await backend.runs({ after: { createdAt: 5, id: "1" }, limit: 2 }));
  for (const graphs of [undefined, ["g"], ["h", "", "g", "h"], []]) {
    found.push(await backend.nextDue({ graphs }));
    for (const dueBy of [3, 9]) {
      for (const limit of [1, 9]) found.push(await backend.dueRuns({ dueBy, graphs, limit }));
    }
  }
}

/** Verdicts of all commits, and what can be read in the end. */
export async function play(backend: Backend, script: readonly (readonly Commit[])[]): Promise<unknown> {
  const verdicts: unknown[] = [];
  for (const group of script) {
    for (const verdict of await backend.commit(group)) {
      verdicts.push(verdict === undefined ? "accepted" : [verdict.code, verdict.message, verdict.details]);
    }
  }
  return { verdicts, stored: await everything(backend) };
}
