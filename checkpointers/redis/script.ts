/**
 * A Lua script and what all of them share. Scripts find the store by its first key, the prefix of all others: the names
 * of most keys are known only inside. That is allowed where all keys lie on one server; they do, by one hash tag.
 *
 * Keys, behind the prefix (T = digest of a thread):
 * - `h:T` hash: every value of the thread. Its expiry is the thread's: one key, so nothing is ever half expired.
 * - `z:T` sorted set: the names of rows that are listed, and of the entries the thread has elsewhere. Not a value among it.
 * - `era:T` how often the thread was deleted.
 * - `t`, `d` sorted sets: threads, and those with decisions. `x`: digests of threads with an expiry, by its moment.
 * - `ids` hash: to which thread a wait (`q…`), a run (`r…`) or an effect (`e…`) belongs; after a `g` where its key was given.
 *   Also the keys of runs (`k…`): their thread and id.
 * - `gk` hash, `g` sorted set: effects with a given key, and their index; they outlive their thread.
 * - `w` sorted set: waits of all threads, by status (`s`), by owner (`o`), and by due moment (`d`, the open ones); runs of all
 *   threads, by status (`S`), by owner (`O`), by graph and due moment (`D`, those that are queued or retrying), and by graph,
 *   priority and due moment (`C`): of each thread the one that may be claimed when it is due, if there is one.
 * - `wake` no key, but the channel on which commits are told of, see `Backend.watch`.
 * - `l:O` the last call of an owner and its answer; `o:O` is there while the owner lives. `meta` the format.
 *
 * A thread whose hash is gone and whose index is there has expired: {@link PRELUDE}'s `alive` removes the rest of it.
 */

import { hash } from "node:crypto";
import { threadDigest } from "./ids.ts";

/** A piece of Lua: backslashes are its own. */
export const lua = String.raw;

export interface Script {
  readonly text: string;
  readonly sha: string;
}

/** How long a run that loaded a thread before it expired is refused, instead of beginning the thread anew unnoticed. */
const EXPIRED_ERA_MS = 30 * 86_400_000;

const PRELUDE = lua`
local P = KEYS[1]
local call = redis.call
local H, Z, ERA, IDS, W, G, GK = P .. 'h:', P .. 'z:', P .. 'era:', P .. 'ids', P .. 'w', P .. 'g', P .. 'gk'
-- The thread "", which takes the effects with a given key of threads that are no more.
local NOBODY = '${threadDigest("")}'

-- In pieces: a call takes no more than some thousand arguments.
local function each(command, key, list)
  for from = 1, #list, 4000 do
    call(command, key, unpack(list, from, math.min(from + 3999, #list)))
  end
end

local function mget(key, names)
  local found = {}
  for from = 1, #names, 4000 do
    local values = call('HMGET', key, unpack(names, from, math.min(from + 3999, #names)))
    for k = 1, #values do found[from + k - 1] = values[k] end
  end
  return found
end

local function begins(key, prefix, ...)
  return call('ZRANGEBYLEX', key, '[' .. prefix, '(' .. prefix .. '\255', ...)
end

-- By bytes: Lua's own comparison goes by the locale of the server.
local function before(a, b)
  for k = 1, math.min(#a, #b) do
    local x, y = string.byte(a, k), string.byte(b, k)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- The first n parts of a row and where the rest begins.
local function parts(row, n)
  local found, at = {}, 1
  for k = 1, n do
    local colon = string.find(row, ':', at, true)
    local last = colon + tonumber(string.sub(row, at, colon - 1))
    found[k] = string.sub(row, colon + 1, last)
    at = last + 1
  end
  return found, at
end

local function part(text) return #text .. ':' .. text end

local function pack(row, fields, at)
  for k = 1, #fields do fields[k] = part(fields[k]) end
  return table.concat(fields) .. string.sub(row, at)
end

-- Where the index of effects has one: under its task and under its input.
local function effectMembers(row, key)
  local f = parts(row, 5)
  return 't' .. part(f[4]) .. key, 'f' .. f[5] .. key
end

local function keyOf(member, from)
  local _, at = parts(string.sub(member, from), 1)
  return string.sub(member, from + at - 1)
end

-- Where an effect is: 'g' and a thread where its key was given, else only the thread.
local function rowAt(place, key)
  if string.sub(place, 1, 1) == 'g' then return call('HGET', GK, key) end
  return call('HGET', H .. place, 'E' .. key)
end

local function withoutThread(row)
  local f, at = parts(row, 3)
  f[3] = ''
  return pack(row, f, at)
end

local function bury(T, expired)
  local members, gone, listed = call('ZRANGE', Z .. T, 0, -1), {}, {}
  for k = 1, #members do
    local member = members[k]
    local kind = string.sub(member, 1, 1)
    if kind == '#' then
      call('ZREM', P .. 't', string.sub(member, 2))
      call('ZREM', P .. 'd', string.sub(member, 2))
    elseif kind == 'e' and string.sub(member, 2, 2) == 't' then
      gone[#gone + 1] = 'e' .. keyOf(member, 3)
    elseif kind == 'q' then
      gone[#gone + 1] = 'q' .. string.sub(member, 19)
      listed[#listed + 1] = 's' .. string.sub(member, 2)
    elseif kind == 'r' then
      gone[#gone + 1] = 'r' .. string.sub(member, 19)
      listed[#listed + 1] = 'S' .. string.sub(member, 2)
    elseif kind == 'k' then
      gone[#gone + 1] = member
    elseif kind == 'g' then
      listed[#listed + 1] = string.sub(member, 2)
    end
  end
  each('HDEL', IDS, gone)
  each('ZREM', W, listed)
  local given = begins(G, T .. 't')
  for k = 1, #given do
    -- It speaks of the world outside: it stays, without the thread.
    local key = keyOf(given[k], #T + 2)
    local row = call('HGET', GK, key)
    local task, input = effectMembers(row, key)
    call('ZREM', G, T .. task, T .. input)
    call('ZADD', G, 0, NOBODY .. task, 0, NOBODY .. input)
    call('HSET', GK, key, withoutThread(row))
    call('HSET', IDS, 'e' .. key, 'g' .. NOBODY)
  end
  call('UNLINK', H .. T, Z .. T)
  call('ZREM', P .. 'x', T)
  local era = call('GET', ERA .. T)
  local next = string.format('%.0f', tonumber(era or '0') + 1)
  if expired and (not era or call('PTTL', ERA .. T) >= 0) then
    call('SET', ERA .. T, next, 'PX', ${EXPIRED_ERA_MS})
  else
    call('SET', ERA .. T, next)
  end
end

-- Whether the thread has rows.
local function alive(T)
  if call('EXISTS', H .. T) == 1 then return true end
  if call('EXISTS', Z .. T) == 1 then bury(T, true) end
  return false
end

local function eraOf(T) return tonumber(call('GET', ERA .. T) or '0') end

local function now()
  local time = call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
`;

/** A script from its body, which has the functions of the prelude. */
export function script(body: string): Script {
  const text = `${PRELUDE}${body}`;
  return { text, sha: hash("sha1", text, "hex") };
}
