/**
 * Reads of waits and decisions. Every method but `decisions` is called inside a read transaction.
 *
 * The order of waits over several statuses is that of one query per status, merged by SQLite as it goes: each comes in
 * order from its index, so a page reads its own rows and no more than one of each status beyond them.
 */

import type { Database, Statement } from "better-sqlite3";
import type { DecisionRow, WaitQuery, WaitRow, WaitStatus } from "holdfast";
import { compareIds, wellFormed } from "../ids.ts";
import { type Packed, packId, unpackId } from "./ids.ts";
import type { Turns } from "./turns.ts";
import {
  DECISION_COLUMNS,
  readDecision,
  readWait,
  type StoredDecision,
  type StoredWait,
  WAIT_COLUMNS,
} from "./wait-columns.ts";

const STATUSES: readonly WaitStatus[] = ["open", "answered", "consumed", "superseded"];

/** Decisions, and threads, read in one transaction at most. */
const PAGE = 100;
const THREADS = 500;

const AFTER = "(w.opened_at, w.id) > (@openedAt, @afterId)";
const FILTERS = /* sql */ `
  (@task is null or w.task = @task)
  and (@kinds is null or w.kind in (select value from json_each(@kinds)))
  and (@name is null or w.name = @name)
  and (@graph is null or w.graph = @graph)
  and (@assignee is null or w.assignee = @assignee)
  and (@owner is null or w.owner = @owner)
  and (@dueBy is null or w.due <= @dueBy)`;

const select = (where: string) => `select ${WAIT_COLUMNS} from holdfast_waits w where ${where}`;
const ORDERED = "order by opened_at, id limit @limit";

/** A status that is not asked for costs nothing: `@<status>` is asked once, before its rows. */
const merged = (where: string) =>
  `${STATUSES.map((status) => select(`@${status} and w.status = '${status}' and ${where}`)).join(" union all ")} ${ORDERED}`;

/** The ways to waits, see {@link WaitReads.waits}. */
export const waitsSql = {
  byId: select(`w.id = @id and (@threadNo is null or w.thread_no = @threadNo)
    and (${STATUSES.map((status) => `@${status} and w.status = '${status}'`).join(" or ")}) and ${AFTER} and ${FILTERS}`),
  ofThread: merged(`w.thread_no = @threadNo and ${AFTER} and ${FILTERS}`),
  ofOwner: merged(`w.owner = @owner and ${AFTER} and ${FILTERS}`),
  due: `select ${WAIT_COLUMNS} from holdfast_waits w indexed by holdfast_waits_due
    where w.status = 'open' and w.due <= @dueBy and ${AFTER} and ${FILTERS} ${ORDERED}`,
  ofAll: merged(`${AFTER} and ${FILTERS}`),
  active: select("w.thread_no = ? and w.status in ('open', 'answered')"),
} as const;

export class WaitReads {
  readonly #turns: Turns;
  readonly #thread: Statement;
  readonly #byId: Statement;
  readonly #ofThread: Statement;
  readonly #ofOwner: Statement;
  readonly #due: Statement;
  readonly #ofAll: Statement;
  readonly #active: Statement;
  readonly #decision: Statement;
  readonly #lastDecision: Statement;
  readonly #decisions: Statement;
  readonly #deciding: Statement;

  constructor(db: Database, turns: Turns) {
    this.#turns = turns;
    this.#thread = db.prepare("select no, era from holdfast_threads where id = ?").raw();
    this.#byId = db.prepare(waitsSql.byId).raw();
    this.#ofThread = db.prepare(waitsSql.ofThread).raw();
    this.#ofOwner = db.prepare(waitsSql.ofOwner).raw();
    this.#due = db.prepare(waitsSql.due).raw();
    this.#ofAll = db.prepare(waitsSql.ofAll).raw();
    this.#active = db.prepare(waitsSql.active).raw();
    const decisions = (where: string) =>
      db.prepare(`select ${DECISION_COLUMNS} from holdfast_decisions where thread_no = ? and ${where}`).raw();
    this.#decision = decisions("seq = ?");
    this.#lastDecision = decisions("true order by seq desc limit 1");
    this.#decisions = decisions("seq > ? order by seq limit ?");
    // From one thread to the next one, past all decisions between: as many steps as there are threads that have any.
    this.#deciding = db
      .prepare(/* sql */ `
        with recursive deciding (last) as (
          select min(thread_no) from holdfast_decisions where thread_no > ?
          union all
          select (select min(thread_no) from holdfast_decisions where thread_no > last) from deciding where last is not null
        )
        select t.no, t.id from deciding d cross join holdfast_threads t on t.no = d.last limit ?`)
      .raw();
  }

  /** By id, by thread, by owner, by what is due, or by status, in this order of preference. */
  waits(query: WaitQuery): WaitRow[] {
    const { id, thread, status = STATUSES, kind, task, dueBy, after, limit } = query;
    if (limit !== undefined && limit <= 0) return [];
    const threadNo = thread === undefined ? null : this.#find(thread)?.[0];
    if (threadNo === undefined) return [];
    const parameters = {
      id: optional(id),
      threadNo,
      ...Object.fromEntries(STATUSES.map((name) => [name, status.includes(name) ? 1 : 0])),
      kinds: kind === undefined ? null : JSON.stringify(kind),
      task: task === undefined ? null : packId(task),
      name: optional(query.name),
      graph: optional(query.graph),
      assignee: optional(query.assignee),
      owner: optional(query.owner),
      dueBy: dueBy ?? null,
      openedAt: after?.openedAt ?? Number.NEGATIVE_INFINITY,
      afterId: optional(after?.id) ?? "",
      limit: limit ?? -1,
    };
    return (this.#wayTo(query, status).all(parameters) as StoredWait[]).map(readWait);
  }

  #wayTo(query: WaitQuery, status: readonly WaitStatus[]): Statement {
    if (query.id !== undefined) return this.#byId;
    if (query.thread !== undefined) return this.#ofThread;
    if (query.owner !== undefined) return this.#ofOwner;
    const onlyOpen = status.length > 0 && status.every((name) => name === "open");
    return query.dueBy !== undefined && onlyOpen ? this.#due : this.#ofAll;
  }

  /** A thread's waits that are open or answered. */
  active(threadNo: number): WaitRow[] {
    return (this.#active.all(threadNo) as StoredWait[]).map(readWait);
  }

  /** The decision `seq` of a thread, or its last one. */
  decision(thread: string, seq: number | undefined): DecisionRow | undefined {
    const found = this.#find(thread);
    if (found === undefined) return undefined;
    const stored = seq === undefined ? this.#lastDecision.get(found[0]) : this.#decision.get(found[0], seq);
    return stored === undefined ? undefined : readDecision(thread, stored as StoredDecision);
  }

  /** Page by page, as lists of checkpoints are. Of a thread that is deleted meanwhile the rest is left out. */
  async *decisions(query: { readonly thread?: string | undefined }): AsyncGenerator<DecisionRow> {
    for (const thread of query.thread === undefined ? await this.#threads() : [query.thread]) {
      let era: number | undefined;
      for (let last = 0; ; ) {
        const page = await this.#turns.read((): DecisionRow[] => {
          const found = this.#find(thread);
          era ??= found?.[1];
          if (found === undefined || found[1] !== era) return [];
          return (this.#decisions.all(found[0], last, PAGE) as StoredDecision[]).map((row) =>
            readDecision(thread, row),
          );
        });
        yield* page;
        if (page.length < PAGE) break;
        last = page.at(-1)?.seq ?? 0;
      }
    }
  }

  /** Those that have decisions, in the order of their ids. Memory grows with their number. */
  async #threads(): Promise<string[]> {
    const threads: string[] = [];
    for (let after = 0; ; ) {
      const page = await this.#turns.read(() => this.#deciding.all(after, THREADS) as [number, Packed][]);
      for (const [, id] of page) threads.push(unpackId(id));
      if (page.length < THREADS) return threads.sort(compareIds);
      after = page.at(-1)?.[0] ?? 0;
      // As for lists of checkpoints: let others run between two pages.
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  #find(thread: string): [no: number, era: number] | undefined {
    return this.#thread.get(packId(thread)) as [number, number] | undefined;
  }
}

function optional(text: string | undefined): string | null {
  return text === undefined ? null : wellFormed(text);
}
