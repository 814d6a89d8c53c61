/**
 * Applies commits inside a write transaction: asks the contract's judges, then stores.
 *
 * A group is first applied without savepoints. A refusal is rare; where the refused commit had already stored
 * something, the transaction is rolled back and the whole group is judged and applied again, now with a savepoint
 * around each commit. So the ordinary group pays nothing for the chance of a refusal.
 */

import type { Database, Statement } from "better-sqlite3";
import {
  type Commit,
  type EffectRow,
  isHoldfastError,
  judgeEffect,
  judgeEra,
  judgeHead,
  judgeItems,
  type Op,
  planWrites,
  type Verdict,
  type WriteRow,
} from "holdfast";
import {
  BYTES_FORM,
  EFFECT_COLUMNS,
  readEffect,
  readText,
  type StoredEffect,
  STRING_FORM,
  storeEffect,
  storeText,
} from "./columns.ts";
import { wellFormed } from "../ids.ts";
import { type Packed, packDigest, packId, packToken, unpackId } from "./ids.ts";
import { RunCommitter } from "./run-commit.ts";
import { type Thread, Threads } from "./threads.ts";
import { AGAIN } from "./turns.ts";
import { WaitCommitter } from "./wait-commit.ts";

type OpOf<K extends Op["kind"]> = Extract<Op, { kind: K }>;

export class Committer {
  readonly #threads: Threads;
  readonly #waits: WaitCommitter;
  readonly #runs: RunCommitter;
  readonly #savepoint: Statement;
  readonly #release: Statement;
  readonly #rollbackTo: Statement;
  readonly #putCheckpoint: Statement;
  readonly #taskWrites: Statement;
  readonly #firstWrites: Statement;
  readonly #putWrites: Statement;
  readonly #findList: Statement;
  readonly #insertList: Statement;
  readonly #insertItems: Statement;
  readonly #findBlob: Statement;
  readonly #insertBlob: Statement;
  readonly #insertData: Statement;
  readonly #findEffect: Statement;
  readonly #insertEffect: Statement;
  readonly #updateEffect: Statement;
  readonly #replaceEffect: Statement;
  /** Whether the commit under way has stored something. */
  #dirty = false;

  constructor(db: Database) {
    this.#threads = new Threads(db);
    this.#waits = new WaitCommitter(db, this.#threads);
    this.#runs = new RunCommitter(db, this.#threads);
    this.#savepoint = db.prepare("savepoint holdfast_commit");
    this.#release = db.prepare("release holdfast_commit");
    this.#rollbackTo = db.prepare("rollback to holdfast_commit");
    this.#putCheckpoint = db.prepare(/* sql */ `
      insert into holdfast_history (ns_no, checkpoint, task, slot, parent, source, body)
      values (?, ?, 0, 0, ?, ?, ?)
      on conflict (ns_no, checkpoint, task, slot) do update
      set parent = excluded.parent, source = excluded.source, body = excluded.body`);
    this.#taskWrites = db
      .prepare(/* sql */ `
        select slot, path, run, body
        from holdfast_history
        where ns_no = ? and checkpoint = ? and task = ?`)
      .raw();
    this.#firstWrites = db.prepare(/* sql */ `
      insert into holdfast_history (ns_no, checkpoint, task, slot, path, run, body)
      values (?, ?, ?, 0, ?, ?, ?)
      on conflict (ns_no, checkpoint, task, slot) do nothing`);
    this.#putWrites = db.prepare(/* sql */ `
      insert into holdfast_history (ns_no, checkpoint, task, slot, path, run, body)
      values (?, ?, ?, ?, ?, ?, ?)
      on conflict (ns_no, checkpoint, task, slot) do update
      set path = excluded.path, run = excluded.run, body = excluded.body`);
    this.#findList = db.prepare("select no from holdfast_lists where thread_no = ? and list = ?").pluck();
    this.#insertList = db.prepare(/* sql */ `
      insert into holdfast_lists (thread_no, list, base, base_length)
      values (?, ?, ?, ?)`);
    this.#insertItems = db.prepare(/* sql */ `
      insert or ignore into holdfast_items (list_no, start, count, body)
      values (?, ?, ?, ?)`);
    this.#findBlob = db.prepare("select 1 from holdfast_blobs where thread_no = ? and hash = ?").pluck();
    this.#insertBlob = db.prepare("insert into holdfast_blobs (thread_no, hash, data_no) values (?, ?, ?)");
    this.#insertData = db.prepare("insert into holdfast_data (form, data) values (?, ?)");
    this.#findEffect = db
      .prepare(/* sql */ `
        select ${EFFECT_COLUMNS}
        from holdfast_effects e left join holdfast_threads t on t.no = e.thread_no
        where e.key = ?`)
      .raw();
    this.#insertEffect = db.prepare(/* sql */ `
      insert into holdfast_effects
        (key, thread_no, ns, checkpoint, task, name, digest, ordinal, status, rev, attempt, owner, body)
      values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
    this.#updateEffect = db.prepare(/* sql */ `
      update holdfast_effects
      set status = ?, rev = ?, attempt = ?, owner = ?, body = ?
      where key = ?`);
    this.#replaceEffect = db.prepare(/* sql */ `
      update holdfast_effects
      set thread_no = ?, ns = ?, checkpoint = ?, task = ?, name = ?, digest = ?, ordinal = ?,
        status = ?, rev = ?, attempt = ?, owner = ?, body = ?
      where key = ?`);
  }

  /**
   * Applies a group inside the transaction that is open. `careful`: with savepoints; otherwise the answer may be
   * {@link AGAIN}: roll back and apply the group carefully.
   */
  apply(group: readonly Commit[], careful: boolean): Verdict[] | typeof AGAIN {
    this.#threads.begin();
    const verdicts: Verdict[] = [];
    for (const commit of group) {
      if (careful) this.#savepoint.run();
      this.#dirty = false;
      const verdict = this.#applyCommit(commit);
      if (verdict !== undefined && this.#dirty) {
        if (!careful) return AGAIN;
        this.#rollbackTo.run();
        this.#threads.forget();
      }
      if (careful) this.#release.run();
      verdicts.push(verdict);
    }
    return verdicts;
  }

  /** Applies one commit inside the transaction that is open. Where it is refused the caller must roll back. */
  applyAlone(commit: Commit): Verdict {
    this.#threads.begin();
    return this.#applyCommit(commit);
  }

  /** The transaction that was open has been committed. */
  committed(): void {
    this.#threads.committed();
  }

  #applyCommit(commit: Commit): Verdict {
    try {
      for (const op of commit) {
        const verdict = this.#applyOp(op);
        if (verdict !== undefined) return verdict;
        this.#dirty = true;
      }
      return undefined;
    } catch (error) {
      if (!isHoldfastError(error, "INVALID_ID")) throw error;
      this.#dirty = true;
      return error;
    }
  }

  #applyOp(op: Op): Verdict {
    if (op.kind === "deleteThread") {
      this.#threads.delete(op.thread);
      return undefined;
    }
    const thread = this.#threads.thread(op.thread);
    const verdict = judgeEra(op, thread.era);
    if (verdict !== undefined) return verdict;
    switch (op.kind) {
      case "checkpoint":
        return this.#checkpoint(op, thread);
      case "writes":
        return this.#writes(op, thread);
      case "items":
        return this.#items(op, thread);
      case "blob":
        this.#blob(op, thread);
        return undefined;
      case "effect":
        return this.#effect(op);
      case "wait":
        return this.#waits.wait(op, thread);
      case "endWait":
        this.#waits.endWait(op);
        return undefined;
      case "decision":
        return this.#waits.decision(op, thread);
      case "run":
        return this.#runs.run(op, thread);
      case "fence":
        return this.#runs.fence(op);
      default: {
        const never: never = op;
        return never;
      }
    }
  }

  #checkpoint(op: OpOf<"checkpoint">, thread: Thread): Verdict {
    const threads = this.#threads;
    if (op.heads !== undefined) {
      const verdict = judgeHead(op, threads.head(thread, op.ns));
      if (verdict !== undefined) return verdict;
    }
    const id = packId(op.id);
    const parent = op.parent === undefined ? null : packId(op.parent);
    this.#putCheckpoint.run(
      threads.namespaceNumberOf(thread, op.ns),
      id,
      parent,
      wellFormed(op.source),
      storeText(op.body),
    );
    threads.moveHead(thread, op.ns, id);
    return undefined;
  }

  #writes(op: OpOf<"writes">, thread: Thread): Verdict {
    const nsNo = this.#threads.namespaceNumberOf(thread, op.ns);
    const checkpoint = packId(op.checkpoint);
    const task = packId(op.task);
    const runOf = op.run === undefined ? null : packId(op.run);
    // Nearly always this is the task's first call, which nothing can refuse: no look first. Special rows that are there
    // already stay in front of what this row says of their index.
    if (op.slot === undefined) {
      const { changes } = this.#firstWrites.run(nsNo, checkpoint, task, wellFormed(op.path), runOf, storeText(op.body));
      if (changes > 0) return undefined;
    }
    const stored = op.slot === undefined ? this.#stored(op, nsNo, checkpoint, task) : [];
    const { row, verdict } = planWrites(op, stored);
    if (verdict !== undefined) return verdict;
    if (row === undefined) return undefined;
    this.#putWrites.run(nsNo, checkpoint, task, row.slot, wellFormed(row.path), runOf, storeText(row.body));
    return undefined;
  }

  #stored(op: OpOf<"writes">, nsNo: number, checkpoint: Packed, task: Packed): WriteRow[] {
    type Stored = [slot: number, path: string, run: Packed | null, body: string | Buffer];
    return (this.#taskWrites.all(nsNo, checkpoint, task) as Stored[]).map(([slot, path, run, body]) => ({
      checkpoint: op.checkpoint,
      task: op.task,
      path,
      slot,
      run: run === null ? undefined : unpackId(run),
      body: readText(body),
    }));
  }

  #items(op: OpOf<"items">, thread: Thread): Verdict {
    const threadNo = this.#threads.numberOf(thread);
    const list = packToken(op.list);
    let listNo = this.#findList.get(threadNo, list) as number | undefined;
    if (listNo === undefined) {
      const base = op.base === undefined ? null : packToken(op.base.list);
      listNo = Number(this.#insertList.run(threadNo, list, base, op.base?.length ?? null).lastInsertRowid);
    }
    const { changes } = this.#insertItems.run(listNo, op.start, op.count, storeText(op.body));
    return judgeItems(op, changes === 0);
  }

  #blob(op: OpOf<"blob">, thread: Thread): void {
    const threadNo = this.#threads.numberOf(thread);
    const hash = packToken(op.hash);
    if (this.#findBlob.get(threadNo, hash) !== undefined) return;
    const { data } = op;
    const { lastInsertRowid } =
      typeof data === "string"
        ? this.#insertData.run(STRING_FORM, storeText(data))
        : this.#insertData.run(BYTES_FORM, data);
    this.#insertBlob.run(threadNo, hash, lastInsertRowid);
  }

  #effect(op: OpOf<"effect">): Verdict {
    const { row } = op;
    const key = packDigest(row.key);
    const found = this.#findEffect.get(key) as StoredEffect | undefined;
    const stored = found === undefined ? undefined : readEffect(found);
    const verdict = judgeEffect(op, stored);
    if (verdict !== undefined) return verdict;
    if (stored !== undefined && sameOrigin(stored, row)) {
      this.#updateEffect.run(row.status, row.rev, row.attempt, packId(row.owner), storeText(row.body), key);
      return undefined;
    }
    const threadNo = row.thread === "" ? 0 : this.#threads.numberOf(this.#threads.thread(row.thread));
    if (stored === undefined) this.#insertEffect.run(key, threadNo, ...storeEffect(row));
    else this.#replaceEffect.run(threadNo, ...storeEffect(row), key);
    return undefined;
  }
}

/** Whether only the state of an effect changes, none of the columns that are indexed. */
function sameOrigin(a: EffectRow, b: EffectRow): boolean {
  return (
    a.thread === b.thread &&
    a.ns === b.ns &&
    a.checkpoint === b.checkpoint &&
    a.task === b.task &&
    a.name === b.name &&
    a.digest === b.digest &&
    a.ordinal === b.ordinal
  );
}
