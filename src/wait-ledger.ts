/**
 * The recorded waits of one checkpointer: questions, timers, events, and the chain of decisions about them.
 *
 * - W1 A wait's row is durable before the pause is shown to anybody.
 * - W2 One decision wins: the wait's revision decides, in one commit with the decision, from any process. The same decision
 *   again is answered with `replayed: true`, another one is refused.
 * - W4 Decisions are only appended, each with a hash over the one before it: a changed row is found and named.
 * - W5 A deadline and an answer at the same moment: whichever is recorded first. An answer that comes after the
 *   deadline is refused even where nobody has recorded the deadline yet.
 * - W8 A wait is a row: it takes no process, timer or memory.
 */

import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { type Backend, eraOf, type Op, type WaitQuery } from "./backend.ts";
import type { CommitQueue } from "./commit-queue.ts";
import { resumeValue } from "./dialects.ts";
import { HoldfastError, isHoldfastError } from "./errors.ts";
import { RESUME } from "./langgraph.ts";
import type { WaitRow } from "./model.ts";
import { isCrashLoop, runOps } from "./runs/run-record.ts";
import { wakeWorkers } from "./runs/wake-up.ts";
import type { Serde } from "./serde.ts";
import { BlobCollector } from "./values.ts";
import { alreadyAnswered, checkAnswer, sameDecision } from "./wait-answer.ts";
import {
  CHAIN_START,
  type ChainEnd,
  checkDecision,
  type Decision,
  type DecisionKind,
  type DecisionRecord,
  decisionRow,
  readDecision,
  readWait,
  type StoredWait,
  type WaitRecord,
} from "./wait-record.ts";

/** Who decides. */
export interface Decider {
  /** As authentication said it; never from what was sent along. */
  readonly by: string;
  /** From where; kept with the decision. Default "api". */
  readonly via?: string;
}

export interface AnswerOptions extends Decider {
  /** Digest of what was shown to who decides: refused where the question is another by now. */
  readonly digest?: string;
  /** Only waits of threads with this owner are found. */
  readonly owner?: string;
}

export interface AnswerResult {
  /** True where the same decision had been recorded before. */
  readonly replayed: boolean;
  readonly decision: DecisionRecord;
  readonly wait: WaitRecord;
}

/** A link of a chain of decisions that is not what it was. */
export interface BrokenDecision {
  readonly thread: string;
  readonly seq: number;
  readonly wait: string;
  readonly problem: string;
}

/** How a wait ends, or opens again. */
export interface Ending {
  readonly type: DecisionKind;
  readonly value?: unknown;
  readonly comment?: string | undefined;
  readonly by: string;
  readonly via?: string | undefined;
}

/** Somebody else has changed the wait, the chain, or the thread's run. */
const OVERTAKEN = ["WAIT_CONFLICT", "DECISION_CONFLICT", "RUN_CONFLICT"] as const;

const STATUS_AFTER = { supersede: "superseded", reopen: "open" } as const;

export class WaitLedger {
  readonly backend: Backend;
  readonly serde: Serde;
  /** Milliseconds since 1970; decides about deadlines and timers. */
  readonly now: () => number;
  readonly #queue: CommitQueue;
  readonly #memo: Map<string, string>;

  constructor(backend: Backend, serde: Serde, queue: CommitQueue, memo: Map<string, string>, now: () => number) {
    this.backend = backend;
    this.serde = serde;
    this.now = now;
    this.#queue = queue;
    this.#memo = memo;
  }

  blobs(): BlobCollector {
    return new BlobCollector(this.#memo);
  }

  async rows(query: WaitQuery): Promise<readonly WaitRow[]> {
    await this.#queue.flush();
    return this.backend.waits(query);
  }

  async records(query: WaitQuery): Promise<readonly WaitRecord[]> {
    const rows = await this.rows(query);
    return Promise.all(rows.map(async (row) => (await this.read(row)).record));
  }

  /** @throws UNKNOWN_WAIT */
  async find(id: string, owner?: string): Promise<StoredWait> {
    const [row] = await this.rows({ id, owner });
    if (row !== undefined) return this.read(row);
    throw new HoldfastError(
      "UNKNOWN_WAIT",
      `There is no wait with id ${JSON.stringify(id)}. checkpointer.waits({ status: ["open"] }) lists the open ones.`,
      { details: { id } },
    );
  }

  async read(row: WaitRow): Promise<StoredWait> {
    const { decision: seq } = row;
    const link = seq === undefined ? undefined : await this.backend.decision(row.thread, seq);
    const decision = link === undefined ? undefined : await readDecision(this.backend, this.serde, link);
    return readWait(this.backend, this.serde, row, decision);
  }

  async chainEnd(thread: string): Promise<ChainEnd> {
    return (await this.backend.decision(thread, undefined)) ?? CHAIN_START;
  }

  /** The operations that record a decision and move the wait on, and the row and chain after them. */
  decide(
    row: WaitRow,
    ending: Ending,
    after: ChainEnd,
    era: number,
  ): { readonly ops: Op[]; readonly row: WaitRow; readonly end: ChainEnd } {
    const blobs = this.blobs();
    const { type, by, via, comment } = ending;
    const value =
      "value" in ending ? this.serde.toTree(ending.value, blobs, () => `the answer to ${row.name}`) : undefined;
    const content = { type, at: this.now(), by, via, digest: row.digest, comment, value };
    const link = decisionRow(this.serde, row.thread, row.id, after, content, blobs);
    const status = type === "supersede" || type === "reopen" ? STATUS_AFTER[type] : "answered";
    const next: WaitRow = { ...row, status, decision: link.seq, holder: undefined, rev: row.rev + 1 };
    const ops: Op[] = [
      ...blobs.ops(row.thread, era),
      { kind: "wait", thread: row.thread, era, row: next, expect: row.rev },
      { kind: "decision", thread: row.thread, era, row: link },
    ];
    return { ops, row: next, end: link };
  }

  /** The operations by which a thread goes on without these waits, and the end of its chain after them. */
  supersede(
    rows: readonly WaitRow[],
    who: Decider,
    after: ChainEnd,
    era: number,
  ): { readonly ops: Op[]; readonly end: ChainEnd } {
    const ops: Op[] = [];
    let end = after;
    for (const row of rows) {
      const decided = this.decide(row, { ...who, type: "supersede" }, end, era);
      end = decided.end;
      ops.push(...decided.ops);
    }
    return { ops, end };
  }

  /** Records a decision, durably. @throws WAIT_CONFLICT, DECISION_CONFLICT, RUN_CONFLICT, THREAD_DELETED */
  async record(row: WaitRow, ending: Ending): Promise<WaitRow> {
    const after = await this.chainEnd(row.thread);
    const era = await eraOf(this.backend, row.thread);
    const decided = this.decide(row, ending, after, era);
    const queued = ending.type === "reopen" ? [] : await this.queueRunOps(row.thread, era);
    await this.commit([...decided.ops, ...queued]);
    if (queued.length > 0) wakeWorkers(this.backend);
    return decided.row;
  }

  /** The operations that queue the run which waits for the thread, if one does: a worker goes on with it. */
  async queueRunOps(thread: string, era: number): Promise<Op[]> {
    const [row] = await this.backend.runs({ thread, status: ["waiting", "parked"], limit: 1 });
    // One that was parked because its workers died waits for no answer.
    if (row === undefined || isCrashLoop(this.serde, row)) return [];
    const due = await this.backend.now();
    return runOps({ ...row, status: "queued", due, rev: row.rev + 1 }, era, row.rev);
  }

  /** @param fence what has to hold for it, of a claimed run */
  commit(ops: readonly Op[], fence?: Op): Promise<void> {
    return this.#queue.enqueue(ops, undefined, { urgent: true, fence });
  }

  async answer(id: string, decision: Decision, options: AnswerOptions): Promise<AnswerResult> {
    const by = checkedBy("answer", options.by);
    for (;;) {
      const found = await this.find(id, options.owner);
      const { record, row } = found;
      const earlier = record.decision;
      if (record.status !== "open") {
        if (
          earlier === undefined ||
          !sameDecision(checkAnswer(record, decision), earlier, (value) => this.#text(value))
        )
          throw alreadyAnswered(record);
        return { replayed: true, decision: earlier, wait: record };
      }
      if (options.digest !== undefined && options.digest !== record.digest) throw changed(record, options.digest);
      const checked = checkAnswer(record, decision);
      if (await this.#tried(() => this.decideDue(row))) continue;
      const { via = "api" } = options;
      if (!(await this.#tried(() => this.record(row, { ...checked, by, via })))) continue;
      const { record: after } = await this.find(id, options.owner);
      if (after.decision !== undefined) return { replayed: false, decision: after.decision, wait: after };
    }
  }

  /** Hands an event to everybody who waits for it. Resolves with the waits that took it. */
  async deliver(
    event: string,
    value: unknown,
    options: Decider & { readonly thread?: string | undefined; readonly owner?: string | undefined },
  ): Promise<readonly WaitRecord[]> {
    const by = checkedBy("deliver", options.by);
    const { thread, owner, via = "api" } = options;
    const taken: WaitRecord[] = [];
    const open = await this.rows({ name: event, kind: ["event"], status: ["open"], thread, owner });
    for (const row of open) {
      if (await this.#tried(() => this.decideDue(row))) continue;
      if (await this.#tried(() => this.record(row, { type: "deliver", value, by, via })))
        taken.push((await this.find(row.id)).record);
    }
    if (taken.length > 0) return taken;
    throw new HoldfastError(
      "UNKNOWN_WAIT",
      `Nobody waits for event ${JSON.stringify(event)}${thread === undefined ? "" : ` in thread ${JSON.stringify(thread)}`}. ` +
        "Events are not kept for later: deliver it again when the thread has come to its waitFor().",
      { details: { event, thread } },
    );
  }

  /** Records what happens at an open wait's due time, if that has come. Undefined where it has not. */
  async decideDue(row: WaitRow): Promise<WaitRow | undefined> {
    if (row.status !== "open" || row.due === undefined || row.due > this.now()) return undefined;
    if (row.kind !== "question") return this.record(row, { type: "due", by: "clock" });
    const { onDeadline } = (await this.read(row)).record;
    const ending: Ending =
      typeof onDeadline === "object"
        ? { type: "respond", value: onDeadline.value, by: "deadline" }
        : { type: "reject", comment: "The deadline has passed.", by: "deadline" };
    return this.record(row, ending);
  }

  /** A loaded checkpoint with what was answered to its tasks' plain interrupts, as if a resume had named them. */
  async withAnswers(
    tuple: CheckpointTuple,
    ns: string,
    checkpoint: string,
    waits: readonly WaitRow[],
  ): Promise<CheckpointTuple> {
    const answered = waits.filter(
      (row) => row.kind === "interrupt" && row.status === "answered" && row.ns === ns && row.checkpoint === checkpoint,
    );
    if (answered.length === 0) return tuple;
    let pending = tuple.pendingWrites ?? [];
    for (const row of answered) {
      const { record } = await this.read(row);
      if (record.decision === undefined) continue;
      const isEarlier = ([task, channel]: readonly unknown[]) => task === row.task && channel === RESUME;
      const earlier = pending.filter(isEarlier).flatMap(([, , values]) => values as unknown[]);
      const values = [...earlier, resumeValue(record.value, record.decision)];
      pending = [...pending.filter((write) => !isEarlier(write)), [row.task, RESUME, values]];
    }
    return { ...tuple, pendingWrites: pending };
  }

  /** The operations that close the question about an effect's outcome, with the decision that settled it. */
  async settleOps(id: string, by: string, era: number): Promise<Op[]> {
    const [row] = await this.backend.waits({ id, status: ["open"] });
    if (row === undefined) return [];
    const { ops } = this.decide(row, { type: "settle", by, via: "settle" }, await this.chainEnd(row.thread), era);
    return [...ops, ...(await this.queueRunOps(row.thread, era))];
  }

  /** A thread's decisions in their order, decoded as they are consumed. */
  async *decisions(thread: string): AsyncGenerator<DecisionRecord> {
    await this.#queue.flush();
    for await (const row of this.backend.decisions({ thread })) yield readDecision(this.backend, this.serde, row);
  }

  /** Every link of the chains that is not what was recorded. */
  async verify(
    thread: string | undefined,
  ): Promise<{ readonly checked: number; readonly broken: readonly BrokenDecision[] }> {
    await this.#queue.flush();
    const broken: BrokenDecision[] = [];
    let checked = 0;
    let end = { ...CHAIN_START, thread: undefined as string | undefined };
    for await (const row of this.backend.decisions({ thread })) {
      if (row.thread !== end.thread) end = { ...CHAIN_START, thread: row.thread };
      const problem = await checkDecision(this.backend, this.serde, row, end);
      if (problem !== undefined) broken.push({ thread: row.thread, seq: row.seq, wait: row.wait, problem });
      end = { seq: row.seq, hash: row.hash, thread: row.thread };
      checked += 1;
    }
    return { checked, broken };
  }

  /** Whether something was recorded; false where somebody else has changed the wait or the chain meanwhile. */
  async #tried(record: () => Promise<WaitRow | undefined>): Promise<boolean> {
    try {
      return (await record()) !== undefined;
    } catch (error) {
      if (OVERTAKEN.some((code) => isHoldfastError(error, code))) return false;
      throw error;
    }
  }

  #text(value: unknown): string {
    return this.serde.stringify(this.serde.toTree(value, this.blobs(), () => "the answer"));
  }
}

function checkedBy(call: string, by: unknown): string {
  if (typeof by === "string" && by !== "") return by;
  throw new HoldfastError("INVALID_ARGUMENT", `${call}: \`by\` must name who decides, got ${JSON.stringify(by)}.`);
}

function changed(record: WaitRecord, digest: string): HoldfastError {
  return new HoldfastError(
    "WAIT_CHANGED",
    `Wait ${record.id} (${record.name}) shows something else by now: the answer is about ${digest}, the question is ${record.digest}. ` +
      "Nothing was recorded. Read it again and decide on what it shows now.",
    { details: { id: record.id, given: digest, digest: record.digest } },
  );
}
