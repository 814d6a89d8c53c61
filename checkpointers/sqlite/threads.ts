/**
 * The numbers, eras and heads of threads and namespaces. What was found or written is kept as long as SQLite says, inside
 * the write transaction, that no other connection has committed since (`data_version`); then nothing can be stale. It is
 * forgotten whenever a transaction of ours may have been rolled back.
 */

import type { Database, Statement } from "better-sqlite3";
import { wellFormed } from "../ids.ts";
import { type Packed, packId, threadDigest, unpackId } from "./ids.ts";

export interface Thread {
  readonly id: Packed;
  era: number;
  /** 0 while it has no row. */
  no: number;
  /** Number of the row that a deletion has left; 0 where there is none. */
  tombstone: number;
  readonly namespaces: Map<string, Namespace>;
}

export interface Namespace {
  /** 0 while it has no row. */
  no: number;
  head: Packed | null;
}

/** Threads remembered between transactions. */
const KNOWN_MAX = 1000;

export class Threads {
  readonly #known = new Map<string, Thread>();
  readonly #dataVersion: Statement;
  #version = -1;
  #committed = false;
  readonly #find: Statement;
  readonly #insert: Statement;
  readonly #rename: Statement;
  readonly #findNamespace: Statement;
  readonly #insertNamespace: Statement;
  readonly #moveHead: Statement;
  readonly #delete: readonly Statement[];

  constructor(db: Database) {
    this.#dataVersion = db.prepare("pragma data_version").pluck();
    this.#find = db.prepare("select no, era from holdfast_threads where id = ?").raw();
    this.#insert = db.prepare("insert into holdfast_threads (id, era) values (?, ?)");
    this.#rename = db.prepare("update holdfast_threads set id = ?, era = ? where no = ?");
    this.#findNamespace = db.prepare("select no, head from holdfast_namespaces where thread_no = ? and ns = ?").raw();
    this.#insertNamespace = db.prepare("insert into holdfast_namespaces (thread_no, ns) values (?, ?)");
    this.#moveHead = db.prepare("update holdfast_namespaces set head = ? where no = ?");
    this.#delete = [
      /* sql */ `
        delete from holdfast_history
        where ns_no in (select no from holdfast_namespaces where thread_no = ?)`,
      /* sql */ `
        delete from holdfast_items
        where list_no in (select no from holdfast_lists where thread_no = ?)`,
      "delete from holdfast_namespaces where thread_no = ?",
      "delete from holdfast_lists where thread_no = ?",
      /* sql */ `
        delete from holdfast_data
        where no in (select data_no from holdfast_blobs where thread_no = ?)`,
      "delete from holdfast_blobs where thread_no = ?",
      "delete from holdfast_effects where thread_no = ? and ordinal <> -1",
      "update holdfast_effects set thread_no = 0 where thread_no = ?",
      "delete from holdfast_waits where thread_no = ?",
      "delete from holdfast_decisions where thread_no = ?",
      "delete from holdfast_runs where thread_no = ?",
    ].map((sql) => db.prepare(sql));
  }

  /** At the beginning of each write transaction. */
  begin(): void {
    const version = this.#dataVersion.get() as number;
    if (version !== this.#version || !this.#committed || this.#known.size > KNOWN_MAX) this.#known.clear();
    this.#version = version;
    this.#committed = false;
  }

  /** The transaction begun last has been committed. */
  committed(): void {
    this.#committed = true;
  }

  /** Forgets what was found: a part of the transaction was rolled back. */
  forget(): void {
    this.#known.clear();
  }

  thread(thread: string): Thread {
    const known = this.#known.get(thread);
    if (known !== undefined) return known;
    const id = packId(thread);
    const live = this.#find.get(id) as [number, number] | undefined;
    const left =
      live === undefined ? (this.#find.get(threadDigest(thread)) as [number, number] | undefined) : undefined;
    const found: Thread = {
      id,
      era: live?.[1] ?? left?.[1] ?? 0,
      no: live?.[0] ?? 0,
      tombstone: left?.[0] ?? 0,
      namespaces: new Map(),
    };
    this.#known.set(thread, found);
    return found;
  }

  /** The thread's number, given to it now if it has none. */
  numberOf(thread: Thread): number {
    if (thread.no !== 0) return thread.no;
    if (thread.tombstone === 0) {
      thread.no = Number(this.#insert.run(thread.id, thread.era).lastInsertRowid);
    } else {
      this.#rename.run(thread.id, thread.era, thread.tombstone);
      thread.no = thread.tombstone;
      thread.tombstone = 0;
    }
    return thread.no;
  }

  namespace(thread: Thread, ns: string): Namespace {
    const known = thread.namespaces.get(ns);
    if (known !== undefined) return known;
    const row =
      thread.no === 0
        ? undefined
        : (this.#findNamespace.get(thread.no, wellFormed(ns)) as [number, Packed | null] | undefined);
    const found: Namespace = { no: row?.[0] ?? 0, head: row?.[1] ?? null };
    thread.namespaces.set(ns, found);
    return found;
  }

  namespaceNumberOf(thread: Thread, ns: string): number {
    const namespace = this.namespace(thread, ns);
    if (namespace.no === 0) {
      namespace.no = Number(this.#insertNamespace.run(this.numberOf(thread), wellFormed(ns)).lastInsertRowid);
    }
    return namespace.no;
  }

  head(thread: Thread, ns: string): string | undefined {
    const { head } = this.namespace(thread, ns);
    return head === null ? undefined : unpackId(head);
  }

  moveHead(thread: Thread, ns: string, head: Packed): void {
    this.#moveHead.run(head, this.namespaceNumberOf(thread, ns));
    this.namespace(thread, ns).head = head;
  }

  /** Removes the rows of a thread and leaves a digest of its id with the next era. */
  delete(id: string): void {
    const thread = this.thread(id);
    const digest = threadDigest(id);
    const era = thread.era + 1;
    if (thread.no !== 0) {
      for (const statement of this.#delete) statement.run(thread.no);
      this.#rename.run(digest, era, thread.no);
    } else if (thread.tombstone !== 0) {
      this.#rename.run(digest, era, thread.tombstone);
    } else {
      this.#insert.run(digest, era);
    }
    this.#known.delete(id);
  }
}
