/**
 * Lists of checkpoints, read page by page: each page is one statement, and between two pages nothing is open, so a slow
 * reader holds no connection.
 */

import {
  type CheckpointQuery,
  type CheckpointRow,
  deletedWhileRead,
  type StoredCheckpoint,
  type WriteRow,
} from "holdfast";
import type { Connections, Row } from "./connections.ts";
import { checkpointRow, writeRow } from "./reads.ts";
import { packId, quote, unpackText } from "./text.ts";

/** Checkpoints read at once. The first page is short: often one is enough. */
const FIRST_PAGE = 8;
const PAGE = 100;

interface PageRow extends Row {
  readonly place: string;
  readonly thread: string;
  readonly ns: string;
  readonly kind: "checkpoint" | "write";
  readonly checkpoint: string;
  readonly id: string;
  readonly a: string | null;
  readonly b: string | null;
  readonly n: number | null;
  readonly body: string;
}

interface LineageRow extends PageRow {
  readonly no: string;
  readonly last: string | null;
}

/** The columns of {@link PageRow} after `place`, of checkpoints as `c` and their writes. */
const withWrites = (s: string, from: string, upTo = "") => /* sql */ `
  select c.depth, c.place, t.id as thread, n.ns, n.no, x.kind, c.id as checkpoint, x.id, x.a, x.b, x.n, x.body
  from ${from} c join ${s}.holdfast_namespaces n on n.no = c.place join ${s}.holdfast_threads t on t.no = n.thread_no
  cross join lateral (
    select 'checkpoint' as kind, p.id, p.parent as a, p.source as b, null::integer as n, p.body
      from ${s}.holdfast_checkpoints p where p.ns_no = c.place and p.id = c.id
    union all
    select 'write', w.task, w.path, w.run, w.slot::integer, w.body
      from ${s}.holdfast_writes w where w.ns_no = c.place and w.checkpoint = c.id ${upTo}
  ) x
  order by c.depth`;

export class History {
  readonly #connections: Connections;
  readonly #schema: string;

  constructor(connections: Connections, schema: string) {
    this.#connections = connections;
    this.#schema = quote(schema);
  }

  /** Checkpoints by descending id; of each namespace no more than a page is looked at. */
  async *checkpoints(query: CheckpointQuery): AsyncGenerator<StoredCheckpoint> {
    this.#connections.requireOpen();
    let left = query.limit ?? Number.POSITIVE_INFINITY;
    let after: { readonly id: string; readonly place: string } | undefined;
    for (let size = FIRST_PAGE; left > 0; size = PAGE) {
      const page = await this.#page(query, after, Math.min(size, left));
      yield* page.map(({ row }) => row);
      left -= page.length;
      const last = page.at(-1);
      if (last === undefined || page.length < size) return;
      after = { id: packId(last.row.id), place: last.place };
    }
  }

  async #page(
    query: CheckpointQuery,
    after: { readonly id: string; readonly place: string } | undefined,
    limit: number,
  ): Promise<{ readonly row: StoredCheckpoint; readonly place: string }[]> {
    const s = this.#schema;
    const values: unknown[] = [limit];
    const bind = (value: unknown) => `$${values.push(value)}`;
    const places = [
      ...(query.thread === undefined ? [] : [`t.id = ${bind(packId(query.thread))}`]),
      ...(query.ns === undefined ? [] : [`n.ns = ${bind(packId(query.ns))}`]),
    ];
    const ids = [
      ...(query.id === undefined ? [] : [`p.id = ${bind(packId(query.id))}`]),
      ...(query.before === undefined ? [] : [`p.id < ${bind(packId(query.before))}`]),
    ];
    // Of equal ids in several namespaces the order is that of the namespaces' numbers, descending.
    if (after !== undefined) ids.push(`(p.id, p.ns_no) < (${bind(after.id)}, ${bind(after.place)}::bigint)`);
    const rows = await this.#connections.read<PageRow>(
      `with page as materialized (
          select row_number() over (order by p.id desc, p.ns_no desc) as depth, p.ns_no as place, p.id
          from ${s}.holdfast_namespaces n join ${s}.holdfast_threads t on t.no = n.thread_no
          cross join lateral (
            select p.ns_no, p.id from ${s}.holdfast_checkpoints p
            where ${["p.ns_no = n.no", ...ids].join(" and ")} order by p.id desc limit $1
          ) p
          ${places.length === 0 ? "" : `where ${places.join(" and ")}`}
          order by p.id desc, p.ns_no desc limit $1
        ) ${withWrites(s, "page")}`,
      values,
    );
    return grouped(rows);
  }

  /**
   * A checkpoint and its ancestors, newest first. Writes added after the call are left out and a deletion meanwhile is an
   * error, so what is returned is one state, save for writes that were replaced in their slot meanwhile.
   */
  async *ancestors(thread: string, ns: string, id: string): AsyncGenerator<StoredCheckpoint> {
    this.#connections.requireOpen();
    const seen = new Set<string>();
    let from: string | undefined = id;
    let state: { readonly place: string; readonly last: string } | undefined;
    for (let size = FIRST_PAGE; from !== undefined && !seen.has(from); size = PAGE) {
      const rows: LineageRow[] = await this.#lineage(thread, ns, from, size, state?.last);
      if (rows.length === 0 && state === undefined) return;
      const first: LineageRow | undefined = rows[0];
      if (first === undefined || (state !== undefined && first.place !== state.place)) {
        if (state !== undefined && !(await this.#isThere(thread, ns, state.place))) throw deletedWhileRead(thread);
        return;
      }
      state ??= { place: first.place, last: first.last ?? "0" };
      const page: { readonly row: StoredCheckpoint }[] = grouped(rows);
      for (const { row } of page) {
        if (seen.has(row.id)) return;
        seen.add(row.id);
        yield row;
      }
      from = page.length < size ? undefined : page.at(-1)?.row.parent;
    }
  }

  #lineage(thread: string, ns: string, id: string, size: number, last: string | undefined): Promise<LineageRow[]> {
    const s = this.#schema;
    return this.#connections.read<LineageRow>(
      `with recursive place as (
          select n.no from ${s}.holdfast_threads t join ${s}.holdfast_namespaces n on n.thread_no = t.no
          where t.id = $1 and n.ns = $2
        ),
        until as (
          select coalesce($5::bigint, max(w.no)) as last from ${s}.holdfast_writes w
          where $5::bigint is null and w.ns_no = (select no from place)
        ),
        line (depth, place, id, parent) as (
          select 1, p.ns_no, p.id, p.parent from ${s}.holdfast_checkpoints p
          where p.ns_no = (select no from place) and p.id = $3
          union all
          select l.depth + 1, l.place, p.id, p.parent
          from line l join ${s}.holdfast_checkpoints p on p.ns_no = l.place and p.id = l.parent
          where l.depth < $4
        )
        select r.*, (select last from until) as last
        from (${withWrites(s, "line", "and w.no <= coalesce((select last from until), 0)")}) r order by r.depth`,
      [packId(thread), packId(ns), packId(id), size, last ?? null],
    );
  }

  async #isThere(thread: string, ns: string, place: string): Promise<boolean> {
    const rows = await this.#connections.read(
      `select 1 from ${this.#schema}.holdfast_threads t join ${this.#schema}.holdfast_namespaces n on n.thread_no = t.no
        where t.id = $1 and n.ns = $2 and n.no = $3`,
      [packId(thread), packId(ns), place],
    );
    return rows.length > 0;
  }
}

/** The checkpoints of a page, which come with their writes in the order of the page. */
function grouped(rows: readonly PageRow[]): { readonly row: StoredCheckpoint; readonly place: string }[] {
  const found = new Map<string, { checkpoint: CheckpointRow | undefined; writes: WriteRow[]; place: string }>();
  for (const row of rows) {
    const key = `${row.place} ${row.checkpoint}`;
    let one = found.get(key);
    if (one === undefined) {
      one = { checkpoint: undefined, writes: [], place: row.place };
      found.set(key, one);
    }
    const checkpoint = unpackText(row.checkpoint);
    if (row.kind === "write") one.writes.push(writeRow(checkpoint, row));
    else one.checkpoint = checkpointRow(unpackText(row.thread), unpackText(row.ns), row);
  }
  return [...found.values()].flatMap(({ checkpoint, writes, place }) =>
    checkpoint === undefined ? [] : [{ row: { ...checkpoint, writes }, place }],
  );
}
