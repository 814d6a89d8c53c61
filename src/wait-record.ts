/** Waits and decisions as values: what stands in the bodies of their rows, and back. */

import { hash } from "node:crypto";
import type { Backend } from "./backend.ts";
import type { DecisionRow, WaitRow } from "./model.ts";
import { encoded, payload, type Serde, type Tree } from "./serde.ts";
import { type BlobCollector, contentHash, inlineOrBlob, ValueReader } from "./values.ts";

/** What a person may say to a question. */
export type DecisionType = "approve" | "edit" | "reject" | "respond";

/**
 * A person's word on a question.
 *
 * `approve` what was shown, as it was shown · `edit` approve it with `value` in its place · `reject` it · `respond`
 * with `value`, for questions that want an answer of their own.
 */
export type Decision =
  | { readonly type: "approve"; readonly comment?: string | undefined }
  | { readonly type: "edit"; readonly value: unknown; readonly comment?: string | undefined }
  | { readonly type: "reject"; readonly comment?: string | undefined }
  | { readonly type: "respond"; readonly value: unknown; readonly comment?: string | undefined };

/**
 * What ended a wait. Beside the four decisions: `deliver` an event came · `due` its time came · `settle` an effect was
 * settled · `supersede` the thread went on without it · `reopen` an answer was not accepted, the wait is open again.
 */
export type DecisionKind = DecisionType | "deliver" | "due" | "settle" | "supersede" | "reopen";

/** What happens to a question at its deadline: `reject`, stay open (`hold`), or answer with a value. */
export type OnDeadline = "reject" | "hold" | { readonly value: unknown };

/** A recorded decision. */
export interface DecisionRecord {
  /** Place in the thread's chain, from 1. */
  readonly seq: number;
  readonly thread: string;
  readonly wait: string;
  readonly type: DecisionKind;
  /** Of `edit`, `respond` and `deliver`. */
  readonly value: unknown;
  readonly comment: string | undefined;
  /** Who: as authentication said it; "deadline" and "clock" decide by themselves. */
  readonly by: string;
  /** From where, for example "http" or "resume". */
  readonly via: string | undefined;
  /** By the writer's clock. */
  readonly at: Date;
  /** Digest of what was decided upon. */
  readonly digest: string;
  readonly hash: string;
}

/** What a wait's row holds beside its columns. */
export interface WaitContent {
  /** What LangGraph shows as the interrupt's value. */
  readonly value: Tree;
  /** What is to be approved; executed as it stands here. */
  readonly details?: Tree | undefined;
  readonly allow: readonly DecisionType[];
  /** JSON Schema of `value` in an edit or a response. */
  readonly schema?: unknown;
  /** Deadline in milliseconds since 1970, also where nothing happens then. */
  readonly deadline?: number | undefined;
  readonly onDeadline?: "reject" | "hold" | "value" | undefined;
  readonly onDeadlineValue?: Tree | undefined;
  /** Why an earlier answer was not accepted. */
  readonly problem?: string | undefined;
}

/** A name is found by in stores that keep well-formed text only: what was shown may hold anything, and may be cut anywhere. */
export const waitName = (text: string): string => text.slice(0, 200).toWellFormed();

/** A wait, decoded. */
export interface WaitRecord extends Omit<WaitRow, "openedAt" | "due" | "decision" | "holder" | "rev" | "body"> {
  readonly openedAt: Date;
  readonly due: Date | undefined;
  readonly deadline: Date | undefined;
  readonly onDeadline: OnDeadline | undefined;
  /** The interrupt's value. */
  readonly value: unknown;
  /** What is to be approved; undefined where nothing was given. */
  readonly details: unknown;
  /** Which decisions it takes; empty for events, timers and effects. */
  readonly allow: readonly DecisionType[];
  /** JSON Schema of the value in an edit or a response, where one was given. */
  readonly schema: unknown;
  readonly problem: string | undefined;
  readonly decision: DecisionRecord | undefined;
}

/** A record with the row it came from. */
export interface StoredWait {
  readonly row: WaitRow;
  readonly record: WaitRecord;
}

/** Row text. `blobs` must have been given to the serde for every tree of the content; it gets what else is needed. */
export function waitBody(serde: Serde, content: WaitContent, blobs: BlobCollector): string {
  const { value, details, onDeadlineValue, ...plain } = content;
  const tree = (name: string, part: Tree | undefined) =>
    part === undefined ? "" : `,"${name}":${inlineOrBlob(serde.stringify(part), blobs)}`;
  const rest = JSON.stringify(plain).slice(0, -1);
  return encoded(
    `${rest}${tree("value", value)}${tree("details", details)}${tree("onDeadlineValue", onDeadlineValue)}}`,
  );
}

/** The parts of a body that are plain JSON; values stay as they are stored. */
export function parseWait(serde: Serde, row: WaitRow): WaitContent {
  return serde.parse(payload(row.body)) as unknown as WaitContent;
}

export async function readWait(
  backend: Backend,
  serde: Serde,
  row: WaitRow,
  decision: DecisionRecord | undefined,
): Promise<StoredWait> {
  const parsed = parseWait(serde, row);
  const reader = new ValueReader(backend, serde, row.thread);
  await reader.fetch([row.body], [parsed.value, parsed.details, parsed.onDeadlineValue]);
  const revive = (tree: Tree | undefined) =>
    tree === undefined ? undefined : reader.revive(tree, () => `wait ${row.name} (${row.id})`);
  const { body: _, due, openedAt, holder: __, decision: ___, rev: ____, ...columns } = row;
  const record: WaitRecord = {
    ...columns,
    openedAt: new Date(openedAt),
    due: dateOf(due),
    deadline: dateOf(parsed.deadline),
    onDeadline: parsed.onDeadline === "value" ? { value: revive(parsed.onDeadlineValue) } : parsed.onDeadline,
    value: revive(parsed.value),
    details: revive(parsed.details),
    allow: parsed.allow,
    schema: parsed.schema,
    problem: parsed.problem,
    decision,
  };
  return { row, record };
}

export interface DecisionContent {
  readonly type: DecisionKind;
  readonly at: number;
  readonly by: string;
  readonly via?: string | undefined;
  readonly digest: string;
  readonly comment?: string | undefined;
  readonly value?: Tree | undefined;
}

/** The place where a decision is appended. */
export interface ChainEnd {
  readonly seq: number;
  readonly hash: string;
}

export const CHAIN_START: ChainEnd = { seq: 0, hash: "" };

export function decisionRow(
  serde: Serde,
  thread: string,
  wait: string,
  after: ChainEnd,
  content: DecisionContent,
  blobs: BlobCollector,
): DecisionRow {
  const { value, ...plain } = content;
  const rest = JSON.stringify(plain).slice(0, -1);
  const tree = value === undefined ? "" : `,"value":${inlineOrBlob(serde.stringify(value), blobs)}`;
  const body = encoded(`${rest}${tree}}`);
  const seq = after.seq + 1;
  return { thread, seq, wait, body, hash: decisionHash(after.hash, { thread, seq, wait, body }) };
}

/** SHA-256 of a link of the chain and of everything before it; large values stand in it by their own hashes. */
export function decisionHash(before: string, row: Omit<DecisionRow, "hash">): string {
  return hash("sha256", JSON.stringify([before, row.thread, row.seq, row.wait, row.body]), "hex");
}

export async function readDecision(backend: Backend, serde: Serde, row: DecisionRow): Promise<DecisionRecord> {
  const parsed = serde.parse(payload(row.body)) as unknown as DecisionContent;
  const reader = new ValueReader(backend, serde, row.thread);
  await reader.fetch([row.body], [parsed.value]);
  const value =
    parsed.value === undefined
      ? undefined
      : reader.revive(parsed.value, () => `decision ${row.seq} of thread ${row.thread}`);
  return {
    seq: row.seq,
    thread: row.thread,
    wait: row.wait,
    type: parsed.type,
    value,
    comment: parsed.comment,
    by: parsed.by,
    via: parsed.via,
    at: new Date(parsed.at),
    digest: parsed.digest,
    hash: row.hash,
  };
}

/** What is wrong with a link of the chain, or undefined. */
export async function checkDecision(
  backend: Backend,
  serde: Serde,
  row: DecisionRow,
  before: ChainEnd,
): Promise<string | undefined> {
  if (row.seq !== before.seq + 1) return `decision ${before.seq + 1} is missing`;
  if (decisionHash(before.hash, row) !== row.hash) return "its text, or one before it, is not what was hashed";
  const reader = new ValueReader(backend, serde, row.thread);
  const { value } = serde.parse(payload(row.body)) as unknown as DecisionContent;
  await reader.fetch([row.body], [value]);
  for (const key of serde.blobHashes([row.body])) if (!reader.blobs.has(key)) return "its value is missing";
  for (const [key, data] of reader.blobs) if (contentHash(data) !== key) return "its value is not what was hashed";
  return undefined;
}

const dateOf = (at: number | undefined): Date | undefined => (at === undefined ? undefined : new Date(at));
