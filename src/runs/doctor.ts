/**
 * What of a store should not be: each finding with its reason and what mends it.
 *
 * The store may be in use meanwhile. What is found is looked at again before it is told, so that a run which has just gone on is
 * none. Everything is read page by page; no scan keeps more than one.
 */

import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import type { RunQuery, WaitQuery } from "../backend.ts";
import type { Checkpointer } from "../checkpointer.ts";
import { effectPlace } from "../effect-record.ts";
import { isHoldfastError } from "../errors.ts";
import type { EffectRow, RunRow, WaitRow } from "../model.ts";
import { originOf } from "../thread-origin.ts";
import { ACTIVE } from "./multitask.ts";
import { RunLedger } from "./run-ledger.ts";
import { isCrashLoop } from "./run-record.ts";

/**
 * `worker-gone` a run whose worker is gone · `waits-for-nothing` a run that waits, and nothing it waits for is open ·
 * `answered-not-queued` what a run waits for is answered, and nobody has queued it · `settle` a run that needs a person's word on
 * an effect · `crash-loop` a run that worker after worker died with · `graph-missing` a run of a graph that is not served ·
 * `effect-in-doubt` an effect was begun, its process is gone, and no run of its thread will look at it · `question-without-run` a
 * thread waits, and has no run that an answer would queue · `unreadable` the head of a thread cannot be read.
 */
export type FindingCode =
  | "worker-gone"
  | "waits-for-nothing"
  | "answered-not-queued"
  | "settle"
  | "crash-loop"
  | "graph-missing"
  | "effect-in-doubt"
  | "question-without-run"
  | "unreadable";

export interface Finding {
  readonly code: FindingCode;
  readonly thread: string;
  /** For people: what is wrong. */
  readonly text: string;
  /** The command or call that mends it. */
  readonly mend: string;
  readonly run?: string;
  readonly wait?: string;
  /** Key of the effect. */
  readonly effect?: string;
}

export interface DiagnoseOptions {
  /** Names of the graphs that are served; undefined: any. */
  readonly graphs?: readonly string[] | undefined;
}

const PAGE = 100;
/** Threads that were looked at lately: their older checkpoints are passed over without asking for the head. */
const RECENT_MAX = 1000;

/** Scans the whole store; changes nothing. @throws what the backend throws where it cannot be read at all */
export async function* diagnose(
  checkpointer: Checkpointer,
  options: DiagnoseOptions = {},
): AsyncGenerator<Finding, void, undefined> {
  const scan = new Scan(checkpointer, options);
  const runs = await scan.hasRuns();
  if (runs) yield* scan.runs();
  if (runs) yield* scan.waits();
  yield* scan.threads(runs);
}

class Scan {
  readonly #checkpointer: Checkpointer;
  readonly #ledger: RunLedger;
  readonly #graphs: readonly string[] | undefined;

  constructor(checkpointer: Checkpointer, { graphs }: DiagnoseOptions) {
    this.#checkpointer = checkpointer;
    this.#ledger = new RunLedger(checkpointer);
    this.#graphs = graphs;
  }

  /** A store without runs has its threads run by somebody else. */
  async hasRuns(): Promise<boolean> {
    try {
      return (await this.#ledger.rows({ limit: 1 })).length > 0;
    } catch (error) {
      if (isHoldfastError(error, "NOT_SUPPORTED")) return false;
      throw error;
    }
  }

  async *runs(): AsyncGenerator<Finding> {
    let after: RunQuery["after"];
    for (;;) {
      const rows = await this.#ledger.rows({ status: ACTIVE, after, limit: PAGE });
      const alive = new Map<string, boolean>();
      for (const row of rows) {
        const found = [...(await this.#ofRun(row, alive)), ...this.#graphMissing(row)];
        if (found.length > 0 && (await this.#unchanged(row))) yield* found;
      }
      const last = rows.at(-1);
      if (last === undefined || rows.length < PAGE) return;
      after = { createdAt: last.createdAt, id: last.id };
    }
  }

  async #ofRun(row: RunRow, alive: Map<string, boolean>): Promise<readonly Finding[]> {
    if (row.status === "running") {
      const { worker = "" } = row;
      const lives = alive.get(worker) ?? (await this.#ledger.backend.ownerAlive(worker));
      alive.set(worker, lives);
      return lives ? [] : [workerGone(row)];
    }
    if (row.status !== "waiting" && row.status !== "parked") return [];
    if (isCrashLoop(this.#ledger.serde, row)) return [await this.#crashLoop(row)];
    const { thread } = row;
    const waits = await this.#checkpointer.waitLedger.rows({ thread, status: ["open", "answered"], limit: PAGE });
    const answered = waits.find(({ status }) => status === "answered");
    if (answered !== undefined) return [answeredNotQueued(row, answered)];
    if (waits.length === 0) return [waitsForNothing(row)];
    if (row.status === "waiting") return [];
    return Promise.all(waits.filter(({ kind }) => kind === "settle").map((wait) => this.#settle(row, wait)));
  }

  async #crashLoop(row: RunRow): Promise<Finding> {
    const { id, thread } = row;
    const { deaths } = (await this.#ledger.read(row)).record;
    const text = `Run ${id} of thread ${JSON.stringify(thread)} is parked: ${deaths} workers in a row died while they executed it.`;
    const { run_id } = ((await this.#tuple(thread))?.metadata ?? {}) as { readonly run_id?: unknown };
    const mend =
      run_id === id
        ? `go on from the last checkpoint: ${startAnew(row)}`
        : `start it again, of which nothing is stored yet: ${startAnew(row, `(await runtime.get(${JSON.stringify(id)})).input`)}`;
    return { code: "crash-loop", thread, run: id, text, mend: `Find out why in their logs. Then ${mend}` };
  }

  #graphMissing(row: RunRow): readonly Finding[] {
    if (this.#graphs === undefined || this.#graphs.includes(row.graph)) return [];
    const text = `Run ${row.id} (${row.status}) is of graph ${JSON.stringify(row.graph)}, which is not among ${this.#graphs.join(", ")}.`;
    const mend = `Start a worker whose module has ${JSON.stringify(row.graph)}, or cancel the run: ${cancelCall(row)}`;
    return [{ code: "graph-missing", thread: row.thread, run: row.id, text, mend }];
  }

  async #settle(row: RunRow, wait: WaitRow): Promise<Finding> {
    const { value } = (await this.#checkpointer.waitLedger.read(wait)).record;
    const { key } = (value ?? {}) as { readonly key?: unknown };
    const effect = typeof key === "string" ? key : "";
    return {
      code: "settle",
      thread: row.thread,
      run: row.id,
      wait: wait.id,
      effect,
      text: `Run ${row.id} is parked: nobody knows whether effect ${JSON.stringify(wait.name)} happened.`,
      mend: `Find out, and say so: ${settleCall(effect)}`,
    };
  }

  /** What waits in threads that never had a run: an answer is recorded, and nobody goes on. */
  async *waits(): AsyncGenerator<Finding> {
    let after: WaitQuery["after"];
    for (;;) {
      const rows = await this.#checkpointer.waitLedger.rows({ status: ["open"], after, limit: PAGE });
      const known = new Map<string, boolean>();
      for (const row of rows) {
        const { thread } = row;
        const has = known.get(thread) ?? (await this.#ledger.rows({ thread, limit: 1 })).length > 0;
        known.set(thread, has);
        if (!has) yield questionWithoutRun(row);
      }
      const last = rows.at(-1);
      if (last === undefined || rows.length < PAGE) return;
      after = { openedAt: last.openedAt, id: last.id };
    }
  }

  /** Every thread at its head. */
  async *threads(runs: boolean): AsyncGenerator<Finding> {
    const { backend } = this.#checkpointer;
    const recent = new Set<string>();
    for await (const { thread, id } of backend.checkpoints({ ns: "" })) {
      if (recent.has(thread) || (await backend.load(thread, "", undefined)).head !== id) continue;
      recent.add(thread);
      if (recent.size > RECENT_MAX) recent.delete(recent.values().next().value as string);
      yield* this.#head(thread, id);
      yield* this.#effects(thread, id, runs);
    }
  }

  async *#head(thread: string, checkpoint: string): AsyncGenerator<Finding> {
    try {
      await this.#checkpointer.getTuple({ configurable: { thread_id: thread, checkpoint_id: checkpoint } });
    } catch (error) {
      if (!isHoldfastError(error, "CORRUPT_DATA")) throw error;
      const text = `The newest checkpoint of thread ${JSON.stringify(thread)}, ${checkpoint}, cannot be read: ${error.message}`;
      const mend =
        "Restore a backup, or go back to an older checkpoint that can be read: " +
        `timeTravel(app).rollbackTo(${JSON.stringify(thread)}, checkpoint)`;
      yield { code: "unreadable", thread, text, mend };
    }
  }

  async *#effects(thread: string, head: string, runs: boolean): AsyncGenerator<Finding> {
    const { backend } = this.#checkpointer;
    const intent = (await backend.effects({ thread })).filter(({ status }) => status === "intent");
    for (const row of intent) {
      if (row.owner === backend.owner || (await backend.ownerAlive(row.owner))) continue;
      // A run that has not ended comes to the effect by itself, or has a finding of its own.
      if (runs && (await this.#ledger.rows({ thread, status: ACTIVE, limit: 1 })).length > 0) return;
      const [now] = await backend.effects({ key: row.key });
      if (now?.rev === row.rev) yield await this.#inDoubt(row, head, runs);
    }
  }

  async #inDoubt(row: EffectRow, head: string, runs: boolean): Promise<Finding> {
    const { thread, key, name } = row;
    const { checkpoints } = effectPlace(this.#ledger.serde, row);
    const text = `Effect ${JSON.stringify(name)} of thread ${JSON.stringify(thread)} was begun by ${row.owner}, which is gone, and has no outcome.`;
    const told = { code: "effect-in-doubt", thread, effect: key } as const;
    if (checkpoints.get("") !== head)
      return { ...told, text: `${text} The thread has gone on without it.`, mend: `Settle it: ${settleCall(key)}` };
    const graph = originOf(await this.#tuple(thread)).graph_id;
    const start = `runtime.start(${graph === undefined ? "graph" : JSON.stringify(graph)}, null, { threadId: ${JSON.stringify(thread)} })`;
    const run = `run(app, null, { configurable: { thread_id: ${JSON.stringify(thread)} } })`;
    return {
      ...told,
      text,
      mend: `Run the thread, which decides as the effect's onUnknown says: ${runs ? start : run}`,
    };
  }

  /** The head; undefined where there is none, or none that can be read. */
  async #tuple(thread: string): Promise<CheckpointTuple | undefined> {
    try {
      return await this.#checkpointer.getTuple({ configurable: { thread_id: thread } });
    } catch (error) {
      if (isHoldfastError(error, "CORRUPT_DATA")) return undefined;
      throw error;
    }
  }

  async #unchanged({ id, rev }: RunRow): Promise<boolean> {
    const [now] = await this.#ledger.rows({ id });
    return now?.rev === rev;
  }
}

const cancelCall = ({ id }: RunRow): string => `runtime.cancel(${JSON.stringify(id)}, { by })`;

/** Ends the run, and has another one go on with what the thread has, or begin. */
const startAnew = (row: RunRow, input = "null"): string =>
  `${cancelCall(row)}, then runtime.start(${JSON.stringify(row.graph)}, ${input}, { threadId: ${JSON.stringify(row.thread)} })`;

const settleCall = (key: string): string =>
  `checkpointer.settle(${JSON.stringify(key)}, { done: value } or { notDone: true } or { giveUp: reason }, { by })`;

function workerGone({ id, thread, graph, worker }: RunRow): Finding {
  const text = `Run ${id} of thread ${JSON.stringify(thread)} is running, and its worker ${worker} is gone.`;
  const mend = `Any worker that serves ${JSON.stringify(graph)} takes it over: holdfast worker --url URL --graphs FILE`;
  return { code: "worker-gone", thread, run: id, text, mend };
}

function answeredNotQueued(row: RunRow, wait: WaitRow): Finding {
  const { id, thread, status } = row;
  const text = `Run ${id} is ${status}, and ${wait.kind} ${JSON.stringify(wait.name)} of its thread is answered: nobody has queued the run.`;
  return {
    code: "answered-not-queued",
    thread,
    run: id,
    wait: wait.id,
    text,
    mend: `Have another run take the answer: ${startAnew(row)}`,
  };
}

function waitsForNothing(row: RunRow): Finding {
  const { id, thread, status } = row;
  const text =
    `Run ${id} is ${status}, and nothing of thread ${JSON.stringify(thread)} is open: it stands at a breakpoint, or what it waited for ` +
    "was closed by an edit, a fork, or a run outside the queue.";
  return {
    code: "waits-for-nothing",
    thread,
    run: id,
    text,
    mend: `Go on from the last checkpoint: ${startAnew(row)}`,
  };
}

function questionWithoutRun({ id, thread, kind, name, graph }: WaitRow): Finding {
  const text = `Thread ${JSON.stringify(thread)} waits for ${kind} ${JSON.stringify(name)} and never had a run: an answer is recorded, and no worker goes on.`;
  const named = graph === undefined ? "graph" : JSON.stringify(graph);
  const mend = `Give the thread a run, which waits with it: runtime.start(${named}, null, { threadId: ${JSON.stringify(thread)} })`;
  return { code: "question-without-run", thread, wait: id, text, mend };
}
