/** Stores runs inside the write transaction of a commit, and asks for the one that a fence names. */

import type { Database, Statement } from "better-sqlite3";
import { judgeFence, judgeRun, type Op, type RunFacts, type RunNeighbours, type Verdict } from "holdfast";
import { wellFormed } from "../ids.ts";
import { FACT_COLUMNS, readFacts, type StoredFacts, storeRun } from "./run-columns.ts";
import { UNENDED } from "./run-reads.ts";
import type { Thread, Threads } from "./threads.ts";

type OpOf<K extends Op["kind"]> = Extract<Op, { kind: K }>;

/** What may stand ahead of a run in its thread: one that is running, and the first one before it that has not ended. */
export const aheadSql = {
  running: /* sql */ `
    select ${FACT_COLUMNS} from holdfast_runs r indexed by holdfast_runs_running
    where r.thread_no = ? and r.status = 'running'`,
  before: /* sql */ `
    select ${FACT_COLUMNS} from holdfast_runs r indexed by holdfast_runs_unended
    where r.thread_no = ? and r.status in ${UNENDED} and (r.created_at, r.id) < (?, ?)
    order by r.created_at, r.id limit 1`,
} as const;

export class RunCommitter {
  readonly #threads: Threads;
  readonly #byId: Statement;
  readonly #byKey: Statement;
  readonly #running: Statement;
  readonly #before: Statement;
  readonly #insert: Statement;
  readonly #update: Statement;

  constructor(db: Database, threads: Threads) {
    this.#threads = threads;
    const find = (where: string) => db.prepare(`select ${FACT_COLUMNS} from holdfast_runs r where ${where}`).raw();
    this.#byId = find("r.id = ?");
    this.#byKey = find("r.key = ?");
    this.#running = db.prepare(aheadSql.running).raw();
    this.#before = db.prepare(aheadSql.before).raw();
    this.#insert = db.prepare(/* sql */ `
      insert into holdfast_runs
        (id, thread_no, key, created_at, graph, status, rev, epoch, worker, due, priority, owner, body)
      values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
    this.#update = db.prepare(/* sql */ `
      update holdfast_runs
      set graph = ?, status = ?, rev = ?, epoch = ?, worker = ?, due = ?, priority = ?, owner = ?, body = ?
      where id = ?`);
  }

  run(op: OpOf<"run">, thread: Thread): Verdict {
    const { row, expect } = op;
    const verdict = judgeRun(op, this.#neighbours(thread));
    if (verdict !== undefined) return verdict;
    if (expect === null) {
      const key = row.key === undefined ? null : wellFormed(row.key);
      this.#insert.run(wellFormed(row.id), this.#threads.numberOf(thread), key, row.createdAt, ...storeRun(row));
    } else {
      this.#update.run(...storeRun(row), wellFormed(row.id));
    }
    return undefined;
  }

  fence(op: OpOf<"fence">): Verdict {
    return judgeFence(op, one(this.#byId, wellFormed(op.run)));
  }

  #neighbours(thread: Thread): RunNeighbours {
    return {
      byId: (id) => one(this.#byId, wellFormed(id)),
      byKey: (key) => one(this.#byKey, wellFormed(key)),
      // A thread without a number has no rows.
      ahead: (row) => one(this.#running, thread.no) ?? one(this.#before, thread.no, row.createdAt, wellFormed(row.id)),
    };
  }
}

function one(statement: Statement, ...parameters: unknown[]): RunFacts | undefined {
  const found = statement.get(...parameters) as StoredFacts | undefined;
  return found && readFacts(found);
}
