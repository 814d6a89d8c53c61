/** Reads of waits and decisions. */

import type { DecisionRow, WaitQuery, WaitRow, WaitStatus } from "holdfast";
import { compareIds } from "../ids.ts";
import type { Connection } from "./connection.ts";
import type { History } from "./history.ts";
import { wellFormed } from "../ids.ts";
import { part, sortableMoment, threadDigest } from "./ids.ts";
import { STATUSES, unpackDecision, unpackWait } from "./rows.ts";
import { lua, script } from "./script.ts";

/** Rows looked at together where a filter may leave out most of them; decisions read at once. */
const PAGE = 200;

/** A row and the id of its thread, which stands in the thread's index. */
const ROW = lua`
local function idOf(T)
  local member = begins(Z .. T, '#', 'LIMIT', 0, 1)[1]
  return member and string.sub(member, 2)
end
local found, names = {}, {}
local function add(id)
  local T = call('HGET', IDS, 'q' .. id)
  if not T or not alive(T) then return end
  names[T] = names[T] or idOf(T)
  found[#found + 1] = id
  found[#found + 1] = names[T]
  found[#found + 1] = call('HGET', H .. T, 'Q' .. id)
end
`;

const byIdScript = script(lua`${ROW}
add(ARGV[1])
return found
`);

/** What is due by a moment among the open ones. */
const dueScript = script(lua`${ROW}
for _, member in ipairs(call('ZRANGEBYLEX', W, '[d', '(d' .. ARGV[1] .. '\255')) do add(string.sub(member, 18)) end
return found
`);

/**
 * The next waits of several statuses in one order: of a thread, or, where none is given, of all. A status is a range of
 * names; as many names of each are merged as rows are asked for, so no row is read that is not handed over.
 */
const listScript = script(lua`${ROW}
-- By bytes: Lua's own comparison goes by the locale of the server.
local function before(a, b)
  for k = 1, math.min(#a, #b) do
    local x, y = string.byte(a, k), string.byte(b, k)
    if x ~= y then return x < y end
  end
  return #a < #b
end
local T, prefix, after, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local set, places = W, {}
if T ~= '' then
  if not alive(T) then return { false, found } end
  set = Z .. T
end
for k = 5, #ARGV do
  local begin = prefix .. ARGV[k]
  local first = after == '' and '[' .. begin or '(' .. begin .. after
  for _, member in ipairs(call('ZRANGEBYLEX', set, first, '(' .. begin .. '\255', 'LIMIT', 0, limit)) do
    places[#places + 1] = string.sub(member, #begin + 1)
  end
end
if #ARGV > 5 then table.sort(places, before) end
for k = 1, math.min(limit, #places) do add(string.sub(places[k], 17)) end
return { places[limit] or false, found }
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
    if (id !== undefined) return (await this.#rows(byIdScript, wellFormed(id))).filter(matches);
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
      const [next, flat] = (await this.#connection.run(listScript, T, prefix, place, `${page}`, ...statuses)) as [
        Buffer | null,
        Buffer[],
      ];
      for (const row of rowsOf(flat)) if (matches(row)) found.push(row);
      if (found.length >= limit || !next) return found.slice(0, limit);
      place = next.toString();
    }
  }

  async #rows(way: typeof byIdScript, ...args: string[]): Promise<WaitRow[]> {
    return rowsOf((await this.#connection.run(way, ...args)) as Buffer[]);
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

function rowsOf(flat: readonly Buffer[]): WaitRow[] {
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
