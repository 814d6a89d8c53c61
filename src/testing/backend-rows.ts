/** Short ways to write operations and to say what became of them, for the conformance suite. */

import assert from "node:assert/strict";
import type { Backend, Commit, DueRunsQuery, Op, RunQuery, WaitQuery } from "../backend.ts";
import { type ErrorCode, type HoldfastError, isHoldfastError } from "../errors.ts";
import type { DecisionRow, EffectRow, ListBase, RunRow, WaitRow, WriteRow } from "../model.ts";

type Fields<K extends Op["kind"]> = Partial<Omit<Extract<Op, { kind: K }>, "kind">>;
export type Entry = readonly [idx: number, channel: string, value: unknown];

export const encoded = (value: unknown) => `json/1 ${JSON.stringify(value)}`;

export function checkpoint(id: string, fields: Fields<"checkpoint"> = {}): Extract<Op, { kind: "checkpoint" }> {
  const defaults = { thread: "t", era: 0, ns: "", parent: undefined, source: "loop", heads: undefined };
  return { kind: "checkpoint", ...defaults, id, body: encoded({ checkpoint: id }), ...fields };
}

/** A call with all of a task's writes; by default of task "a" on checkpoint "1", in run "run 1". */
export function writes(entries: readonly Entry[], fields: Fields<"writes"> = {}): Extract<Op, { kind: "writes" }> {
  const place = { thread: "t", era: 0, ns: "", checkpoint: "1", task: "a", path: "~__pull, a" };
  return { kind: "writes", ...place, slot: undefined, run: "run 1", body: encoded(entries), ...fields };
}

export function items(list: string, start: number, values: readonly unknown[], fields: Fields<"items"> = {}): Op {
  const row = { list, start, count: values.length, body: encoded(values) };
  return { kind: "items", thread: "t", era: 0, base: undefined, ...row, ...fields };
}

export const base = (list: string, length: number): { base: ListBase } => ({ base: { list, length } });

export function blob(hash: string, data: string | Uint8Array, fields: Fields<"blob"> = {}): Op {
  return { kind: "blob", thread: "t", era: 0, hash, data, ...fields };
}

export function effectRow(key: string, fields: Partial<EffectRow> = {}): EffectRow {
  const place = { thread: "t", ns: "", checkpoint: "1", task: "a", name: "charge", digest: "d1", ordinal: 0 };
  const state = { status: "intent", rev: 0, attempt: 1, owner: "owner 1", body: encoded({ input: key }) } as const;
  return { key, ...place, ...state, ...fields };
}

export function effect(row: EffectRow, expect: number | null, era = 0): Op {
  return { kind: "effect", thread: row.thread, era, row, expect };
}

/** An open question without anything that may be left out. */
export function waitRow(id: string, fields: Partial<WaitRow> = {}): WaitRow {
  const place = { thread: "t", ns: "", checkpoint: "1", task: "a" };
  const what = { kind: "question", name: "refund", digest: "d1", status: "open", openedAt: 1000 } as const;
  const left = { due: undefined, graph: undefined, assignee: undefined, owner: undefined, decision: undefined };
  return { id, ...place, ...what, ...left, holder: undefined, rev: 0, body: encoded({ shown: id }), ...fields };
}

export function wait(row: WaitRow, expect: number | null, era = 0): Op {
  return { kind: "wait", thread: row.thread, era, row, expect };
}

export function endWait(id: string, fields: Fields<"endWait"> = {}): Op {
  return { kind: "endWait", thread: "t", era: 0, id, ...fields };
}

export function decisionRow(seq: number, fields: Partial<DecisionRow> = {}): DecisionRow {
  return { thread: "t", seq, wait: `w${seq}`, hash: `hash ${seq}`, body: encoded({ decided: seq }), ...fields };
}

export function decision(row: DecisionRow, era = 0): Op {
  return { kind: "decision", thread: row.thread, era, row };
}

/** A queued run without anything that may be left out but `due`. */
export function runRow(id: string, fields: Partial<RunRow> = {}): RunRow {
  const what = { thread: "t", graph: "g", status: "queued", rev: 0, epoch: 0, due: 1000, priority: 0 } as const;
  const left = { worker: undefined, key: undefined, owner: undefined };
  return { id, ...what, ...left, createdAt: 1000, body: encoded({ input: id }), ...fields };
}

export function run(row: RunRow, expect: number | null, era = 0): Op {
  return { kind: "run", thread: row.thread, era, row, expect };
}

/** The same run in another status, a revision on. */
export function moved(row: RunRow, status: RunRow["status"], fields: Partial<RunRow> = {}): RunRow {
  const claim = status === "running" ? { epoch: row.epoch + 1, worker: "worker 1" } : { worker: undefined };
  const due = status === "queued" || status === "retrying" ? 1000 : undefined;
  return { ...row, status, rev: row.rev + 1, ...claim, due, ...fields };
}

/** Moves a run that is stored as it is given. */
export function move(row: RunRow, status: RunRow["status"], fields: Partial<RunRow> = {}, era = 0): Op {
  return run(moved(row, status, fields), row.rev, era);
}

export function fence(run: string, epoch: number, fields: Fields<"fence"> = {}): Op {
  return { kind: "fence", thread: "t", era: 0, run, epoch, ...fields };
}

export const deleteThread = (thread: string): Op => ({ kind: "deleteThread", thread });

/** Commits the operations together; fails unless they are accepted. */
export async function accept(backend: Backend, ...ops: Op[]): Promise<void> {
  const verdicts = await backend.commit([ops]);
  assert.equal(verdicts.length, 1, "there must be one verdict per commit");
  if (verdicts[0] !== undefined) throw verdicts[0];
}

/** Commits the operations together; fails unless they are refused with this code. */
export async function refuse(backend: Backend, code: ErrorCode, ...ops: Op[]): Promise<void> {
  assert.deepEqual(await codes(backend, [ops]), [code]);
}

/** The same; resolves with the refusal. */
export async function refusal(backend: Backend, code: ErrorCode, ...ops: Op[]): Promise<HoldfastError> {
  const [verdict] = await backend.commit([ops]);
  assert.ok(verdict !== undefined, `must be refused with ${code}`);
  assert.equal(verdict.code, code);
  return verdict;
}

/** Commits a group; the code of each verdict, "accepted" for none. */
export async function codes(backend: Backend, group: readonly Commit[]): Promise<string[]> {
  return (await backend.commit(group)).map((verdict) => verdict?.code ?? "accepted");
}

export async function collect<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const row of rows) found.push(row);
  return found;
}

export async function ids(rows: AsyncIterable<{ readonly id: string }>): Promise<string[]> {
  return (await collect(rows)).map((row) => row.id);
}

export async function headOf(backend: Backend, thread = "t", ns = ""): Promise<string | undefined> {
  return (await backend.load(thread, ns, undefined)).head;
}

export async function waitIds(backend: Backend, query: WaitQuery = {}): Promise<string[]> {
  return (await backend.waits(query)).map((row) => row.id);
}

/** One line per wait of a thread: `id status revision`. */
export async function waitsOf(backend: Backend, thread = "t"): Promise<string[]> {
  return (await backend.waits({ thread })).map((row) => `${row.id} ${row.status} ${row.rev}`);
}

export async function runIds(backend: Backend, query: RunQuery = {}): Promise<string[]> {
  return (await backend.runs(query)).map((row) => row.id);
}

/** One line per run of a thread: `id status revision`. */
export async function runsOf(backend: Backend, thread = "t"): Promise<string[]> {
  return (await backend.runs({ thread })).map((row) => `${row.id} ${row.status} ${row.rev}`);
}

/** The ids of the runs that are due, all of them by default. */
export async function dueIds(backend: Backend, query: Partial<DueRunsQuery> = {}): Promise<string[]> {
  return (await backend.dueRuns({ dueBy: Number.MAX_SAFE_INTEGER, limit: 1000, ...query })).map((row) => row.id);
}

/** The places of a thread's decisions, or `<thread> <place>` of all threads. */
export async function decisionsOf(backend: Backend, thread?: string): Promise<string[]> {
  const found = await collect(backend.decisions({ thread }));
  return found.map((row) => (thread === undefined ? `${row.thread} ${row.seq}` : `${row.seq}`));
}

/** The writes of a checkpoint in a fixed order, without what every row has. */
export async function writesOf(backend: Backend, id = "1", thread = "t", ns = ""): Promise<string[]> {
  return describeWrites((await backend.load(thread, ns, id)).writes);
}

/** One line per row: `task slot run body`. */
export function describeWrites(rows: readonly WriteRow[]): string[] {
  return rows.map((row) => `${row.task} ${row.slot} ${row.run ?? "-"} ${row.body}`).sort();
}

/** One line per row of a list: `list start+count`. */
export async function itemsOf(backend: Backend, list: string, length: number, thread = "t"): Promise<string[]> {
  const { rows } = await backend.items(thread, list, length);
  return rows.map((row) => `${row.list} ${row.start}+${row.count}`);
}

/** The values that a reader would make of the first `length` items: a row ends where the next one starts. */
export async function valuesOf(backend: Backend, list: string, length: number, thread = "t"): Promise<unknown[]> {
  const values: unknown[] = [];
  for (const row of (await backend.items(thread, list, length)).rows) {
    values.length = Math.min(values.length, row.start);
    assert.equal(values.length, row.start, `no gap before ${row.list} ${row.start}`);
    values.push(...(JSON.parse(row.body.slice(row.body.indexOf(" ") + 1)) as unknown[]));
  }
  return values.slice(0, length);
}

export async function rejectsWith(code: ErrorCode, promise: Promise<unknown>): Promise<void> {
  await assert.rejects(promise, (error) => {
    assert.ok(isHoldfastError(error), `a typed error, not ${String(error)}`);
    assert.equal(error.code, code);
    return true;
  });
}
