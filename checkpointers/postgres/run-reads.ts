/** Reads of runs. Lists are made as those of waits are, see `wait-reads.ts`; what is due is found by `due-functions.ts`. */

import type { DueRunsQuery, RunQuery, RunRow } from "holdfast";
import type { Connections, Row } from "./connections.ts";
import { readRun, RUN_COLUMNS, STATUSES } from "./run-columns.ts";
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
    // One row, or one ordered scan per status.
    const single = query.id !== undefined || query.key !== undefined;
    const branches = (single ? [status] : [...new Set(status)].map((name) => [name])).map(
      (names) => `(select r.* from ${this.#schema}.holdfast_runs r
        where ${[`r.status = ${single ? `any(${bind(names)}::text[])` : bind(names[0])}`, ...filter].join(" and ")}
        order by r.created_at, r.id ${page})`,
    );
    const rows = await this.#connections.read<StoredRun>(
      `select r.id, t.id as thread, ${RUN_COLUMNS}::text as fields, r.body
        from (select * from (${branches.join(" union all ")}) r order by r.created_at, r.id ${page}) r
        join ${this.#schema}.holdfast_threads t on t.no = r.thread_no
        order by r.created_at, r.id`,
      values,
    );
    return rows.map(runOf);
  }

  async dueRuns({ dueBy, graphs, limit }: DueRunsQuery): Promise<RunRow[]> {
    this.#connections.requireOpen();
    if (limit <= 0 || graphs?.length === 0) return [];
    const rows = await this.#connections.read<StoredRun>(
      `select id, thread, fields, body from ${this.#schema}.holdfast_due_runs_1($1, $2, $3)`,
      [dueBy, packed(graphs), Math.min(limit, LIMIT_MAX)],
    );
    return rows.map(runOf);
  }

  async nextDue(graphs: readonly string[] | undefined): Promise<number | undefined> {
    this.#connections.requireOpen();
    // As text: an application may have told pg to parse numbers in its own way.
    const [row] = await this.#connections.readArrays<[due: string | null]>(
      `select ${this.#schema}.holdfast_next_due_1($1)::text`,
      [packed(graphs)],
    );
    return row?.[0] == null ? undefined : Number(row[0]);
  }

  /** In whole milliseconds. */
  async now(): Promise<number> {
    const [row] = await this.#connections.readArrays<[now: string]>(
      "select floor(extract(epoch from clock_timestamp()) * 1000)::text",
    );
    return Number(row?.[0]);
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
        ? ["r.thread_no > 0"]
        : [`r.thread_no = (select no from ${this.#schema}.holdfast_threads where id = ${bind(packId(thread))})`]),
      ...equal("graph"),
      ...equal("owner"),
      ...equal("worker"),
      ...(after === undefined
        ? []
        : [`(r.created_at, r.id) > (${bind(after.createdAt)}::float8, ${bind(packId(after.id))})`]),
    ];
  }
}

const packed = (graphs: readonly string[] | undefined) =>
  graphs === undefined ? null : [...new Set(graphs)].map(packId);

function runOf({ id, thread, fields, body }: StoredRun): RunRow {
  return readRun(id, unpackText(thread), JSON.parse(fields), body);
}
