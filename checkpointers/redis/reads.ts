/** Reads of one answer: a namespace, lists, blobs, effects. Each is one script or command, so it sees one state. */

import type { EffectQuery, EffectRow, ItemsRow, Loaded, WriteRow } from "holdfast";
import type { Connection } from "./connection.ts";
import { wellFormed } from "../ids.ts";
import * as ids from "./ids.ts";
import { unpackCheckpoint, unpackData, unpackEffect, unpackItems, unpackWait, unpackWrites } from "./rows.ts";
import { lua, script } from "./script.ts";

/** A checkpoint with its writes as a script hands it over. */
export const ROWS = lua`
local function writesOf(T, nsPart, id, version)
  local prefix = 'w' .. nsPart .. part(id)
  local members, found = begins(Z .. T, prefix), {}
  local values = mget(H .. T, members)
  for k = 1, #members do
    if values[k] and (not version or tonumber(parts(values[k], 1)[1]) <= version) then
      found[#found + 1] = string.sub(members[k], #prefix + 1)
      found[#found + 1] = values[k]
    end
  end
  return found
end
`;

const loadScript = script(lua`${ROWS}
local T, ns, nsPart, root, id = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local live, era = alive(T), nil
era = eraOf(T)
if not live then return { era } end
local head = call('HGET', H .. T, 'n' .. ns)
local wanted = id or head
local row = wanted and call('HGET', H .. T, 'c' .. nsPart .. wanted)
local waits = {}
if root == '1' then
  for status = 0, 1 do
    local members = begins(Z .. T, 'q' .. status)
    for k = 1, #members do
      local wait = string.sub(members[k], 19)
      waits[#waits + 1] = wait
      waits[#waits + 1] = call('HGET', H .. T, 'Q' .. wait)
    end
  end
end
return { era, head, wanted, row, row and writesOf(T, nsPart, wanted) or {}, waits }
`);

/** Follows a list to its beginnings. Of each part: its name, then starts and rows. The first says whether it goes on. */
const itemsScript = script(lua`
local T, list, length = ARGV[1], ARGV[2], tonumber(ARGV[3])
local found, seen = {}, {}
if not alive(T) then return found end
-- A ring of bases is damage; a script that goes round in it would stop the server for everybody.
while list and not seen[list] do
  seen[list] = true
  local prefix = 'i' .. part(list)
  local first, last = '[' .. prefix, '(' .. prefix .. string.format('%016.0f', length)
  local members = length > 0 and call('ZRANGEBYLEX', Z .. T, first, last) or {}
  local base = call('HGET', H .. T, 'b' .. list)
  local baseLength, baseList
  if base then baseLength, baseList = string.match(base, '^(%d+):(.*)$') end
  local beyond = 0
  if #found == 0 then
    local after = '[' .. prefix .. string.format('%016.0f', length)
    if #call('ZRANGEBYLEX', Z .. T, after, '(' .. prefix .. '\255', 'LIMIT', 0, 1) > 0 then beyond = 1 end
    if base and tonumber(baseLength) > length then beyond = 1 end
  end
  local starts = {}
  for k = 1, #members do starts[k] = string.sub(members[k], #prefix + 1) end
  found[#found + 1] = { list, beyond, starts, mget(H .. T, members) }
  list = baseList
  if base then length = math.min(length, tonumber(baseLength)) end
  if length <= 0 then list = nil end
end
return found
`);

const effectsScript = script(lua`
local found = {}
local function add(key, row)
  found[#found + 1] = key
  found[#found + 1] = row
end
if ARGV[1] == 'key' then
  local place = call('HGET', IDS, 'e' .. ARGV[2])
  -- Where its thread has expired, that is seen to now: one with a given key then stands elsewhere.
  if place and not alive(string.match(place, '%x+$')) then place = call('HGET', IDS, 'e' .. ARGV[2]) end
  if place then add(ARGV[2], rowAt(place, ARGV[2])) end
  return found
end
local T, prefix, count = ARGV[1], ARGV[2], tonumber(ARGV[3])
local function keys(members, from)
  for k = 1, #members do
    local key = string.sub(members[k], from)
    for _ = 1, count do
      local _, at = parts(key, 1)
      key = string.sub(key, at)
    end
    members[k] = key
  end
  return members
end
if alive(T) then
  for _, key in ipairs(keys(begins(Z .. T, 'e' .. prefix), 3)) do add(key, rowAt(T, key)) end
end
for _, key in ipairs(keys(begins(G, T .. prefix), #T + 2)) do add(key, rowAt('g', key)) end
return found
`);

export class Reads {
  readonly #connection: Connection;
  readonly #prefix: string;

  constructor(connection: Connection, prefix: string) {
    this.#connection = connection;
    this.#prefix = prefix;
  }

  async load(thread: string, ns: string, id: string | undefined): Promise<Loaded> {
    const place = [ids.threadDigest(thread), ns, ids.part(ns), ns === "" ? "1" : "0"];
    if (id !== undefined) place.push(wellFormed(id));
    const [era, head, wanted, row, writes = [], waits = []] = (await this.#connection.run(loadScript, ...place)) as [
      number,
      (Buffer | null)?,
      (Buffer | null)?,
      (Buffer | null)?,
      Buffer[]?,
      Buffer[]?,
    ];
    const found = wanted?.toString();
    return {
      era,
      head: head?.toString(),
      checkpoint: row && found !== undefined ? unpackCheckpoint(thread, ns, found, row) : undefined,
      writes: found === undefined ? [] : writeRows(found, writes),
      waits: pairs(waits).map(([wait, stored]) => unpackWait(wait.toString(), thread, stored)),
    };
  }

  /** Rows are whole: the last one before a base's end, or before `length`, may hold more items than are asked for. */
  async items(thread: string, list: string, length: number): Promise<{ rows: ItemsRow[]; extended: boolean }> {
    const answer = await this.#connection.run(itemsScript, ids.threadDigest(thread), wellFormed(list), `${length}`);
    const segments = (answer as [Buffer, number, Buffer[], Buffer[]][]).map(([name, beyond, starts, values]) => {
      const of = name.toString();
      const rows = starts.map((start, at) => unpackItems(of, Number(start), values[at] as Buffer));
      return { beyond: beyond === 1, rows };
    });
    const own = segments[0];
    const extended = own !== undefined && (own.beyond || own.rows.some((row) => row.start + row.count > length));
    return { rows: segments.reverse().flatMap((segment) => segment.rows), extended };
  }

  async blobs(thread: string, hashes: readonly string[]): Promise<Map<string, string | Uint8Array>> {
    this.#connection.requireOpen();
    const found = new Map<string, string | Uint8Array>();
    if (hashes.length === 0) return found;
    const fields = hashes.map(ids.blobField);
    const key = `${this.#prefix}h:${ids.threadDigest(thread)}`;
    const values = (await this.#connection.buffers("hmget", key, ...fields)) as (Buffer | null)[];
    for (const [at, hash] of hashes.entries()) {
      const stored = values[at];
      if (stored) found.set(hash, unpackData(stored));
    }
    return found;
  }

  async effects(query: EffectQuery): Promise<EffectRow[]> {
    const answer = (await this.#connection.run(effectsScript, ...argsOf(query))) as Buffer[];
    return pairs(answer).map(([key, stored]) => unpackEffect(key.toString(), stored));
  }
}

/** Thread, what its members begin with, and how many parts stand before the key in what is left of one. */
function argsOf(query: EffectQuery): string[] {
  if ("key" in query) return ["key", wellFormed(query.key)];
  const digest = ids.threadDigest(query.thread);
  if ("digest" in query) return [digest, `f${ids.part(query.digest)}${ids.part(query.name)}`, "2"];
  return [digest, query.task === undefined ? "t" : `t${ids.part(query.task)}`, "1"];
}

/** `[a, b, a, b, …]` two by two. */
export function pairs(flat: readonly Buffer[]): [Buffer, Buffer][] {
  return Array.from({ length: flat.length / 2 }, (_, at) => [flat[2 * at] as Buffer, flat[2 * at + 1] as Buffer]);
}

export function writeRows(checkpoint: string, flat: readonly Buffer[]): WriteRow[] {
  return pairs(flat).map(([rest, stored]) => unpackWrites(checkpoint, rest, stored));
}
