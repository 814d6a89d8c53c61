/** Random lives of runs: nearly every operation is one that may be accepted, because it is chosen by what was before it. */

import fc from "fast-check";
import { type Commit, type Op, RUN_MOVES, type RunRow, type RunStatus, type Verdict } from "holdfast";
import { memoryBackend } from "holdfast/checkpointers/memory";
import * as rows from "../../src/testing/backend-rows.ts";
import { keptOf, randomRunOp, runIds, runStatuses } from "./random-commits.ts";

/** What is done to a run, before it is known what it is. */
const step = fc.record({
  id: fc.constantFrom(...runIds),
  kind: fc.constantFrom("move", "move", "move", "move", "fence"),
  pick: fc.nat(99),
  /** What is not so, if anything. */
  wrong: fc.nat(60),
  due: fc.constantFrom(undefined, 3, 3, 3, 9),
  priority: fc.constantFrom(0, 0, 2, -1),
  graph: fc.constantFrom("g", "g", "h", ""),
  owner: fc.constantFrom(undefined, "o", ""),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;
type Raw = Step | { readonly op: Op };

/** `other`: operations that are strewn in. */
export function runScripts(other: fc.Arbitrary<Op>): fc.Arbitrary<Commit[][]> {
  const raw: fc.Arbitrary<Raw> = fc.oneof(
    { arbitrary: step, weight: 40 },
    { arbitrary: fc.oneof(other, randomRunOp(fc.constant(0))).map((op) => ({ op })), weight: 1 },
    { arbitrary: fc.constantFrom("t", "u").map((thread) => ({ op: rows.deleteThread(thread) })), weight: 1 },
  );
  return fc
    .array(fc.array(fc.array(raw, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 3 }), { maxLength: 25 })
    .map(resolved);
}

function resolved(script: readonly (readonly (readonly Raw[])[])[]): Commit[][] {
  const model = new Model();
  return script.map((group) => group.map((steps) => model.commit(steps)));
}

/** Runs and eras, as they are after the commits so far. */
class Model {
  readonly #backend = memoryBackend();
  #runs = new Map<string, RunRow>();
  #eras = new Map<string, number>();

  commit(steps: readonly Raw[]): Commit {
    const [runs, eras] = [new Map(this.#runs), new Map(this.#eras)];
    const commit = steps.map((raw) => {
      const op = "op" in raw ? raw.op : opOf(raw, runs, eras);
      if (op.kind === "run") runs.set(op.row.id, op.row);
      if (op.kind === "deleteThread") {
        eras.set(op.thread, (eras.get(op.thread) ?? 0) + 1);
        for (const row of [...runs.values()]) if (row.thread === op.thread) runs.delete(row.id);
      }
      return op;
    });
    // In memory it is done when it returns.
    const [verdict] = this.#backend.commit([commit]) as readonly Verdict[];
    if (verdict === undefined) [this.#runs, this.#eras] = [runs, eras];
    return commit;
  }
}

function opOf(raw: Step, runs: ReadonlyMap<string, RunRow>, eras: ReadonlyMap<string, number>): Op {
  const { id, kind, pick, wrong, ...fields } = raw;
  const old = runs.get(id);
  const { thread } = old ?? keptOf(id);
  const era = (eras.get(thread) ?? 0) + (wrong === 0 ? 1 : 0);
  if (kind === "fence" && (old?.status === "running" || wrong < 6))
    return rows.fence(id, (old?.epoch ?? 0) + (wrong === 1 ? 1 : 0), { thread, era });
  if (old === undefined) {
    const status = (["queued", "queued", "retrying", "waiting", "running", "succeeded"] as const)[pick % 6] ?? "queued";
    const kept = { ...keptOf(id), ...(wrong > 50 && { key: "0" }) };
    return rows.run(rows.runRow(id, { ...fields, ...kept, status }), null, era);
  }
  const moves = RUN_MOVES[old.status].filter((next) => next !== "cancelled" || wrong % 8 === 7);
  const status = moves.length === 0 || wrong === 2 ? runStatuses[pick % 8] : moves[pick % moves.length];
  const moved = rows.moved(old, status as RunStatus, fields);
  const expect = old.rev + (wrong === 3 ? 1 : 0);
  return rows.run({ ...moved, ...(wrong === 4 && { key: "0" }), ...(wrong === 5 && { createdAt: 5.5 }) }, expect, era);
}
