/**
 * Reads of waits and decisions.
 *
 * The order of waits over several statuses is that of one ordered scan per status, merged by Postgres as it goes: a page reads
 * its own rows and no more than one of each status beyond them. A query names only the filters that are given, so that its
 * plan is made for them.
 */

import type { DecisionRow, WaitQuery, WaitRow, WaitStatus } from "holdfast";
import type { Connections, Row } from "./connections.ts";
import { packId, quote, unpackText } from "./text.ts";
import { readDecision, readWait, type StoredDecision, WAIT_COLUMNS } from "./wait-columns.ts";

const STATUSES: readonly WaitStatus[] = ["open", "answered", "consumed", "superseded"];

/** Decisions read at once. */
const PAGE = 100;

interface StoredWaitRow extends Row {
  readonly id: string;
  readonly thread: string;
  readonly fields: string;
  readonly body: string;
}

interface DecisionOfThread extends Row, StoredDecision {
  readonly thread: string;
}

export class WaitReads {
  readonly #connections: Connections;
  readonly #schema: string;

  constructor(connections: Connections, schema: string) {
    this.#connections = connections;
    this.#schema = quote(schema);
  }

  async waits(query: WaitQuery): Promise<WaitRow[]> {
    this.#connections.requireOpen();
    const { status = STATUSES, limit } = query;
    if (status.length === 0 || (limit !== undefined && limit <= 0)) return [];
    const values: unknown[] = [];
    const bind = (value: unknown) => `$${values.push(value)}`;
    const filter = this.#filter(query, bind);
    const s = this.#schema;
    const page = limit === undefined ? "" : `limit ${bind(limit)}`;
    const branches = [...new Set(status)].map(
      (name) => `(select w.* from ${s}.holdfast_waits w where ${[`w.status = ${bind(name)}`, ...filter].join(" and ")}
        order by w.opened_at, w.id ${page})`,
    );
    const rows = await this.#connections.read<StoredWaitRow>(
      `select w.id, t.id as thread, ${WAIT_COLUMNS}::text as fields, w.body
        from (select * from (${branches.join(" union all ")}) w order by w.opened_at, w.id ${page}) w
        join ${s}.holdfast_threads t on t.no = w.thread_no
        order by w.opened_at, w.id`,
      values,
    );
    return rows.map(({ id, thread, fields, body }) => readWait(id, unpackText(thread), JSON.parse(fields), body));
  }

  #filter(query: WaitQuery, bind: (value: unknown) => string): string[] {
    const { thread, kind, dueBy, after } = query;
    const equal = (column: string, value: string | undefined) =>
      value === undefined ? [] : [`w.${column} = ${bind(packId(value))}`];
    return [
      ...equal("id", query.id),
      ...(thread === undefined
        ? []
        : [`w.thread_no = (select no from ${this.#schema}.holdfast_threads where id = ${bind(packId(thread))})`]),
      ...equal("task", query.task),
      ...(kind === undefined ? [] : [`w.kind = any(${bind(kind)}::text[])`]),
      ...equal("name", query.name),
      ...equal("graph", query.graph),
      ...equal("assignee", query.assignee),
      ...equal("owner", query.owner),
      ...(dueBy === undefined ? [] : [`w.due <= ${bind(dueBy)}`]),
      ...(after === undefined
        ? []
        : [`(w.opened_at, w.id) > (${bind(after.openedAt)}::float8, ${bind(packId(after.id))})`]),
    ];
  }

  /** The decision `seq` of a thread, or its last one. */
  async decision(thread: string, seq: number | undefined): Promise<DecisionRow | undefined> {
    const [row] = await this.#decisions(packId(thread), seq, seq === undefined ? "desc" : "asc", 1);
    return row === undefined || (seq !== undefined && row.seq !== seq) ? undefined : readDecision(thread, row);
  }

  /** Page by page. Of a thread that is deleted meanwhile the rest is left out. */
  async *decisions(query: { readonly thread?: string | undefined }): AsyncGenerator<DecisionRow> {
    this.#connections.requireOpen();
    const { thread } = query;
    let after: { readonly thread: string; readonly seq: number } | undefined;
    for (;;) {
      const page: DecisionOfThread[] = await this.#connections.read<DecisionOfThread>(
        `select t.id as thread, d.seq, d.wait, d.hash, d.body
          from ${this.#schema}.holdfast_threads t join ${this.#schema}.holdfast_decisions d on d.thread_no = t.no
          where ($1::text is null or t.id = $1) and ($2::text is null or (t.id, d.seq) > ($2, $3::integer))
          order by t.id, d.seq limit ${PAGE}`,
        [thread === undefined ? null : packId(thread), after?.thread ?? null, after?.seq ?? null],
      );
      for (const row of page) yield readDecision(unpackText(row.thread), row);
      after = page.at(-1);
      if (page.length < PAGE || after === undefined) return;
    }
  }

  #decisions(
    thread: string,
    from: number | undefined,
    order: "asc" | "desc",
    limit: number,
  ): Promise<(Row & StoredDecision)[]> {
    return this.#connections.read<Row & StoredDecision>(
      `select d.seq, d.wait, d.hash, d.body
        from ${this.#schema}.holdfast_threads t join ${this.#schema}.holdfast_decisions d on d.thread_no = t.no
        where t.id = $1 and ($2::float8 is null or d.seq >= $2) order by d.seq ${order} limit ${limit}`,
      [thread, from ?? null],
    );
  }
}
