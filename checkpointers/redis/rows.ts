/**
 * Rows as Redis keeps them: a few parts of known length that the scripts read, then the body. The first letter of a body
 * says how the rest is to be read: `s` text as UTF-8, `j` text that has no UTF-8 as JSON, `b` bytes.
 */

import {
  type CheckpointRow,
  type DecisionRow,
  type EffectRow,
  type ItemsRow,
  RUN_MOVES,
  type RunRow,
  type RunStatus,
  type WaitRow,
  type WaitStatus,
  type WriteRow,
} from "holdfast";
import { isWellFormed } from "../ids.ts";
import { part, sortableMoment } from "./ids.ts";

/** By the digit that stands for it in indexes. */
export const STATUSES: readonly WaitStatus[] = ["open", "answered", "consumed", "superseded"];

/** The same of runs: those that have ended come last, see `commit-runs.ts`. */
export const RUN_STATUSES: readonly RunStatus[] = [
  ...["queued", "running", "waiting", "retrying", "parked"],
  ...["succeeded", "failed", "cancelled"],
] as readonly RunStatus[];

/** The digits of the statuses that a run may have before it has this one. */
export function digitsBefore(status: RunStatus): string {
  return RUN_STATUSES.flatMap((before, digit) => (RUN_MOVES[before].includes(status) ? [digit] : [])).join("");
}

export function packText(text: string): string {
  return isWellFormed(text) ? `s${text}` : `j${JSON.stringify(text)}`;
}

/** A copy, so that bytes which the caller changes while a commit waits are stored as they were. */
export function packData(data: string | Uint8Array): string | Buffer {
  return typeof data === "string" ? packText(data) : Buffer.concat([Buffer.from("b"), data]);
}

export function unpackData(stored: Buffer): string | Uint8Array {
  if (stored[0] === 0x62) return new Uint8Array(stored.subarray(1));
  const text = stored.toString("utf8", 1);
  return stored[0] === 0x6a ? (JSON.parse(text) as string) : text;
}

const optionalPart = (text: string | undefined) => (text === undefined ? "1:-" : part(`+${text}`));

/** Takes a stored row apart. */
class Parts {
  readonly #stored: Buffer;
  #at = 0;

  constructor(stored: Buffer) {
    this.#stored = stored;
  }

  next(): string {
    const colon = this.#stored.indexOf(0x3a, this.#at);
    const begin = colon + 1;
    this.#at = begin + Number(this.#stored.toString("latin1", this.#at, colon));
    return this.#stored.toString("utf8", begin, this.#at);
  }

  optional(): string | undefined {
    const text = this.next();
    return text === "-" ? undefined : text.slice(1);
  }

  rest(): string {
    return this.#stored.toString("utf8", this.#at);
  }

  body(): string {
    return unpackData(this.#stored.subarray(this.#at)) as string;
  }
}

export function packCheckpoint(row: Pick<CheckpointRow, "parent" | "source" | "body">): string {
  return optionalPart(row.parent) + part(row.source) + packText(row.body);
}

export function unpackCheckpoint(thread: string, ns: string, id: string, stored: Buffer): CheckpointRow {
  const parts = new Parts(stored);
  return { thread, ns, id, parent: parts.optional(), source: parts.next(), body: parts.body() };
}

/** Without the version of the thread, which the script puts before it. */
export function packWrites(row: Pick<WriteRow, "path" | "run" | "body">): string {
  return part(row.path) + optionalPart(row.run) + packText(row.body);
}

/** `rest` is what the member has after its checkpoint: task and slot. */
export function unpackWrites(checkpoint: string, rest: Buffer, stored: Buffer): WriteRow {
  const place = new Parts(rest);
  const task = place.next();
  const slot = place.rest();
  const parts = new Parts(stored);
  parts.next();
  return {
    checkpoint,
    task,
    path: parts.next(),
    slot: slot.startsWith("s") ? -Number(slot.slice(1)) : Number(slot.slice(1)),
    run: parts.optional(),
    body: parts.body(),
  };
}

export function packItems(row: Pick<ItemsRow, "count" | "body">): string {
  return part(`${row.count}`) + packText(row.body);
}

export function unpackItems(list: string, start: number, stored: Buffer): ItemsRow {
  const parts = new Parts(stored);
  return { list, start, count: Number(parts.next()), body: parts.body() };
}

/** What the scripts judge by and index stands first: revision, status, thread, task, input. */
export function packEffect(row: EffectRow): string {
  const { ns, checkpoint, ordinal, attempt, owner, name, digest } = row;
  return (
    part(`${row.rev}`) +
    part(row.status) +
    part(row.thread) +
    part(row.task) +
    part(part(digest) + part(name)) +
    part(JSON.stringify([ns, checkpoint, ordinal, attempt, owner, name, digest])) +
    packText(row.body)
  );
}

export function unpackEffect(key: string, stored: Buffer): EffectRow {
  const parts = new Parts(stored);
  const [rev, status, thread, task] = [parts.next(), parts.next(), parts.next(), parts.next()];
  parts.next();
  const [ns, checkpoint, ordinal, attempt, owner, name, digest] = JSON.parse(parts.next()) as [
    string,
    string,
    number,
    number,
    string,
    string,
    string,
  ];
  const place = { key, thread, ns, checkpoint, task, name, digest, ordinal };
  return { ...place, status: status as EffectRow["status"], rev: Number(rev), attempt, owner, body: parts.body() };
}

type WaitRest = Omit<WaitRow, "id" | "thread" | "status" | "rev" | "holder" | "body">;

/** First what changes when a wait ends (revision, status, holder), then its places in the indexes: moment, due, owner. */
export function packWait(row: WaitRow): string {
  const { id, thread, status, rev, holder, body, ...rest } = row;
  return (
    part(`${rev}`) +
    part(`${STATUSES.indexOf(status)}`) +
    optionalPart(holder) +
    part(sortableMoment(row.openedAt)) +
    part(row.due === undefined ? "" : sortableMoment(row.due)) +
    part(row.owner === undefined ? "" : part(row.owner)) +
    part(JSON.stringify(rest satisfies WaitRest)) +
    packText(body)
  );
}

export function unpackWait(id: string, thread: string, stored: Buffer): WaitRow {
  const parts = new Parts(stored);
  const [rev, status, holder] = [parts.next(), parts.next(), parts.optional()];
  for (let skipped = 0; skipped < 3; skipped++) parts.next();
  const { ns, checkpoint, task, kind, name, digest, openedAt, due, graph, assignee, owner, decision } = JSON.parse(
    parts.next(),
  ) as WaitRest;
  return {
    id,
    thread,
    ns,
    checkpoint,
    task,
    kind,
    name,
    digest,
    status: STATUSES[Number(status)] as WaitStatus,
    openedAt,
    due,
    graph,
    assignee,
    owner,
    decision,
    holder,
    rev: Number(rev),
    body: parts.body(),
  };
}

export function packDecision(row: DecisionRow): string {
  return part(row.wait) + part(row.hash) + packText(row.body);
}

export function unpackDecision(thread: string, seq: number, stored: Buffer): DecisionRow {
  const parts = new Parts(stored);
  return { thread, seq, wait: parts.next(), hash: parts.next(), body: parts.body() };
}

type RunRest = Omit<RunRow, "id" | "thread" | "status" | "body">;

/**
 * First what it is judged by (revision, status, epoch, moment, key), then its other places in the indexes: owner, graph,
 * priority, due. Its body stands beside it: what is looked at with every superstep should be short.
 */
export function packRun({ id: _, thread: __, status, body: ___, ...rest }: RunRow): string {
  const claimable = status === "queued" || status === "retrying";
  return (
    part(`${rest.rev}`) +
    part(`${RUN_STATUSES.indexOf(status)}`) +
    part(`${rest.epoch}`) +
    part(sortableMoment(rest.createdAt)) +
    optionalPart(rest.key) +
    part(rest.owner === undefined ? "" : part(rest.owner)) +
    part(part(rest.graph)) +
    part(sortableMoment(-rest.priority)) +
    part(rest.due === undefined || !claimable ? "" : sortableMoment(rest.due)) +
    JSON.stringify(rest satisfies RunRest)
  );
}

export function unpackRun(id: string, thread: string, stored: Buffer, body: Buffer): RunRow {
  const parts = new Parts(stored);
  parts.next();
  const status = parts.next();
  for (let skipped = 0; skipped < 7; skipped++) parts.next();
  return runFrom(id, thread, status, parts.rest(), unpackData(body) as string);
}

/** From the digit of its status and what stands as JSON. */
export function runFrom(id: string, thread: string, digit: string, json: string, body: string): RunRow {
  const { graph, rev, epoch, worker, due, priority, key, owner, createdAt } = JSON.parse(json) as RunRest;
  const status = RUN_STATUSES[Number(digit)] as RunStatus;
  return { id, thread, graph, status, rev, epoch, worker, due, priority, key, owner, createdAt, body };
}
