/** One call that waits: finds what is recorded, takes the decision, or opens the wait and pauses the task. */

import { GraphInterrupt } from "@langchain/langgraph";
import type { Schema } from "./effect.ts";
import { digestOf, effectKey } from "./effect-record.ts";
import { clip } from "./effect-refusals.ts";
import { type Attempt, barrier, type Site } from "./effect-site.ts";
import type { Op } from "./backend.ts";
import { HoldfastError, isHoldfastError } from "./errors.ts";
import type { WaitKind, WaitRow } from "./model.ts";
import type { Tree } from "./serde.ts";
import { newWait } from "./thread-waits.ts";
import type { WaitLedger } from "./wait-ledger.ts";
import {
  type DecisionRecord,
  type DecisionType,
  type OnDeadline,
  parseWait,
  type WaitRecord,
  waitBody,
} from "./wait-record.ts";

/** What a call waits for. */
export interface WaitSpec {
  readonly kind: Exclude<WaitKind, "interrupt" | "settle">;
  /** What it is called. Calls of one name are told apart by what they show and by their order. */
  readonly name: string;
  /** What makes the call itself, beside its name: a question's content. Default: nothing. */
  readonly shown?: unknown;
  /** The interrupt's value, without `digest` and `problem`. */
  readonly value: Readonly<Record<string, unknown>>;
  readonly details?: unknown;
  readonly allow?: readonly DecisionType[];
  /** JSON Schema of an edit's or response's value. */
  readonly schema?: unknown;
  readonly assignee?: string | undefined;
  /** When something happens by itself, in milliseconds since 1970, given the time of the first call. */
  readonly due?: ((now: number) => number) | undefined;
  readonly onDeadline?: OnDeadline | undefined;
  /** So many rejections of the same content in the thread are enough: the last one is taken, and nobody asked. */
  readonly rejections?: number | undefined;
}

/** A decision that a call has taken, and the wait it belongs to. */
export interface Taken {
  readonly wait: WaitRecord;
  readonly decision: DecisionRecord;
}

interface Opened {
  readonly id: string;
  readonly value: unknown;
}

/** The waiting calls of one attempt of a task. */
interface Calls {
  /** The rows that the task's earlier attempts have left, read once. */
  recorded: Promise<Map<string, WaitRow>> | undefined;
  readonly called: Set<string>;
  /** Equal calls so far. */
  readonly ordinals: Map<string, number>;
  /** What this attempt pauses for. */
  readonly opened: Map<string, Opened>;
  /** Calls under way that have neither returned nor opened yet. */
  undecided: number;
  readonly settled: (() => void)[];
}

const callsOf = new WeakMap<Attempt, Calls>();

function callsAt(site: Site): Calls {
  let calls = callsOf.get(site.attempt);
  if (calls === undefined) {
    calls = {
      recorded: undefined,
      called: new Set(),
      ordinals: new Map(),
      opened: new Map(),
      undecided: 0,
      settled: [],
    };
    callsOf.set(site.attempt, calls);
  }
  return calls;
}

/**
 * Waits at a place of a graph. Synchronous up to the id, so that equal calls made together are numbered in the order in
 * which the code makes them. Calls made together pause together: LangGraph shows all of them.
 *
 * @throws GraphInterrupt where nothing is decided yet · QUESTION_CHANGED · what `siteOf` and `barrier` throw
 */
export function waitAt(site: Site, spec: WaitSpec): Promise<Taken> {
  return new WaitCall(site, spec).taken();
}

/** Digest of what a waiting call shows, by which its wait is found. */
export function shownDigest(
  ledger: WaitLedger,
  { kind, name, shown }: Pick<WaitSpec, "kind" | "name" | "shown">,
): string {
  return digestOf(
    ledger.serde,
    ledger.serde.toTree([name, shown], ledger.blobs(), () => `${kind} ${name}`),
  );
}

/** A decided value as the schema makes it. Where it does not fit, the wait opens again, says why, and the task pauses. */
export async function accepted<T>(site: Site, taken: Taken, schema: Schema<T>, value: unknown): Promise<T> {
  try {
    return schema.parse(value);
  } catch (error) {
    return reopen(site, taken, error instanceof Error ? error.message : String(error));
  }
}

/** Opens a decided wait again, because its decision could not be used, and pauses. */
async function reopen(site: Site, { wait }: Taken, problem: string): Promise<never> {
  const ledger = site.saver.waitLedger;
  const [row] = await ledger.rows({ id: wait.id });
  if (row === undefined) throw new GraphInterrupt([]);
  const opened = await ledger.record(withProblem(ledger, row, problem), {
    type: "reopen",
    comment: problem,
    by: "graph",
  });
  site.thread.waits.set(opened);
  const shown = { ...(wait.value as object), problem };
  throw new GraphInterrupt([{ id: row.id, value: shown }]);
}

class WaitCall {
  readonly #site: Site;
  readonly #spec: WaitSpec;
  readonly #ledger: WaitLedger;
  readonly #calls: Calls;
  readonly #id: string;
  readonly #digest: string;

  constructor(site: Site, spec: WaitSpec) {
    this.#site = site;
    this.#spec = spec;
    this.#ledger = site.saver.waitLedger;
    this.#calls = callsAt(site);
    this.#digest = shownDigest(this.#ledger, spec);
    const equal = `${spec.kind}\u0000${spec.name}\u0000${this.#digest}`;
    const ordinal = this.#calls.ordinals.get(equal) ?? 0;
    this.#calls.ordinals.set(equal, ordinal + 1);
    const { thread, place } = site;
    const parts = [
      "wait",
      thread.thread,
      place.ns,
      place.checkpoint,
      place.task,
      spec.kind,
      spec.name,
      this.#digest,
      ordinal,
    ];
    this.#id = effectKey(parts).slice(0, 32);
    this.#calls.called.add(this.#id);
  }

  async taken(): Promise<Taken> {
    const calls = this.#calls;
    calls.undecided += 1;
    let found: Taken | Opened;
    try {
      found = await this.#look();
    } finally {
      calls.undecided -= 1;
      if (calls.undecided === 0) for (const resolve of calls.settled.splice(0)) resolve();
    }
    if ("decision" in found) return found;
    calls.opened.set(found.id, found);
    // Calls made together are shown together: with one of them alone, the others would be asked for one by one.
    if (calls.undecided > 0) await new Promise<void>((resolve) => calls.settled.push(resolve));
    throw new GraphInterrupt([...calls.opened.values()]);
  }

  async #look(): Promise<Taken | Opened> {
    await barrier(this.#site);
    const { thread, place } = this.#site;
    this.#calls.recorded ??= this.#ledger
      .rows({ thread: thread.thread, task: place.task })
      .then((rows) => new Map(rows.map((row) => [row.id, row])));
    const recorded = await this.#calls.recorded;
    let row = recorded.get(this.#id);
    if (row === undefined) {
      await this.#replaceUnclaimed([...recorded.values()]);
      return (await this.#rejectedBefore()) ?? this.#open();
    }
    for (;;) {
      if (row.status === "open") row = await this.#decidedByTime(row);
      else if (row.status === "superseded") row = await this.#ledger.record(row, { type: "reopen", by: "graph" });
      if (row.status === "open") return this.#shown(row);
      const { record } = await this.#ledger.read(row);
      if (record.decision === undefined) throw this.#lost(row);
      thread.waits.take(row);
      return { wait: record, decision: record.decision };
    }
  }

  /** A deadline or timer that has come decides here, where nothing else has recorded it before. */
  async #decidedByTime(row: WaitRow): Promise<WaitRow> {
    try {
      return (await this.#ledger.decideDue(row)) ?? row;
    } catch (error) {
      if (!isHoldfastError(error, "WAIT_CONFLICT") && !isHoldfastError(error, "DECISION_CONFLICT")) throw error;
      return (await this.#ledger.rows({ id: row.id }))[0] ?? row;
    }
  }

  /**
   * W3: where the task runs again and asks something new under a name whose recorded question it has not asked, the
   * content has changed since. An answered one must not be taken for the new one; an open one is closed.
   */
  async #replaceUnclaimed(recorded: readonly WaitRow[]): Promise<void> {
    const { kind, name } = this.#spec;
    if (kind !== "question") return;
    for (const row of recorded) {
      if (row.kind !== kind || row.name !== name || this.#calls.called.has(row.id)) continue;
      if (row.status === "answered" || row.status === "consumed") throw await this.#contentChanged(row);
      if (row.status !== "open") continue;
      await this.#ledger.record(row, { type: "supersede", by: "graph", comment: "The question has changed." });
    }
  }

  /** The thread's last rejection of the same content, where there have been enough. A reason that was given is taken along. */
  async #rejectedBefore(): Promise<Taken | undefined> {
    const { kind, name, rejections } = this.#spec;
    if (rejections === undefined) return undefined;
    const rows = await this.#ledger.rows({ thread: this.#site.thread.thread, kind: [kind], name });
    const rejected: Taken[] = [];
    for (const row of rows.filter(({ digest, decision }) => digest === this.#digest && decision !== undefined)) {
      const { record } = await this.#ledger.read(row);
      if (record.decision?.type === "reject") rejected.push({ wait: record, decision: record.decision });
    }
    return rejected.length < rejections ? undefined : rejected.at(-1);
  }

  async #open(): Promise<Opened> {
    const { saver, thread, place } = this.#site;
    const [spec, ledger] = [this.#spec, this.#ledger];
    const { serde } = ledger;
    const blobs = ledger.blobs();
    const tree = (value: unknown, what: string): Tree =>
      serde.toTree(value, blobs, () => `${what} of ${spec.kind} ${spec.name}`);
    const now = ledger.now();
    const deadline = spec.due?.(now);
    const value = {
      ...spec.value,
      ...(deadline === undefined
        ? {}
        : { [spec.kind === "question" ? "deadline" : "until"]: new Date(deadline).toISOString() }),
      digest: this.#digest,
    };
    const at = {
      config: place.config,
      origin: thread.origin,
      place: { thread: thread.thread, ns: place.ns, checkpoint: place.checkpoint },
      era: thread.era,
      task: place.task,
    };
    const row: WaitRow = {
      ...newWait(at, this.#id, now),
      kind: spec.kind,
      name: spec.name,
      digest: this.#digest,
      due: spec.onDeadline === "hold" ? undefined : deadline,
      assignee: spec.assignee,
      rev: 1,
      body: waitBody(
        serde,
        {
          value: tree(value, "the content"),
          details: spec.details === undefined ? undefined : tree(spec.details, "the details"),
          allow: spec.allow ?? [],
          schema: spec.schema,
          deadline,
          ...onDeadlineOf(spec.onDeadline, tree),
        },
        blobs,
      ),
    };
    const open: Op = { kind: "wait", thread: thread.thread, era: thread.era, row, expect: null };
    await saver.waitLedger.commit([...blobs.ops(thread.thread, thread.era), open], thread.fence);
    thread.waits.set(row, place.checkpoints);
    return { id: row.id, value };
  }

  async #shown(row: WaitRow): Promise<Opened> {
    const { record } = await this.#ledger.read(row);
    this.#site.thread.waits.set(row, this.#site.place.checkpoints);
    const { problem } = record;
    return { id: row.id, value: problem === undefined ? record.value : { ...(record.value as object), problem } };
  }

  async #contentChanged(row: WaitRow): Promise<HoldfastError> {
    const { record } = await this.#ledger.read(row);
    const { serde } = this.#ledger;
    const text = (value: unknown) =>
      clip(serde.stringify(serde.toTree(value, this.#ledger.blobs(), () => "a question")));
    const asked = this.#spec.details ?? this.#spec.shown;
    return new HoldfastError(
      "QUESTION_CHANGED",
      `Question ${JSON.stringify(row.name)} was answered (${record.decision?.type} by ${record.decision?.by}) for ${text(record.details)}, and is now asked ` +
        `for ${text(asked)} by the same task. That answer is not taken for this question. Ask what was asked before (take ids, times and ` +
        "model texts in it from state), ask under another name, or give the task a new start with app.updateState(config, …): then it is asked anew.",
      { details: { id: row.id, name: row.name, answered: record.details, asked } },
    );
  }

  #lost(row: WaitRow): HoldfastError {
    return new HoldfastError(
      "CORRUPT_DATA",
      `Wait ${row.id} (${row.name}) is ${row.status}, but its decision is missing.`,
      {
        details: { id: row.id, thread: row.thread },
      },
    );
  }
}

function onDeadlineOf(onDeadline: OnDeadline | undefined, tree: (value: unknown, what: string) => Tree) {
  if (typeof onDeadline !== "object") return { onDeadline };
  return { onDeadline: "value" as const, onDeadlineValue: tree(onDeadline.value, "the deadline's value") };
}

/** The row with a remark for whoever answers next. */
function withProblem(ledger: WaitLedger, row: WaitRow, problem: string): WaitRow {
  const codec = row.body.slice(0, row.body.indexOf(" ") + 1);
  return { ...row, body: codec + JSON.stringify({ ...parseWait(ledger.serde, row), problem }) };
}
