/** Backends with one defect each, in front of a good one, and which cases of the conformance suite they fail. */

import type { Backend, Commit, HoldfastError, Op, Verdict } from "holdfast";
import { backendCases, type OpenedBackend, runBackendCase } from "holdfast/testing";
import { memoryBackend } from "../../checkpointers/memory/backend.ts";
import { MemoryState } from "../../checkpointers/memory/state.ts";

/** Replaces some methods of a good backend; called once per opener, with what all openers of a store share. */
export type Defect = (good: Backend, shared: Map<string, unknown>) => Partial<Backend>;

export interface Mutant {
  readonly defect: Defect;
  /** Names of cases of which at least these must fail. */
  readonly caughtBy: readonly string[];
}

function delegate(good: Backend): Backend {
  return {
    name: good.name,
    capabilities: good.capabilities,
    owner: good.owner,
    commit: (group) => good.commit(group),
    load: (...args) => good.load(...args),
    checkpoints: (query) => good.checkpoints(query),
    ancestors: (...args) => good.ancestors(...args),
    items: (...args) => good.items(...args),
    blobs: (...args) => good.blobs(...args),
    effects: (query) => good.effects(query),
    waits: (query) => good.waits(query),
    decisions: (query) => good.decisions(query),
    decision: (...args) => good.decision(...args),
    runs: (query) => good.runs(query),
    dueRuns: (query) => good.dueRuns(query),
    nextDue: (query) => good.nextDue(query),
    now: () => good.now(),
    ownerAlive: (owner) => good.ownerAlive(owner),
    close: () => good.close(),
  };
}

/** A store as the memory backend's tests open it, behind the defect. "Reopening" opens the same state once more. */
function opener(defect: Defect): () => Promise<OpenedBackend> {
  return async () => {
    const state = new MemoryState();
    const shared = new Map<string, unknown>();
    const open = () => {
      const good = memoryBackend({ state });
      return { ...delegate(good), ...defect(good, shared) };
    };
    const backend = open();
    return { backend, second: async () => open(), reopen: async () => open(), destroy: () => backend.close() };
  };
}

/** The names of the cases that such a backend fails, among those given or all. */
export async function failures(
  defect: Defect,
  names: readonly string[] = backendCases.map(({ name }) => name),
): Promise<string[]> {
  const failed: string[] = [];
  for (const entry of backendCases.filter(({ name }) => names.includes(name))) {
    const outcome = await runBackendCase(entry, opener(defect)).then(
      (applicable) => (applicable ? "passed" : "not applicable"),
      () => "failed",
    );
    if (outcome === "failed") failed.push(entry.name);
  }
  return failed;
}

type OpOf<K extends Op["kind"]> = Extract<Op, { kind: K }>;

/** Changes every operation of one kind. */
export function mapOps<K extends Op["kind"]>(group: readonly Commit[], kind: K, change: (op: OpOf<K>) => Op): Commit[] {
  return group.map((commit) => commit.map((op) => (op.kind === kind ? change(op as OpOf<K>) : op)));
}

export async function* map<T, U>(rows: AsyncIterable<T>, change: (row: T) => U | Promise<U>): AsyncGenerator<U> {
  for await (const row of rows) yield await change(row);
}

/** Changes operations one after the other, each on the state that the commits before it left. */
export async function commitChanged(
  good: Backend,
  group: readonly Commit[],
  change: (op: Op) => Op | undefined | Promise<Op | undefined>,
): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  for (const commit of group) {
    const ops: Op[] = [];
    for (const op of commit) {
      const changed = await change(op);
      if (changed !== undefined) ops.push(changed);
    }
    verdicts.push(...(await good.commit([ops])));
  }
  return verdicts;
}

/** Says nothing of the refusals with this code that `whichever` picks out. */
export function ignoring(code: string, whichever: (verdict: HoldfastError) => boolean = () => true): Defect {
  return (good) => ({
    commit: async (group) =>
      (await good.commit(group)).map((verdict) => (verdict?.code === code && whichever(verdict) ? undefined : verdict)),
  });
}
