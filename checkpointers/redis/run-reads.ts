/**
 * Reads of runs.
 *
 * What may be claimed is found by graph and priority: of each pair that there is, at most `limit` names are looked at, in the
 * order in which they are due. So neither runs that wait, have ended, are due later or are kept back by another one cost
 * anything, nor do the many that are due in a long queue.
 */

import type { DueRunsQuery, RunQuery, RunRow, RunStatus } from "holdfast";
import { compareIds, wellFormed } from "../ids.ts";
import type { Connection } from "./connection.ts";
import { momentOf, part, sortableMoment, threadDigest } from "./ids.ts";
import { byIdScript, listScript, PAGE, rowsOf } from "./list-script.ts";
import { RUN_STATUSES, unpackRun } from "./rows.ts";
import { lua, type Script, script } from "./script.ts";

const ROWS = rowsOf("r", "R", "Y");
const byId = byIdScript(ROWS);
const list = listScript(ROWS);

const byKey = script(lua`${ROWS}
local place = call('HGET', IDS, 'k' .. ARGV[1])
if place then add(string.sub(place, 65)) end
return found
`);

/** The graphs that are asked for, or all that have a run to be claimed, each as it stands in names. */
const GRAPHS = lua`
local function graphs(from, all)
  local found = {}
  if not all then
    for k = from, #ARGV do found[k - from + 1] = ARGV[k] end
    return found
  end
  local member = begins(W, 'D', 'LIMIT', 0, 1)[1]
  while member do
    local name = parts(string.sub(member, 2), 1)[1]
    found[#found + 1] = part(name)
    member = call('ZRANGEBYLEX', W, '(D' .. part(name) .. '\255', '(D\255', 'LIMIT', 0, 1)[1]
  end
  return found
end
`;

const dueScript = script(lua`${ROWS}${GRAPHS}
local due, limit, places = ARGV[1], tonumber(ARGV[2]), {}
local function take(graph)
  local count, from, last = 0, '[C' .. graph, '(C' .. graph .. '\255'
  local member = call('ZRANGEBYLEX', W, from, last, 'LIMIT', 0, 1)[1]
  while member and count < limit do
    local level = string.sub(member, 1, #graph + 17)
    for _, one in ipairs(call('ZRANGEBYLEX', W, '[' .. level, '(' .. level .. due .. '\255', 'LIMIT', 0, limit - count)) do
      places[#places + 1] = string.sub(one, #graph + 2)
      count = count + 1
    end
    member = call('ZRANGEBYLEX', W, '(' .. level .. '\255', last, 'LIMIT', 0, 1)[1]
  end
end
for _, graph in ipairs(graphs(4, ARGV[3] == '1')) do
  local first = 'D' .. graph
  if #call('ZRANGEBYLEX', W, '[' .. first, '(' .. first .. due .. '\255', 'LIMIT', 0, 1) > 0 then take(graph) end
end
table.sort(places, before)
for k = 1, math.min(limit, #places) do add(string.sub(places[k], 33)) end
return found
`);

const nextScript = script(lua`${GRAPHS}
local first
for _, graph in ipairs(graphs(2, ARGV[1] == '1')) do
  local member = begins(W, 'D' .. graph, 'LIMIT', 0, 1)[1]
  local due = member and string.sub(member, #graph + 2, #graph + 17)
  if due and (not first or before(due, first)) then first = due end
end
return first
`);

const nowScript = script(lua`
return now()
`);

/** Redis counts no further. */
const LIMIT_MAX = 2 ** 31 - 1;

export class RunReads {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** By id, by key, by thread, by owner, or by status, in this order of preference. */
  async runs(query: RunQuery): Promise<RunRow[]> {
    this.#connection.requireOpen();
    const { id, key, status = RUN_STATUSES, limit = Number.POSITIVE_INFINITY } = query;
    if (limit <= 0 || status.length === 0) return [];
    const matches = matcher(query);
    if (id !== undefined) return (await this.#rows(byId, wellFormed(id))).filter(matches);
    if (key !== undefined) return (await this.#rows(byKey, wellFormed(key))).filter(matches);
    return this.#list(query, matches, limit);
  }

  async #list(query: RunQuery, matches: (row: RunRow) => boolean, limit: number): Promise<RunRow[]> {
    const { thread, owner, after, status = RUN_STATUSES } = query;
    const digits = [...new Set(status)].map((name) => `${RUN_STATUSES.indexOf(name)}`);
    const T = thread === undefined ? "" : threadDigest(thread);
    const prefix = thread !== undefined ? "r" : owner !== undefined ? `O${part(owner)}` : "S";
    // Nothing is left out where only what the index holds is asked for.
    const page = isIndexed(query) ? Math.min(limit, 10 * PAGE) : PAGE;
    const found: RunRow[] = [];
    let place = after === undefined ? "" : sortableMoment(after.createdAt) + wellFormed(after.id);
    for (;;) {
      const [next, flat] = (await this.#connection.run(list, T, prefix, place, `${page}`, ...digits)) as [
        Buffer | null,
        Buffer[],
      ];
      for (const row of runsOf(flat)) if (matches(row)) found.push(row);
      if (found.length >= limit || !next) return found.slice(0, limit);
      place = next.toString();
    }
  }

  async dueRuns({ dueBy, graphs, limit }: DueRunsQuery): Promise<RunRow[]> {
    this.#connection.requireOpen();
    if (limit <= 0) return [];
    return this.#rows(dueScript, sortableMoment(dueBy), `${Math.min(limit, LIMIT_MAX)}`, ...graphArgs(graphs));
  }

  async nextDue(graphs: readonly string[] | undefined): Promise<number | undefined> {
    const first = (await this.#connection.run(nextScript, ...graphArgs(graphs))) as Buffer | null;
    return first === null ? undefined : momentOf(first.toString());
  }

  async now(): Promise<number> {
    return (await this.#connection.run(nowScript)) as number;
  }

  async #rows(way: Script, ...args: string[]): Promise<RunRow[]> {
    return runsOf((await this.#connection.run(way, ...args)) as Buffer[]);
  }
}

/** Whether all of them are asked for, and which. */
function graphArgs(graphs: readonly string[] | undefined): string[] {
  return graphs === undefined ? ["1"] : ["0", ...[...new Set(graphs)].map(part)];
}

function runsOf(flat: readonly Buffer[]): RunRow[] {
  const rows: RunRow[] = [];
  for (let at = 0; at < flat.length; at += 4) {
    const [id, thread, stored, body] = flat.slice(at, at + 4) as [Buffer, Buffer, Buffer, Buffer];
    rows.push(unpackRun(id.toString(), thread.toString(), stored, body));
  }
  return rows;
}

const FIELDS = ["thread", "graph", "owner", "worker", "key"] as const;

function matcher(query: RunQuery): (row: RunRow) => boolean {
  const { after, status } = query;
  const fields = FIELDS.filter((field) => query[field] !== undefined);
  return (row) =>
    fields.every((field) => row[field] === query[field]) &&
    (status === undefined || (status as readonly RunStatus[]).includes(row.status)) &&
    (after === undefined || (row.createdAt - after.createdAt || compareIds(row.id, after.id)) > 0);
}

/** Whether the index that is read leaves nothing to filter. */
function isIndexed({ thread, owner, graph, worker }: RunQuery): boolean {
  return graph === undefined && worker === undefined && (thread === undefined || owner === undefined);
}
