/** Waits and decisions as the endpoints show them: plain JSON, times as ISO 8601. */

import type { WaitRow } from "../model.ts";
import type { BrokenDecision, WaitLedger } from "../wait-ledger.ts";
import type { DecisionRecord, WaitRecord } from "../wait-record.ts";
import { plainJson } from "./plain-json.ts";

export interface DecisionView {
  readonly seq: number;
  readonly thread: string;
  readonly wait: string;
  readonly type: string;
  readonly value: unknown;
  readonly comment: string | null;
  readonly by: string;
  readonly via: string | null;
  readonly at: string;
  readonly digest: string;
  readonly hash: string;
}

export interface WaitView {
  readonly id: string;
  readonly thread: string;
  readonly graph: string | null;
  /** The nodes around the question, outermost first; empty in the graph itself. */
  readonly path: string[];
  readonly kind: string;
  readonly name: string;
  /** What is asked, as a text. */
  readonly question: string;
  readonly status: string;
  /** The interrupt's value. */
  readonly value: unknown;
  readonly details: unknown;
  readonly allow: string[];
  readonly schema: unknown;
  readonly digest: string;
  readonly problem: string | null;
  readonly assignee: string | null;
  readonly openedAt: string;
  readonly deadline: string | null;
  readonly due: string | null;
  readonly onDeadline: unknown;
  readonly overdue: boolean;
  readonly task: string;
  readonly checkpoint: string;
  readonly decision: DecisionView | null;
}

export interface BrokenView {
  readonly seq: number;
  readonly wait: string;
  readonly problem: string;
}

export function waitView(wait: WaitRecord, now: number): WaitView {
  const { kind, name, value, details, schema, status, deadline, due, decision } = wait;
  return {
    id: wait.id,
    thread: wait.thread,
    graph: wait.graph ?? null,
    path: pathOf(wait.ns),
    kind,
    name,
    question: questionOf(value) ?? name,
    status,
    value: plainJson(value),
    details: plainJson(details),
    allow: [...wait.allow],
    schema: plainJson(schema),
    digest: wait.digest,
    problem: wait.problem ?? null,
    assignee: wait.assignee ?? null,
    openedAt: wait.openedAt.toISOString(),
    deadline: deadline?.toISOString() ?? null,
    due: due?.toISOString() ?? null,
    onDeadline: plainJson(wait.onDeadline),
    overdue: isOverdue(wait, now),
    task: wait.task,
    checkpoint: wait.checkpoint,
    decision: decision === undefined ? null : decisionView(decision),
  };
}

/** Whether an open wait's moment has come, also where nothing happens then. */
export function isOverdue({ status, deadline, due }: WaitRecord, now: number): boolean {
  const moment = deadline ?? due;
  return status === "open" && moment !== undefined && moment.getTime() <= now;
}

/** A wait whose content cannot be read, so that it is seen and the others with it. */
export function unreadableView(row: WaitRow, id: string): WaitView {
  const at = (moment: number | undefined) => (moment === undefined ? null : new Date(moment).toISOString());
  return {
    id: row.id,
    thread: row.thread,
    graph: row.graph ?? null,
    path: pathOf(row.ns),
    kind: row.kind,
    name: row.name,
    question: row.name,
    status: row.status,
    value: null,
    details: null,
    allow: [],
    schema: null,
    digest: row.digest,
    problem: `What it shows cannot be read; failure ${id} in the log says why.`,
    assignee: row.assignee ?? null,
    openedAt: new Date(row.openedAt).toISOString(),
    deadline: null,
    due: at(row.due),
    onDeadline: null,
    overdue: false,
    task: row.task,
    checkpoint: row.checkpoint,
    decision: null,
  };
}

export function decisionView(decision: DecisionRecord): DecisionView {
  return {
    seq: decision.seq,
    thread: decision.thread,
    wait: decision.wait,
    type: decision.type,
    value: plainJson(decision.value),
    comment: decision.comment ?? null,
    by: decision.by,
    via: decision.via ?? null,
    at: decision.at.toISOString(),
    digest: decision.digest,
    hash: decision.hash,
  };
}

export function brokenView({ seq, wait, problem }: BrokenDecision): BrokenView {
  return { seq, wait, problem };
}

/** Rows as views, each read for itself: one that cannot be read hides no other. */
export function viewsOf(
  ledger: WaitLedger,
  rows: readonly WaitRow[],
  failed: (error: unknown, row: WaitRow) => string,
): Promise<WaitView[]> {
  const now = ledger.now();
  return Promise.all(
    rows.map(async (row) => {
      try {
        return waitView((await ledger.read(row)).record, now);
      } catch (error) {
        return unreadableView(row, failed(error, row));
      }
    }),
  );
}

/** `outer:<task>|inner:<task>` → `["outer", "inner"]`. */
function pathOf(ns: string): string[] {
  return ns === "" ? [] : ns.split("|").map((part) => part.slice(0, part.lastIndexOf(":")) || part);
}

function questionOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  const { question, description } = (value ?? {}) as { question?: unknown; description?: unknown };
  if (typeof question === "string") return question;
  return typeof description === "string" ? description : undefined;
}
