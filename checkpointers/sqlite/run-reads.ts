/**
 * Reads of runs. Every method is called inside a read transaction.
 *
 * A list of runs goes as a list of waits does: one query per status, merged by SQLite in order, see `wait-reads.ts`.
 *
 * What is due is found lane by lane: the runs of one graph and one priority stand in the order of (due, id) in an index that
 * holds queued and retrying ones only, so a poll reads what it answers with and what stands behind another run of its
 * thread, and nothing that is due later. From one lane to the next is one step in the index, past all its runs.
 */

import type { Database, Statement } from "better-sqlite3";
import { type DueRunsQuery, isEnded, RUN_MOVES, type RunQuery, type RunRow, type RunStatus } from "holdfast";
import { compareIds, wellFormed } from "../ids.ts";
import { packId } from "./ids.ts";
import { RUN_COLUMNS, readRun, type StoredRun } from "./run-columns.ts";

const STATUSES = Object.keys(RUN_MOVES) as RunStatus[];

/** As the schema has it: a partial index is used where the query says its condition in the same words. */
export const UNENDED = `('${STATUSES.filter((status) => !isEnded(status)).join("', '")}')`;
const CLAIMABLE = "r.status in ('queued', 'retrying') and r.due is not null";

const AFTER = "(r.created_at, r.id) > (@createdAt, @afterId)";
const FILTERS = /* sql */ `
  (@graph is null or r.graph = @graph)
  and (@owner is null or r.owner = @owner)
  and (@worker is null or r.worker = @worker)`;

const select = (where: string) => `select ${RUN_COLUMNS} from holdfast_runs r where ${where}`;

/** A status that is not asked for costs nothing: `@<status>` is asked once, before its rows. */
const merged = (where: string) =>
  `${STATUSES.map((status) => select(`@${status} and r.status = '${status}' and ${where}`)).join(" union all ")}
    order by created_at, id limit @limit`;

/** One run, if it has all that is asked for. */
const single = (where: string) =>
  select(`${where} and (@threadNo is null or r.thread_no = @threadNo)
    and (${STATUSES.map((status) => `@${status} and r.status = '${status}'`).join(" or ")}) and ${AFTER} and ${FILTERS}`);

const GRAPHS = `select r.graph from holdfast_runs r indexed by holdfast_runs_due where ${CLAIMABLE}`;

/** The ways to runs, see {@link RunReads.runs} and {@link RunReads.dueRuns}. */
export const runsSql = {
  byId: single("r.id = @id and (@key is null or r.key = @key)"),
  byKey: single("r.key = @key"),
  ofThread: merged(`r.thread_no = @threadNo and ${AFTER} and ${FILTERS}`),
  ofAll: merged(`${AFTER} and ${FILTERS}`),
  // Two, since one that knows both would read the index from its beginning.
  firstGraph: `${GRAPHS} order by r.graph limit 1`,
  nextGraph: `${GRAPHS} and r.graph > @after order by r.graph limit 1`,
  nextPriority: /* sql */ `
    select r.priority from holdfast_runs r indexed by holdfast_runs_due
    where ${CLAIMABLE} and r.graph = @graph and r.priority < @below
    order by r.priority desc limit 1`,
  nextDue: /* sql */ `
    select r.due from holdfast_runs r indexed by holdfast_runs_due
    where ${CLAIMABLE} and r.graph = @graph and r.priority = @priority
    order by r.due limit 1`,
  due: /* sql */ `
    select ${RUN_COLUMNS} from holdfast_runs r indexed by holdfast_runs_due
    where ${CLAIMABLE} and r.graph = @graph and r.priority = @priority and r.due <= @dueBy
      and not exists (
        select 1 from holdfast_runs o indexed by holdfast_runs_unended
        where o.thread_no = r.thread_no and o.status in ${UNENDED} and (o.created_at, o.id) < (r.created_at, r.id))
      and not exists (
        select 1 from holdfast_runs o indexed by holdfast_runs_running
        where o.thread_no = r.thread_no and o.status = 'running')
    order by r.due, r.id limit @limit`,
} as const;

/** Claimable runs of one graph and one priority. */
interface Lane {
  readonly graph: string;
  readonly priority: number;
}

type Clause = keyof typeof runsSql;

export class RunReads {
  readonly #db: Database;
  readonly #thread: Statement;
  readonly #statements = new Map<Clause, Statement>();

  constructor(db: Database) {
    this.#db = db;
    this.#thread = db.prepare("select no from holdfast_threads where id = ?").pluck();
  }

  /** By id, by key, by thread, or by status, in this order of preference. */
  runs(query: RunQuery): RunRow[] {
    const { id, key, thread, status = STATUSES, worker, after, limit } = query;
    if (limit !== undefined && limit <= 0) return [];
    const threadNo = thread === undefined ? null : (this.#thread.get(packId(thread)) as number | undefined);
    if (threadNo === undefined) return [];
    const way = id !== undefined ? "byId" : key !== undefined ? "byKey" : thread !== undefined ? "ofThread" : "ofAll";
    return this.#all(way, {
      id: optional(id),
      key: optional(key),
      threadNo,
      ...Object.fromEntries(STATUSES.map((name) => [name, status.includes(name) ? 1 : 0])),
      graph: optional(query.graph),
      owner: optional(query.owner),
      worker: worker === undefined ? null : packId(worker),
      createdAt: after?.createdAt ?? Number.NEGATIVE_INFINITY,
      afterId: optional(after?.id) ?? "",
      limit: limit ?? -1,
    });
  }

  dueRuns({ dueBy, graphs, limit }: DueRunsQuery): RunRow[] {
    const found: RunRow[] = [];
    const lanes = [...this.#lanes(graphs)].sort((a, b) => b.priority - a.priority);
    for (let at = 0; at < lanes.length && found.length < limit; ) {
      const { priority } = lanes[at] as Lane;
      const rows: RunRow[] = [];
      for (; lanes[at]?.priority === priority; at++) {
        rows.push(...this.#all("due", { ...lanes[at], dueBy, limit: limit - found.length }));
      }
      rows.sort((a, b) => (a.due as number) - (b.due as number) || compareIds(a.id, b.id));
      found.push(...rows.slice(0, limit - found.length));
    }
    return found;
  }

  nextDue(graphs: readonly string[] | undefined): number | undefined {
    let next: number | undefined;
    for (const lane of this.#lanes(graphs)) {
      const due = this.#value("nextDue", lane) as number;
      if (next === undefined || due < next) next = due;
    }
    return next;
  }

  *#lanes(asked: readonly string[] | undefined): Generator<Lane> {
    const graphs = asked === undefined ? this.#graphs() : new Set(asked);
    for (const graph of graphs) {
      const below = (priority: unknown) => this.#value("nextPriority", { graph: wellFormed(graph), below: priority });
      for (let priority = below(Number.POSITIVE_INFINITY); priority !== undefined; priority = below(priority)) {
        yield { graph, priority: priority as number };
      }
    }
  }

  *#graphs(): Generator<string> {
    let graph = this.#value("firstGraph", {});
    while (graph !== undefined) {
      yield graph as string;
      graph = this.#value("nextGraph", { after: graph });
    }
  }

  /** Prepared when it is first used: together they take milliseconds at each opening, and not every caller has runs. */
  #statement(clause: Clause): Statement {
    let statement = this.#statements.get(clause);
    if (statement === undefined) {
      statement = this.#db.prepare(runsSql[clause]).raw();
      this.#statements.set(clause, statement);
    }
    return statement;
  }

  #all(clause: Clause, parameters: object): RunRow[] {
    return (this.#statement(clause).all(parameters) as StoredRun[]).map(readRun);
  }

  /** The only column of the first row. */
  #value(clause: Clause, parameters: object): unknown {
    return (this.#statement(clause).get(parameters) as [unknown] | undefined)?.[0];
  }
}

function optional(text: string | undefined): string | null {
  return text === undefined ? null : wellFormed(text);
}
