/** Reads of waits and decisions. */

import type { DecisionRow, WaitQuery, WaitRow, WaitStatus } from "holdfast";
import { compareIds } from "../ids.ts";
import type { Connection } from "./connection.ts";
import type { History } from "./history.ts";
import { wellFormed } from "../ids.ts";
import { part, sortableMoment, threadDigest } from "./ids.ts";
import { byIdScript, listScript, PAGE, rowsOf } from "./list-script.ts";
import { STATUSES, unpackDecision, unpackWait } from "./rows.ts";
import { lua, type Script, script } from "./script.ts";

const ROWS = rowsOf("q", "Q");
const byId = byIdScript(ROWS);
const list = listScript(ROWS);

/** What is due by a moment among the open ones. */
const dueScript = script(lua`${ROWS}
for _, member in ipairs(call('ZRANGEBYLEX', W, '[d', '(d' .. ARGV[1] .. '\255')) do add(string.sub(member, 18)) end
return found
`);

const decisionsScript = script(lua`
local T, from, to, found = ARGV[1], ARGV[2], tonumber(ARGV[3]), {}
local live = alive(T)
local last = live and tonumber(call('HGET', H .. T, '#ld') or '0') or 0
if from == '' then from, to = last, last end
for seq = math.max(tonumber(from), 1), math.min(last, to) do
  found[#found + 1] = call('HGET', H .. T, 'D' .. string.format('%.0f', seq))
end
return { eraOf(T), tonumber(from), found }
`);

export class WaitReads {
  readonly #connection: Connection;
  readonly #history: History;

  constructor(connection: Connection, history: History) {
    this.#connection = connection;
    this.#history = history;
  }

  /** By id, by what is due, by thread, by owner, or by status, in this order of preference. */
  async waits(query: WaitQuery): Promise<WaitRow[]> {
    this.#connection.requireOpen();
    const { id, status = STATUSES, dueBy, limit = Number.POSITIVE_INFINITY } = query;
    if (limit <= 0 || status.length === 0) return [];
    const matches = matcher(query);
    if (id !== undefined) return (await this.#rows(byId, wellFormed(id))).filter(matches);
    const onlyOpen = status.every((name) => name === "open");
    if (dueBy !== undefined && onlyOpen && query.thread === undefined && query.owner === undefined) {
      const due = await this.#rows(dueScript, sortableMoment(dueBy));
      return due.filter(matches).sort(inOrder).slice(0, limit);
    }
    return this.#list(query, matches, limit);
  }

  async #list(query: WaitQuery, matches: (row: WaitRow) => boolean, limit: number): Promise<WaitRow[]> {
    const { thread, owner, after, status = STATUSES } = query;
    const statuses = [...new Set(status)].map((name) => `${STATUSES.indexOf(name)}`);
    const T = thread === undefined ? "" : threadDigest(thread);
    const prefix = thread !== undefined ? "q" : owner !== undefined ? `o${part(owner)}` : "s";
    // Nothing is left out where only what the index holds is asked for.
    const page = isIndexed(query) ? Math.min(limit, 10 * PAGE) : PAGE;
    const found: WaitRow[] = [];
    let place = after === undefined ? "" : sortableMoment(after.openedAt) + wellFormed(after.id);
    for (;;) {
      const [next, flat] = (await this.#connection.run(list, T, prefix, place, `${page}`, ...statuses)) as [
        Buffer | null,
        Buffer[],
      ];
      for (const row of waitsOf(flat)) if (matches(row)) found.push(row);
      if (found.length >= limit || !next) return found.slice(0, limit);
      place = next.toString();
    }
  }

  async #rows(way: Script, ...args: string[]): Promise<WaitRow[]> {
    return waitsOf((await this.#connection.run(way, ...args)) as Buffer[]);
  }

  /** The decision `seq` of a thread, or its last one. */
  async decision(thread: string, seq: number | undefined): Promise<DecisionRow | undefined> {
    this.#connection.requireOpen();
    if (seq !== undefined && (!Number.isInteger(seq) || seq < 1)) return undefined;
    return (await this.#decisions(thread, seq, seq ?? 0)).rows[0];
  }

  /** Page by page, as lists of checkpoints are. Of a thread that is deleted meanwhile the rest is left out. */
  async *decisions(query: { readonly thread?: string | undefined }): AsyncGenerator<DecisionRow> {
    this.#connection.requireOpen();
    if (query.thread !== undefined) {
      yield* this.#chain(query.thread);
      return;
    }
    for await (const page of this.#history.threads("d")) for (const thread of page) yield* this.#chain(thread);
  }

  async *#chain(thread: string): AsyncGenerator<DecisionRow> {
    let first: number | undefined;
    for (let from = 1; ; from += PAGE) {
      const { era, rows } = await this.#decisions(thread, from, from + PAGE - 1);
      first ??= era;
      if (era !== first) return;
      yield* rows;
      if (rows.length < PAGE) return;
    }
  }

  async #decisions(
    thread: string,
    from: number | undefined,
    to: number,
  ): Promise<{ era: number; rows: DecisionRow[] }> {
    const args = [threadDigest(thread), from === undefined ? "" : `${from}`, `${to}`];
    const [era, first, found] = (await this.#connection.run(decisionsScript, ...args)) as [number, number, Buffer[]];
    return { era, rows: found.map((stored, at) => unpackDecision(thread, first + at, stored)) };
  }
}

function waitsOf(flat: readonly Buffer[]): WaitRow[] {
  const rows: WaitRow[] = [];
  for (let at = 0; at < flat.length; at += 3) {
    const [id, thread, stored] = flat.slice(at, at + 3) as [Buffer, Buffer, Buffer];
    rows.push(unpackWait(id.toString(), thread.toString(), stored));
  }
  return rows;
}

function inOrder(a: Pick<WaitRow, "openedAt" | "id">, b: Pick<WaitRow, "openedAt" | "id">): number {
  return a.openedAt - b.openedAt || compareIds(a.id, b.id);
}

const FIELDS = ["thread", "task", "name", "graph", "assignee", "owner"] as const;

function matcher(query: WaitQuery): (row: WaitRow) => boolean {
  const { kind, dueBy, after, status } = query;
  const fields = FIELDS.filter((field) => query[field] !== undefined);
  return (row) =>
    fields.every((field) => row[field] === query[field]) &&
    (status === undefined || (status as readonly WaitStatus[]).includes(row.status)) &&
    (kind === undefined || kind.includes(row.kind)) &&
    (dueBy === undefined || (row.due !== undefined && row.due <= dueBy)) &&
    (after === undefined || inOrder(row, after) > 0);
}

/** Whether the index that is read leaves nothing to filter. */
function isIndexed(query: WaitQuery): boolean {
  const { kind, dueBy, thread, owner } = query;
  if (kind !== undefined || dueBy !== undefined || (thread !== undefined && owner !== undefined)) return false;
  return [query.task, query.name, query.graph, query.assignee].every((field) => field === undefined);
}
