/** Stores waits and decisions inside the write transaction of a commit. */

import type { Database, Statement } from "better-sqlite3";
import { endedWait, judgeDecision, judgeWait, type Op, type Verdict, type WaitRow } from "holdfast";
import { wellFormed } from "../ids.ts";

import type { Thread, Threads } from "./threads.ts";
import { readWait, type StoredWait, storeDecision, storeWait, WAIT_COLUMNS } from "./wait-columns.ts";

type OpOf<K extends Op["kind"]> = Extract<Op, { kind: K }>;

export class WaitCommitter {
  readonly #threads: Threads;
  readonly #find: Statement;
  readonly #insert: Statement;
  readonly #update: Statement;
  readonly #lastDecision: Statement;
  readonly #insertDecision: Statement;

  constructor(db: Database, threads: Threads) {
    this.#threads = threads;
    this.#find = db.prepare(`select ${WAIT_COLUMNS} from holdfast_waits w where w.id = ?`).raw();
    this.#insert = db.prepare(/* sql */ `
      insert into holdfast_waits
        (id, thread_no, ns, checkpoint, task, kind, name, digest, status, opened_at, due, graph, assignee, owner, decision,
          holder, rev, body)
      values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
    this.#update = db.prepare(/* sql */ `
      update holdfast_waits
      set ns = ?, checkpoint = ?, task = ?, kind = ?, name = ?, digest = ?, status = ?, opened_at = ?, due = ?, graph = ?,
        assignee = ?, owner = ?, decision = ?, holder = ?, rev = ?, body = ?
      where id = ?`);
    this.#lastDecision = db
      .prepare("select seq from holdfast_decisions where thread_no = ? order by seq desc limit 1")
      .pluck();
    this.#insertDecision = db.prepare(/* sql */ `
      insert into holdfast_decisions (thread_no, seq, wait, hash, body)
      values (?, ?, ?, ?, ?)`);
  }

  wait(op: OpOf<"wait">, thread: Thread): Verdict {
    const { row, expect } = op;
    const stored = this.#stored(row.id);
    const verdict = judgeWait(op, stored);
    if (verdict !== undefined) return verdict;
    if (stored === undefined) this.#insert.run(wellFormed(row.id), this.#threads.numberOf(thread), ...storeWait(row));
    else if (expect !== null) this.#update.run(...storeWait(row), wellFormed(row.id));
    return undefined;
  }

  endWait(op: OpOf<"endWait">): void {
    const stored = this.#stored(op.id);
    const ended = stored?.thread === op.thread ? endedWait(stored) : undefined;
    if (ended !== undefined) this.#update.run(...storeWait(ended), wellFormed(op.id));
  }

  decision(op: OpOf<"decision">, thread: Thread): Verdict {
    const last = thread.no === 0 ? undefined : (this.#lastDecision.get(thread.no) as number | undefined);
    const verdict = judgeDecision(op, last);
    if (verdict !== undefined) return verdict;
    this.#insertDecision.run(this.#threads.numberOf(thread), ...storeDecision(op.row));
    return undefined;
  }

  #stored(id: string): WaitRow | undefined {
    const found = this.#find.get(wellFormed(id)) as StoredWait | undefined;
    return found && readWait(found);
  }
}
