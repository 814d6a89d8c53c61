/**
 * What one run (or update) knows of its thread's waits, and what its saver calls mean for them: pauses open them, resumes
 * decide them, results consume them, and a thread that goes on without them supersedes them.
 */

import type { ChannelVersions, Checkpoint } from "@langchain/langgraph-checkpoint";
import type { Op } from "./backend.ts";
import { readInterrupt } from "./dialects.ts";
import { digestOf } from "./effect-record.ts";
import { HoldfastError } from "./errors.ts";
import { channels } from "./events.ts";
import {
  checkpointsAround,
  type GraphConfig,
  INTERRUPT,
  isInterruptId,
  NULL_TASK_ID,
  RESUME,
  TASK_ERROR,
  wentOn,
} from "./langgraph.ts";
import type { WaitRow } from "./model.ts";
import type { Place } from "./place.ts";
import { originOfRun, type ThreadOrigin } from "./thread-origin.ts";
import { type Answerable, checkAnswer, decisionOfResume } from "./wait-answer.ts";
import type { WaitLedger } from "./wait-ledger.ts";
import { CHAIN_START, type ChainEnd, parseWait, waitBody, waitName } from "./wait-record.ts";

/** A pause as LangGraph writes it. */
export interface Interrupt {
  readonly id?: string;
  readonly value?: unknown;
  readonly response_schema?: unknown;
}

export type Write = readonly [channel: string, value: unknown];

export class ThreadWaits {
  readonly #active = new Map<string, WaitRow>();
  /** Opened by this run itself, with the checkpoints of the graphs around: namespace → checkpoint. */
  readonly #own = new Map<string, ReadonlyMap<string, string>>();
  /** Waits whose decision a call of this run has returned. */
  readonly #taken = new Set<string>();
  #end: ChainEnd = CHAIN_START;
  /** Channels that were news at the load. */
  #news: ChannelVersions = {};

  /**
   * What a load found: the waits that are open or answered, the end of the chain of decisions, and the channels that no
   * interrupt has seen in their present version.
   */
  load(rows: readonly WaitRow[], end: ChainEnd, news: ChannelVersions): void {
    this.#active.clear();
    for (const row of rows) this.#active.set(row.id, row);
    this.#end = end;
    this.#news = news;
  }

  /** Whether the run that made this checkpoint went on with what it loaded; otherwise it began with an input of its own. */
  resumed(checkpoint: Checkpoint): boolean {
    return wentOn(checkpoint, this.#news);
  }

  /** Whether nothing waits. */
  get isEmpty(): boolean {
    return this.#active.size === 0;
  }

  get active(): readonly WaitRow[] {
    return [...this.#active.values()];
  }

  /** Those that were there before this run. */
  get loaded(): readonly WaitRow[] {
    return this.active.filter(({ id }) => !this.#own.has(id));
  }

  /** What a call of this run has opened, or found changed; `around`: the checkpoints of its graph and those around it. */
  set(row: WaitRow, around: ReadonlyMap<string, string> = new Map([[row.ns, row.checkpoint]])): void {
    if (!this.#active.has(row.id)) this.#own.set(row.id, around);
    this.#active.set(row.id, row);
    if (row.status === "open") this.#taken.delete(row.id);
  }

  /** A call in the graph has returned this decision: it is consumed with the task's next writes. */
  take(row: WaitRow): void {
    if (row.status !== "answered") return;
    this.set(row);
    this.#taken.add(row.id);
  }

  /**
   * The part of a resume that decides waits. What it decides is stored as a decision at once, and never as an answer that
   * a later question could find.
   *
   * @throws AMBIGUOUS_ANSWER, INVALID_ANSWER, ALREADY_ANSWERED
   */
  resume(
    ledger: WaitLedger,
    at: WaitPlace,
    writes: readonly Write[],
  ): { readonly ops: Op[]; readonly writes: readonly Write[] } {
    const resumes = writes.filter(([channel]) => channel === RESUME);
    const [first] = resumes;
    if (first === undefined) return { ops: [], writes };
    const [, value] = first;
    if (at.task === NULL_TASK_ID) {
      const rest = writes.filter(([channel]) => channel !== RESUME);
      // In a subgraph this is the outermost graph's resume once more.
      const row = at.place.ns === "" ? this.#onlyAskable() : undefined;
      return { ops: row === undefined ? [] : this.#answer(ledger, at, row, value), writes: rest };
    }
    const row = isInterruptId(at.task) ? this.#active.get(at.task) : undefined;
    if (row === undefined || resumes.length !== writes.length) return { ops: [], writes };
    const answer = Array.isArray(value) ? value.at(-1) : value;
    return { ops: this.#answer(ledger, at, row, answer), writes: [] };
  }

  /** The pauses of a task: those that are not there yet are opened. */
  pause(ledger: WaitLedger, at: WaitPlace, writes: readonly Write[]): Op[] {
    const ops: Op[] = [];
    for (const [channel, value] of writes) {
      if (channel !== INTERRUPT || !Array.isArray(value)) continue;
      for (const interrupt of value as Interrupt[]) ops.push(...this.#open(ledger, at, interrupt));
    }
    return ops;
  }

  /** A task's result: the decisions it used are consumed; questions it went on without are superseded. */
  finish({ place, era, task }: WaitPlace, writes: readonly Write[]): Op[] {
    if (this.isEmpty) return [];
    const stopped = writes.some(([channel]) => channel === INTERRUPT || channel === TASK_ERROR);
    const ops: Op[] = [];
    for (const row of this.#active.values()) {
      if (row.task !== task || row.ns !== place.ns) continue;
      const used = this.#taken.has(row.id) || (row.kind === "interrupt" && row.status === "answered");
      if (!used && stopped) continue;
      if (row.status === "open") warnSwallowed(row);
      ops.push(this.#ended(row, era));
    }
    return ops;
  }

  /**
   * The superstep that ran from `place.checkpoint` is complete: nothing in its tasks waits any more. In async durability
   * the next superstep may have paused before this is put, and in exit durability the pause itself comes first: what this
   * run has opened elsewhere stays.
   */
  complete(place: Place, era: number, exit: boolean): Op[] {
    const ended = this.active.filter(({ id, ns }) => {
      if (!within(ns, place.ns)) return false;
      const own = this.#own.get(id);
      return own === undefined || (!exit && own.get(place.ns) === place.checkpoint);
    });
    return ended.map((row) => this.#ended(row, era));
  }

  /** The thread goes on without the waits it had: each is closed by a recorded decision. */
  supersede(ledger: WaitLedger, place: Place, era: number, by: string): Op[] {
    const rows = this.loaded.filter(({ ns }) => within(ns, place.ns));
    const { ops, end } = ledger.supersede(rows, { by, via: "graph" }, this.#end, era);
    this.#end = end;
    for (const { id } of rows) this.#active.delete(id);
    return ops;
  }

  #ended(row: WaitRow, era: number): Op {
    this.#active.delete(row.id);
    this.#taken.delete(row.id);
    return { kind: "endWait", thread: row.thread, era, id: row.id };
  }

  /** Which question a resume without a name answers; undefined where the thread stands at a breakpoint. */
  #onlyAskable(): WaitRow | undefined {
    const open = this.active.filter(({ status }) => status === "open");
    const askable = open.filter(({ kind }) => kind === "question" || kind === "interrupt");
    if (askable.length <= 1) return askable[0] ?? open[0] ?? this.active[0];
    throw new HoldfastError(
      "AMBIGUOUS_ANSWER",
      `${askable.length} questions are open: ${askable.map(({ id, name }) => `${name} (${id})`).join(", ")}. ` +
        "Name the one that is answered: new Command({ resume: { [id]: answer } }). Nothing was recorded.",
      { details: { ids: askable.map(({ id }) => id) } },
    );
  }

  #answer(ledger: WaitLedger, { config, era }: WaitPlace, row: WaitRow, value: unknown): Op[] {
    // LangGraph would hand a second answer to the next question of the task.
    if (row.status !== "open") throw answeredBefore(row);
    const { allow, schema } = parseWait(ledger.serde, row);
    const wait: Answerable = { id: row.id, name: row.name, kind: row.kind, allow, schema };
    const decision = checkAnswer(wait, decisionOfResume(wait, value));
    if (row.due !== undefined && row.due <= ledger.now()) throw late(row);
    const by = String(config.configurable?.["langgraph_auth_user_id"] ?? "resume");
    const decided = ledger.decide(row, { ...decision, by, via: "resume" }, this.#end, era);
    this.#end = decided.end;
    this.#active.set(row.id, decided.row);
    return decided.ops;
  }

  #open(ledger: WaitLedger, at: WaitPlace, interrupt: Interrupt): Op[] {
    const { id, value, response_schema } = interrupt;
    const known = id === undefined ? undefined : this.#active.get(id);
    if (id === undefined || (known !== undefined && (known.status !== "open" || ownsContent(known)))) return [];
    const blobs = ledger.blobs();
    const tree = ledger.serde.toTree(value, blobs, () => "the value of an interrupt");
    const digest = digestOf(ledger.serde, tree);
    if (known?.digest === digest) return [];
    const settle = isSettle(value);
    const asked = settle ? { name: value.effect, allow: [] } : readInterrupt(value, response_schema);
    const details = "details" in asked ? asked.details : undefined;
    const row: WaitRow = {
      ...(known ?? newWait(at, id, ledger.now())),
      kind: settle ? "settle" : "interrupt",
      name: waitName(asked.name),
      digest,
      rev: (known?.rev ?? 0) + 1,
      body: waitBody(
        ledger.serde,
        {
          value: tree,
          allow: asked.allow,
          schema: "schema" in asked ? asked.schema : undefined,
          details: details === undefined ? undefined : ledger.serde.toTree(details, blobs, () => "an interrupt"),
        },
        blobs,
      ),
    };
    this.set(row, checkpointsAround(at.config, at.place));
    const { thread } = at.place;
    return [...blobs.ops(thread, at.era), { kind: "wait", thread, era: at.era, row, expect: known?.rev ?? null }];
  }
}

/** Where a task pauses, goes on, or ends. */
export interface WaitPlace {
  readonly config: GraphConfig;
  /** What the thread's checkpoints say of its graph and owner, where the run's config says nothing. */
  readonly origin: ThreadOrigin;
  readonly place: Place;
  readonly era: number;
  readonly task: string;
}

type NewWait = Omit<WaitRow, "kind" | "name" | "digest" | "rev" | "body">;

/** The columns of a wait that say where it is, and whose. */
export function newWait({ config, origin, place, task }: WaitPlace, id: string, now: number): NewWait {
  const { graph_id, owner } = { ...origin, ...originOfRun(config) };
  return {
    id,
    thread: place.thread,
    ns: place.ns,
    checkpoint: place.checkpoint ?? "",
    task,
    status: "open",
    openedAt: now,
    due: undefined,
    graph: graph_id,
    assignee: undefined,
    owner,
    decision: undefined,
    holder: undefined,
  };
}

/** Refuses new input on a thread that waits. */
export function threadWaiting(thread: string, waits: readonly WaitRow[]): HoldfastError {
  const list = waits
    .map(({ name, kind, status, id }) => `${kind} ${JSON.stringify(name)} (${status}, ${id})`)
    .join(", ");
  return new HoldfastError(
    "THREAD_WAITING",
    `Thread ${JSON.stringify(thread)} waits: ${list}. New input would drop that, so it was refused and nothing of it is stored. ` +
      "Answer it (checkpointer.answer, then app.invoke(null, config)), or drop it on purpose: " +
      'app.invoke(input, { configurable: { thread_id, on_paused: "supersede" } }).',
    { details: { thread, waits: waits.map(({ id, kind, name, status }) => ({ id, kind, name, status })) } },
  );
}

/** Whether `ns` is the namespace or one inside it. */
export const within = (ns: string, outer: string): boolean =>
  outer === "" || ns === outer || ns.startsWith(`${outer}|`);

/** Opened by a call of ours, which keeps what was shown. */
const ownsContent = ({ kind }: WaitRow): boolean => kind !== "interrupt" && kind !== "settle";

function isSettle(value: unknown): value is { readonly effect: string } {
  if (typeof value !== "object" || value === null) return false;
  return (value as { type?: unknown }).type === "settle" && typeof (value as { effect?: unknown }).effect === "string";
}

function answeredBefore(row: WaitRow): HoldfastError {
  return new HoldfastError(
    "ALREADY_ANSWERED",
    `Wait ${row.id} (${row.name}) of thread ${JSON.stringify(row.thread)} has been answered, and the thread has not gone on since. ` +
      "Go on with app.invoke(null, config).",
    { details: { id: row.id, thread: row.thread, status: row.status } },
  );
}

function late(row: WaitRow): HoldfastError {
  return new HoldfastError(
    "INVALID_ANSWER",
    `The deadline of ${row.name} (${row.id}) passed at ${new Date(row.due ?? 0).toISOString()}; the answer was not recorded. ` +
      "Go on with the thread: what was stated for the deadline happens.",
    { details: { id: row.id, due: row.due } },
  );
}

function warnSwallowed(row: WaitRow): void {
  channels.waitSwallowed.publish({ id: row.id, thread: row.thread, task: row.task, name: row.name });
  process.emitWarning(
    `Task ${row.task} of thread ${row.thread} asked ${JSON.stringify(row.name)} and then finished without waiting: its code caught the ` +
      "pause. Rethrow what isGraphInterrupt() recognises in every catch around a question. The question is closed.",
    { code: "HOLDFAST_PAUSE_SWALLOWED" },
  );
}
