/**
 * Lists of checkpoints, read page by page. A page is one script; between two pages the server keeps nothing for a reader.
 */

import { type CheckpointQuery, deletedWhileRead, type StoredCheckpoint } from "holdfast";
import type { Connection } from "./connection.ts";
import { compareIds, insertByNext, wellFormed } from "../ids.ts";
import { part, threadDigest } from "./ids.ts";
import { ROWS, writeRows } from "./reads.ts";
import { unpackCheckpoint } from "./rows.ts";
import { lua, script } from "./script.ts";

/** Checkpoints read at once, of one source and where many are merged; threads asked at once for what they have. */
const PAGE = 100;
const PAGE_MERGED = 10;
const THREADS = 200;

const threadsScript = script(lua`
return call('ZRANGEBYLEX', P .. ARGV[1], ARGV[2], '+', 'LIMIT', 0, ARGV[3])
`);

/** Of each thread its namespaces, and of each the greatest id within the bounds. */
const sourcesScript = script(lua`
local given, id, before, found = ARGV[1], ARGV[2], ARGV[3], {}
local function source(T, k, ns)
  local prefix = 'c' .. part(ns)
  local upper, lower = '(' .. prefix .. '\255', '[' .. prefix
  if before ~= '' then upper = '(' .. prefix .. string.sub(before, 2) end
  if id ~= '' then upper, lower = '[' .. prefix .. string.sub(id, 2), '[' .. prefix .. string.sub(id, 2) end
  local first = call('ZREVRANGEBYLEX', Z .. T, upper, lower, 'LIMIT', 0, 1)[1]
  if first then found[#found + 1] = { k, ns, string.sub(first, #prefix + 1) } end
end
for k = 4, #ARGV do
  local T = ARGV[k]
  if alive(T) then
    if given ~= '' then source(T, k - 4, string.sub(given, 2)) else
      for _, member in ipairs(begins(Z .. T, 'n')) do source(T, k - 4, string.sub(member, 2)) end
    end
  end
end
return found
`);

/** Checkpoints of one namespace down from an id, itself (`[`) or not (`(`); with `exact` no other one. */
const pageScript = script(lua`${ROWS}
local T, nsPart, border, from, exact, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local prefix = 'c' .. nsPart
local first = border .. prefix .. from
local last = '[' .. prefix .. (exact == '1' and from or '')
local found = {}
if not alive(T) then return found end
local members = call('ZREVRANGEBYLEX', Z .. T, first, last, 'LIMIT', 0, limit)
for k = 1, #members do
  local id = string.sub(members[k], #prefix + 1)
  found[k] = { id, call('HGET', H .. T, members[k]), writesOf(T, nsPart, id) }
end
return found
`);

/** A checkpoint and its ancestors, as they were at a version of the thread. */
const ancestorsScript = script(lua`${ROWS}
local T, nsPart, id, version, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local live, found = alive(T), {}
if live and not version then version = tonumber(call('HGET', H .. T, '#v')) end
while live and id and #found < limit do
  local row = call('HGET', H .. T, 'c' .. nsPart .. id)
  if not row then break end
  found[#found + 1] = { id, row, writesOf(T, nsPart, id, version) }
  local parent = parts(row, 1)[1]
  id = parent ~= '-' and string.sub(parent, 2)
end
return { eraOf(T), tostring(version or 0), found }
`);

type RawRow = readonly [id: Buffer, row: Buffer, writes: Buffer[]];

/** One namespace of a thread that has rows left. */
interface Source {
  readonly thread: string;
  readonly ns: string;
  /** The greatest id that is left. */
  next: string;
  /** What was read and is not yet handed out. */
  rows: StoredCheckpoint[];
  /** Whether there may be more on the server. */
  more: boolean;
}

export class History {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Checkpoints by descending id. Namespaces are merged, so memory grows with their number, not with their rows. */
  async *checkpoints(query: CheckpointQuery): AsyncGenerator<StoredCheckpoint> {
    this.#connection.requireOpen();
    let left = query.limit ?? Number.POSITIVE_INFINITY;
    if (left <= 0) return;
    const { id, before } = query;
    if (id !== undefined && before !== undefined && compareIds(id, before) >= 0) return;
    const sources = await this.#sources(query);
    const page = sources.length > 1 ? PAGE_MERGED : PAGE;
    const fill = (source: Source, border: "[" | "(") =>
      this.#fill(source, border, Math.min(page, left), id !== undefined);
    for (let source = sources.pop(); source !== undefined; source = sources.pop()) {
      if (source.rows.length === 0) await fill(source, "[");
      const row = source.rows.shift();
      if (row === undefined) continue;
      yield row;
      left -= 1;
      if (left <= 0) return;
      source.next = row.id;
      if (source.rows.length === 0 && source.more) await fill(source, "(");
      const first = source.rows[0];
      if (first === undefined) continue;
      source.next = first.id;
      insertByNext(sources, source);
    }
  }

  /**
   * A checkpoint and its ancestors, newest first. Writes added after the call are left out and a deletion meanwhile is an
   * error, so what is returned is one state, save for rows that were replaced meanwhile.
   */
  async *ancestors(thread: string, ns: string, id: string): AsyncGenerator<StoredCheckpoint> {
    this.#connection.requireOpen();
    const seen = new Set<string>();
    let era: number | undefined;
    let version = "";
    for (let next: string | undefined = id; next !== undefined; ) {
      const args: string[] = [threadDigest(thread), part(ns), wellFormed(next), version, `${PAGE}`];
      const [eraNow, versionNow, found] = (await this.#connection.run(ancestorsScript, ...args)) as [
        number,
        Buffer,
        RawRow[],
      ];
      if (era !== undefined && eraNow !== era) throw deletedWhileRead(thread);
      era = eraNow;
      version = versionNow.toString();
      next = undefined;
      for (const raw of found) {
        const row = stored(thread, ns, raw);
        // A ring of parents is nobody's history, and no end either.
        if (seen.has(row.id)) return;
        seen.add(row.id);
        yield row;
        next = row.parent;
      }
      if (found.length < PAGE) return;
    }
  }

  /** Names in one of the sets of threads, in the order of code points, page by page. */
  async *threads(set: "t" | "d"): AsyncGenerator<string[]> {
    for (let from = "-"; ; ) {
      const page = ((await this.#connection.run(threadsScript, set, from, `${THREADS}`)) as Buffer[]).map(String);
      if (page.length > 0) yield page;
      if (page.length < THREADS) return;
      from = `(${page.at(-1)}`;
    }
  }

  /** The sources that have anything, by ascending `next`. */
  async #sources(query: CheckpointQuery): Promise<Source[]> {
    const sources: Source[] = [];
    const bounds = [query.ns, query.id, query.before].map((text) => (text === undefined ? "" : `=${wellFormed(text)}`));
    const ask = async (threads: readonly string[]) => {
      const found = (await this.#connection.run(sourcesScript, ...bounds, ...threads.map(threadDigest))) as [
        number,
        Buffer,
        Buffer,
      ][];
      for (const [at, ns, next] of found)
        sources.push({ thread: threads[at] as string, ns: ns.toString(), next: next.toString(), rows: [], more: true });
    };
    if (query.thread !== undefined) await ask([query.thread]);
    else for await (const page of this.threads("t")) await ask(page);
    return sources.sort((a, b) => compareIds(a.next, b.next));
  }

  /** Reads the next rows of a source, from `next` (`[`) or after it (`(`). */
  async #fill(source: Source, border: "[" | "(", limit: number, exact: boolean): Promise<void> {
    const { thread, ns, next } = source;
    const args = [threadDigest(thread), part(ns), border, next, exact ? "1" : "0", `${limit}`];
    const found = (await this.#connection.run(pageScript, ...args)) as RawRow[];
    source.rows = found.map((raw) => stored(thread, ns, raw));
    source.more = found.length >= limit;
  }
}

function stored(thread: string, ns: string, [id, row, writes]: RawRow): StoredCheckpoint {
  const text = id.toString();
  return { ...unpackCheckpoint(thread, ns, text, row), writes: writeRows(text, writes) };
}
