/**
 * Reads of runs.
 *
 * Lists are made as those of waits are, see `wait-reads.ts`. What may be claimed is found by graph and priority: of each pair
 * that there is, at most `limit` runs are looked at, in the order in which they are due. So neither runs that wait, have ended,
 * are due later or are kept back by another one cost anything, nor do the many that are due in a long queue.
 */

import type { DueRunsQuery, RunQuery, RunRow } from "holdfast";
import type { Connections, Row } from "./connections.ts";
import { CLAIMABLE, readRun, RUN_COLUMNS, STATUSES } from "./run-columns.ts";
import { packId, quote, unpackText } from "./text.ts";

/** Postgres takes no larger one from a parameter of this type. */
const LIMIT_MAX = 2 ** 31 - 1;

interface StoredRun extends Row {
  readonly id: string;
  readonly thread: string;
  readonly fields: string;
  readonly body: string;
}

type Bind = (value: unknown) => string;

export class RunReads {
  readonly #connections: Connections;
  readonly #schema: string;

  constructor(connections: Connections, schema: string) {
    this.#connections = connections;
    this.#schema = quote(schema);
  }

  async runs(query: RunQuery): Promise<RunRow[]> {
    this.#connections.requireOpen();
    const { status = STATUSES, limit } = query;
    if (status.length === 0 || (limit !== undefined && limit <= 0)) return [];
    const values: unknown[] = [];
    const bind: Bind = (value) => `$${values.push(value)}`;
    const filter = this.#filter(query, bind);
    const page = limit === undefined ? "" : `limit ${bind(Math.min(limit, LIMIT_MAX))}`;
    const branches = [...new Set(status)].map(
      (name) => `(select r.* from ${this.#schema}.holdfast_runs r
        where ${[`r.status = ${bind(name)}`, ...filter].join(" and ")} order by r.created_at, r.id ${page})`,
    );
    return this.#rows(
      `select * from (${branches.join(" union all ")}) r order by r.created_at, r.id ${page}`,
      "r.created_at, r.id",
      values,
    );
  }

  async dueRuns({ dueBy, graphs, limit }: DueRunsQuery): Promise<RunRow[]> {
    this.#connections.requireOpen();
    if (limit <= 0 || graphs?.length === 0) return [];
    const values: unknown[] = [];
    const bind: Bind = (value) => `$${values.push(value)}`;
    const by = `${bind(dueBy)}::float8`;
    const page = `limit ${bind(Math.min(limit, LIMIT_MAX))}`;
    const runs = `${this.#schema}.holdfast_runs r`;
    const next = `r.is_next and r.status in (${CLAIMABLE})`;
    return this.#rows(
      `with recursive ${this.#graphs(graphs, bind)},
          busy as (
            select g.graph from graphs g where g.graph is not null and (
              select r.due from ${runs} where r.status in (${CLAIMABLE}) and r.graph = g.graph and r.due <= ${by} limit 1
            ) is not null
          ),
          levels as (
            select b.graph, (select max(r.priority) from ${runs} where ${next} and r.graph = b.graph) as priority
              from busy b
            union all
            select l.graph, (select max(r.priority) from ${runs}
                where ${next} and r.graph = l.graph and r.priority < l.priority)
              from levels l where l.priority is not null
          )
        select r.* from levels l cross join lateral (
          select r.* from ${runs}
          where ${next} and r.graph = l.graph and r.priority = l.priority and r.due <= ${by}
          order by r.due, r.id ${page}
        ) r
        order by r.priority desc, r.due, r.id ${page}`,
      "r.priority desc, r.due, r.id",
      values,
    );
  }

  async nextDue(graphs: readonly string[] | undefined): Promise<number | undefined> {
    this.#connections.requireOpen();
    if (graphs?.length === 0) return undefined;
    const values: unknown[] = [];
    const [row] = await this.#connections.readArrays<[due: string | null]>(
      `with recursive ${this.#graphs(graphs, (value) => `$${values.push(value)}`)}
        select min((
          select r.due from ${this.#schema}.holdfast_runs r
          where r.status in (${CLAIMABLE}) and r.due is not null and r.graph = g.graph order by r.due limit 1
        ))::text from graphs g`,
      values,
    );
    return row?.[0] == null ? undefined : Number(row[0]);
  }

  /** In whole milliseconds. As text: an application may have told pg to parse numbers in its own way. */
  async now(): Promise<number> {
    const [row] = await this.#connections.readArrays<[now: string]>(
      "select floor(extract(epoch from clock_timestamp()) * 1000)::text",
    );
    return Number(row?.[0]);
  }

  /** A table of the graphs that are asked for: by default those that have a run to be claimed, from one to the next. */
  #graphs(graphs: readonly string[] | undefined, bind: Bind): string {
    if (graphs !== undefined) {
      return `graphs (graph) as (select distinct unnest(${bind([...graphs].map(packId))}::text[]) collate "C")`;
    }
    const first = (from: string) => `(select r.graph from ${this.#schema}.holdfast_runs r
      where r.status in (${CLAIMABLE}) and r.due is not null ${from} order by r.graph limit 1)`;
    return `graphs (graph) as (
      select ${first("")} union all select ${first("and r.graph > g.graph")} from graphs g where g.graph is not null
    )`;
  }

  #filter(query: RunQuery, bind: Bind): string[] {
    const { thread, after } = query;
    const equal = (column: "id" | "key" | "graph" | "owner" | "worker") => {
      const value = query[column];
      return value === undefined ? [] : [`r.${column} = ${bind(packId(value))}`];
    };
    return [
      ...equal("id"),
      ...equal("key"),
      ...(thread === undefined
        ? []
        : [`r.thread_no = (select no from ${this.#schema}.holdfast_threads where id = ${bind(packId(thread))})`]),
      ...equal("graph"),
      ...equal("owner"),
      ...equal("worker"),
      ...(after === undefined
        ? []
        : [`(r.created_at, r.id) > (${bind(after.createdAt)}::float8, ${bind(packId(after.id))})`]),
    ];
  }

  async #rows(found: string, order: string, values: unknown[]): Promise<RunRow[]> {
    const rows = await this.#connections.read<StoredRun>(
      `select r.id, t.id as thread, ${RUN_COLUMNS}::text as fields, r.body
        from (${found}) r join ${this.#schema}.holdfast_threads t on t.no = r.thread_no order by ${order}`,
      values,
    );
    return rows.map(({ id, thread, fields, body }) => readRun(id, unpackText(thread), JSON.parse(fields), body));
  }
}
