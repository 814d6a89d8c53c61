/**
 * The script that applies a group of commits: one call, one round trip.
 *
 * Each commit is judged whole before its first write, because Redis does not roll back; what its earlier operations would
 * leave is kept in tables meanwhile. Then it is applied, which cannot be refused. The answer is JSON: per commit 0, or
 * where and why it was refused, in facts that the contract's judges make words of. The group ends early at a commit that
 * answers "look": a task has stored writes with which the new ones must be compared, and that is done outside.
 *
 * An owner's calls are numbered and the last answer is kept with what it did, so a call that comes twice (its answer
 * was lost, and the first copy may still have been on its way) is answered and not applied. An owner that knows of a
 * later call than the server does is told so: the server has lost what it acknowledged.
 */

import { APPLY_RUNS, JUDGE_RUNS } from "./commit-runs.ts";
import { lua, script } from "./script.ts";

/** How long the last answer of an owner is kept. A call is not repeated that long after it. */
export const ANSWER_KEPT_MS = 3_600_000;

export const commitScript = script(lua`
local at = 0
local function take() at = at + 1 return ARGV[at] end
local owner, seq, acked, ttl, lease = take(), take(), take(), take(), take()
local last = call('GET', P .. 'l:' .. owner)
local known = 0
if last then
  local space = string.find(last, ' ', 1, true)
  known = tonumber(string.sub(last, 1, space - 1))
  if known == tonumber(seq) then return string.sub(last, space + 1) end
  if known > tonumber(seq) then return 'late' end
end
if tonumber(acked) > known then return 'lost' end

local T, ID = {}, {}
for k = 1, tonumber(take()) do T[k], ID[k] = take(), take() end

-- What the commit under way has read and would leave: threads; effects, waits and runs by id; ids of runs by key.
local states, effects, waits, runs, keys
-- Whether this call does something that others may be waiting for.
local wake = false

local function stateOf(digest)
  local s = states[digest]
  if s == nil then
    s = { T = digest, h = H .. digest, z = Z .. digest, buried = 0, heads = {}, has = {}, puts = {}, members = {} }
    local meta = call('HMGET', s.h, '#v', '#ttl', '#aw', '#ld', '#rr', '#rc')
    s.live = meta[1] and true or alive(digest)
    s.version, s.ttl = tonumber(meta[1] or '0'), meta[2]
    -- How many waits and runs keep the thread; its last decision.
    s.active, s.ld = tonumber(meta[3] or '0'), tonumber(meta[4] or '0')
    -- The run that is running, and the entry of the one to be claimed.
    s.running = meta[5] and string.sub(meta[5], 1, 1) == '+' and string.sub(meta[5], 2)
    s.claim = meta[6]
    s.era = eraOf(digest)
    -- Whether nothing that is stored shows through.
    s.fresh = not s.live
    states[digest] = s
  end
  return s
end

local function put(s, field, value, member)
  s.has[field] = true
  s.puts[#s.puts + 1] = field
  s.puts[#s.puts + 1] = value
  if member then
    s.members[#s.members + 1] = 0
    s.members[#s.members + 1] = member
  end
end

local function has(s, field)
  return s.has[field] or (not s.fresh and call('HEXISTS', s.h, field) == 1)
end

-- Where an effect, a wait or a run is stored; nowhere, where this commit deletes its thread.
local function placeOf(id)
  local place = call('HGET', IDS, id)
  if not place or string.sub(place, 1, 1) == 'g' then return place end
  local s = states[place]
  if s and s.fresh or not s and not alive(place) then return false end
  return place
end

local function effectOf(key)
  local e = effects[key]
  if e == nil then
    local place = placeOf('e' .. key)
    e = { owner = place, row = place and rowAt(place, key) }
    effects[key] = e
  end
  return e
end

local function waitOf(id)
  local q = waits[id]
  if q == nil then
    local place = placeOf('q' .. id)
    q = { owner = place, row = place and call('HGET', H .. place, 'Q' .. id) }
    waits[id] = q
  end
  return q
end

local function isActive(row) return row and tonumber(parts(row, 2)[2]) < 2 end

local function setWait(s, q, row)
  if q.row and isActive(q.row) then s.active = s.active - 1 end
  if isActive(row) then s.active = s.active + 1 end
  q.row, q.owner, q.dirty = row, s.T, true
end

-- Each takes the arguments of its operation and answers with what refuses it.
local judges = {}

function judges.C(s)
  local count, head, known = tonumber(take()), nil, false
  local heads = {}
  for k = 1, count do heads[k] = take() end
  local ns, id, field, value = take(), take(), take(), take()
  local name = 'n' .. ns
  head = s.heads[name]
  if head == nil then head = not s.fresh and call('HGET', s.h, name) end
  if count >= 0 and head ~= id then
    for k = 1, count do
      if heads[k] == (head and '+' .. head or '-') then known = true end
    end
    if not known then return { 'head', head } end
  end
  if not head then put(s, name, id, name) else put(s, name, id) end
  s.heads[name] = id
  put(s, field, value, field)
end

-- The writes of a call. Without any of the task before them, or after special ones, they are stored as they are.
function judges.W(s)
  local prefix, field, value, regular = take(), take(), take(), take()
  local own = s.has[prefix]
  if own == 'regular' or own and regular == '0' then return { 'look' } end
  if not s.fresh then
    local stored = begins(s.z, prefix, 'LIMIT', 0, 9)
    for k = 1, #stored do
      if regular == '0' or #stored == 9 or string.sub(stored[k], #prefix + 1, #prefix + 1) ~= 's' then return { 'look' } end
    end
  end
  put(s, field, part(tostring(s.version + 1)) .. value, field)
  s.has[prefix] = 'regular'
end

-- Writes whose place is decided.
function judges.P(s)
  local prefix, field, value = take(), take(), take()
  put(s, field, part(tostring(s.version + 1)) .. value, field)
  s.has[prefix] = s.has[prefix] or 'special'
end

-- Nothing more than the era is to be judged.
function judges.N() end

-- Refused outside.
function judges.R() return { 'plan' } end

function judges.I(s)
  local field, value, prefix, base, length = take(), take(), take(), take(), take()
  if has(s, field) then return { 'items' } end
  if base ~= '' and not s.has[prefix] and (s.fresh or #begins(s.z, prefix, 'LIMIT', 0, 1) == 0) then
    put(s, base, length)
  end
  s.has[prefix] = true
  put(s, field, value, field)
end

function judges.B(s)
  local field, value = take(), take()
  if not has(s, field) then put(s, field, value) end
end

function judges.E(s)
  local key, expect, given, row = take(), take(), take(), take()
  local e = effectOf(key)
  local f = e.row and parts(e.row, 2)
  if (f and f[1] or '') ~= expect then return { 'effect', f and f[1], f and f[2] } end
  e.row, e.owner, e.dirty, s.touched = row, given .. s.T, true, true
end

function judges.Q(s)
  local id, expect, row = take(), take(), take()
  local q = waitOf(id)
  if q.row then
    local f = parts(q.row, 2)
    if q.owner ~= s.T or expect ~= '' and f[1] ~= expect then return { 'wait', f[1], f[2], q.owner == s.T } end
    if expect == '' then return end
  elseif expect ~= '' then
    return { 'wait' }
  end
  setWait(s, q, row)
end

function judges.X(s)
  local q = waitOf(take())
  if not isActive(q.row) or q.owner ~= s.T then return end
  local f, rest = parts(q.row, 3)
  f[1] = string.format('%.0f', tonumber(f[1]) + 1)
  f[2] = f[2] == '0' and '3' or '2'
  f[3] = '-'
  setWait(s, q, pack(q.row, f, rest))
end

function judges.D(s)
  local seq, field, value = tonumber(take()), take(), take()
  if seq ~= s.ld + 1 then return { 'decision', s.ld > 0 and s.ld } end
  put(s, field, value)
  s.ld, s.decided = seq, true
end

${JUDGE_RUNS}
-- Nothing of the thread that this commit has put before is to be seen any more.
local function delete(s)
  for key, e in pairs(effects) do
    if e.row and e.owner == s.T then
      e.row, e.owner, e.dirty = false, false, true
    elseif e.row and e.owner == 'g' .. s.T then
      e.row, e.owner = withoutThread(e.row), 'g' .. NOBODY
    end
  end
  for _, rows in ipairs({ waits, runs }) do
    for _, q in pairs(rows) do
      if q.owner == s.T then q.row, q.owner, q.dirty = false, false, true end
    end
  end
  s.buried, s.era, s.fresh = s.buried + 1, s.era + 1, true
  s.heads, s.has, s.puts, s.members = {}, {}, {}, {}
  s.version, s.active, s.ld, s.ttl, s.decided, s.touched = 0, 0, 0, nil, nil, nil
  s.running, s.claim, s.ran = false, false, nil
end

local function judge(count)
  states, effects, waits, runs, keys = {}, {}, {}, {}, {}
  for k = 1, count do
    local kind, t = take(), tonumber(take())
    local s = stateOf(T[t])
    s.id = ID[t]
    if kind == 'K' then
      delete(s)
    elseif kind == 'G' then
      local prefix, sha = take(), take()
      local stored = s.live and begins(s.z, prefix) or {}
      if redis.sha1hex(table.concat(stored) .. table.concat(mget(s.h, stored))) ~= sha then return { k, 'look' } end
    else
      local era = tonumber(take())
      local refused
      if era ~= s.era then refused = { 'era', s.era } else refused = judges[kind](s) end
      if refused then
        table.insert(refused, 1, k)
        return refused
      end
    end
  end
end

-- Where an effect is indexed: the set, and its members there.
local function indexOf(place, row, key)
  local task, input = effectMembers(row, key)
  if string.sub(place, 1, 1) ~= 'g' then return Z .. place, 'e' .. task, 'e' .. input end
  local T = string.sub(place, 2)
  return G, T .. task, T .. input
end

local function applyEffect(key, e)
  local place, id = call('HGET', IDS, 'e' .. key), 'e' .. key
  local set, task, input, oldSet, oldTask, oldInput
  if e.row then set, task, input = indexOf(e.owner, e.row, key) end
  if place then
    oldSet, oldTask, oldInput = indexOf(place, rowAt(place, key), key)
    if oldSet ~= set or oldTask ~= task or oldInput ~= input then call('ZREM', oldSet, oldTask, oldInput) end
    if place ~= e.owner then
      if string.sub(place, 1, 1) == 'g' then call('HDEL', GK, key) else call('HDEL', H .. place, 'E' .. key) end
    end
  end
  if not e.row then
    if place then call('HDEL', IDS, id) end
    return
  end
  if place ~= e.owner then call('HSET', IDS, id, e.owner) end
  if oldSet ~= set or oldTask ~= task or oldInput ~= input then call('ZADD', set, 0, task, 0, input) end
  if string.sub(e.owner, 1, 1) == 'g' then
    call('HSET', GK, key, e.row)
  else
    put(states[e.owner], 'E' .. key, e.row)
  end
end

-- Where a wait is indexed among all, and among those of its thread: which names there what is to be removed elsewhere.
local function waitMembers(row, id)
  local f = parts(row, 6)
  local place = f[2] .. f[4] .. id
  local all, own = { 's' .. place }, { 'q' .. place }
  if f[6] ~= '' then all[2] = 'o' .. f[6] .. place end
  if f[2] == '0' and f[5] ~= '' then all[#all + 1] = 'd' .. f[5] .. id end
  for k = 2, #all do own[k] = 'g' .. all[k] end
  return all, own
end

local function scored(members)
  local found = {}
  for k = 1, #members do found[2 * k - 1], found[2 * k] = 0, members[k] end
  return unpack(found)
end

local function applyWait(id, q)
  local place = call('HGET', IDS, 'q' .. id)
  if place then
    local all, own = waitMembers(call('HGET', H .. place, 'Q' .. id), id)
    call('ZREM', W, unpack(all))
    call('ZREM', Z .. place, unpack(own))
  end
  if not q.row then
    if place then call('HDEL', IDS, 'q' .. id) call('HDEL', H .. place, 'Q' .. id) end
    return
  end
  if not place then call('HSET', IDS, 'q' .. id, q.owner) end
  local all, own = waitMembers(q.row, id)
  call('ZADD', W, scored(all))
  call('ZADD', Z .. q.owner, scored(own))
  put(states[q.owner], 'Q' .. id, q.row)
  local f = parts(q.row, 3)
  if f[2] == '1' and f[3] == '-' then wake = true end
end
${APPLY_RUNS}
local function flush(s)
  -- A thread that is there is kept on by every commit that names it.
  if #s.puts == 0 and not s.touched and (not s.live or s.buried > 0) then return end
  if not s.live or s.buried > 0 then
    s.members[#s.members + 1] = 0
    s.members[#s.members + 1] = '#' .. s.id
    call('ZADD', P .. 't', 0, s.id)
  end
  if s.decided then
    put(s, '#ld', s.ld)
    call('ZADD', P .. 'd', 0, s.id)
  end
  if ttl ~= '' and s.ttl ~= ttl then
    put(s, '#ttl', ttl)
    s.ttl = ttl
  end
  put(s, '#v', s.version + 1)
  put(s, '#aw', s.active)
  each('HSET', s.h, s.puts)
  each('ZADD', s.z, s.members)
  if s.ran then offer(s) end
  if not s.ttl then return end
  if s.active > 0 then
    call('PERSIST', s.h)
    call('ZREM', P .. 'x', s.T)
  else
    local moment = string.format('%.0f', now() + tonumber(s.ttl))
    call('PEXPIREAT', s.h, moment)
    call('ZADD', P .. 'x', moment, s.T)
  end
end

local function apply()
  for _, s in pairs(states) do
    for _ = 1, s.buried do bury(s.T, false) end
  end
  for key, e in pairs(effects) do if e.dirty then applyEffect(key, e) end end
  for id, q in pairs(waits) do if q.dirty then applyWait(id, q) end end
  for id, r in pairs(runs) do if r.dirty and r.row then applyRun(id, r) end end
  for _, s in pairs(states) do flush(s) end
end

if lease ~= '' then call('SET', P .. 'o:' .. owner, '1', 'PX', lease) end
local answers = {}
for c = 1, tonumber(take()) do
  local size = tonumber(take())
  local from = at
  local refused = judge(tonumber(take()))
  at = from + size
  if refused then
    answers[c] = cjson.encode(refused)
    if refused[2] == 'look' then break end
  else
    answers[c] = '0'
    apply()
  end
end
local answer = '[' .. table.concat(answers, ',') .. ']'
call('SET', P .. 'l:' .. owner, seq .. ' ' .. answer, 'PX', ${ANSWER_KEPT_MS})
-- A user that may not publish has stored everything all the same.
if wake then redis.pcall('PUBLISH', P .. 'wake', '') end
return answer
`);
