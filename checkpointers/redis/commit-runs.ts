/**
 * What the commit script does with runs: pieces of it. The digits of statuses are those of `rows.ts`: 1 is running, and what has
 * ended comes from 5 on.
 */

import { lua } from "./script.ts";

export const JUDGE_RUNS = lua`
local function runOf(id)
  local r = runs[id]
  if r == nil then
    local place = placeOf('r' .. id)
    r = { owner = place, row = place and call('HGET', H .. place, 'R' .. id) }
    runs[id] = r
  end
  return r
end

-- The id of the run with that key: another one may have its id where this commit deletes its thread.
local function runWithKey(key)
  if keys[key] == nil then
    local place = call('HGET', IDS, 'k' .. key)
    keys[key] = place and string.sub(place, 65)
  end
  local id = keys[key]
  local row = id and runOf(id).row
  return row and parts(row, 5)[5] == '+' .. key and id
end

local function isUnended(row) return row and tonumber(parts(row, 2)[2]) < 5 end

-- The run of the thread that keeps one from running: another that is running, or the first one before it.
local function aheadOf(s, id, moment)
  if s.running and s.running ~= id then return s.running end
  local first = moment .. id
  for other, r in pairs(runs) do
    if r.dirty and r.owner == s.T and isUnended(r.row) then
      local place = parts(r.row, 4)[4] .. other
      if before(place, first) then first = place end
    end
  end
  local from = 0
  while not s.fresh do
    local members = call('ZRANGEBYLEX', s.z, '[u', '(u' .. first, 'LIMIT', from, 20)
    for k = 1, #members do
      local place = string.sub(members[k], 2)
      local r = runs[string.sub(place, 17)]
      if not (r and r.dirty) then return string.sub(place, 17) end
    end
    if #members < 20 then break end
    from = from + 20
  end
  local found = string.sub(first, 17)
  return found ~= id and found
end

-- What the contract's words are made of: id, status, whether it is this thread's, and the rest.
local function factsOf(s, id)
  local r = runOf(id)
  if not r.row then return false end
  local f, rest = parts(r.row, 9)
  return { id, f[2], r.owner == s.T, string.sub(r.row, rest) }
end

-- With what is stored of the run itself, of the one with its key, and of the one that is ahead of it.
function judges.U(s)
  local id, expect, follows, row, body = take(), take(), take(), take(), take()
  local r, f = runOf(id), parts(row, 5)
  local old = r.row and parts(r.row, 5)
  if expect == '' then
    if old then return { 'run', factsOf(s, id) } end
    local same = f[5] ~= '-' and runWithKey(string.sub(f[5], 2))
    if same then return { 'run', false, factsOf(s, same) } end
  elseif not old or r.owner ~= s.T or old[1] ~= expect or not string.find(follows, old[2], 1, true)
    or old[4] ~= f[4] or old[5] ~= f[5] then
    return { 'run', factsOf(s, id) }
  end
  if f[2] == '1' and not (old and old[2] == '1') then
    local ahead = aheadOf(s, id, f[4])
    if ahead then return { 'run', factsOf(s, id), false, factsOf(s, ahead) } end
    s.running = id
  elseif f[2] ~= '1' and s.running == id then
    s.running = false
  end
  if isUnended(r.row) then s.active = s.active - 1 end
  if isUnended(row) then s.active = s.active + 1 end
  if f[5] ~= '-' then keys[string.sub(f[5], 2)] = id end
  r.row, r.body, r.owner, r.dirty, s.ran = row, body, s.T, true, true
end

function judges.F(s)
  local id, epoch = take(), take()
  local r = runOf(id)
  local f = r.row and r.owner == s.T and parts(r.row, 3)
  if not f or f[2] ~= '1' or f[3] ~= epoch then return { 'fence', factsOf(s, id) } end
end
`;

export const APPLY_RUNS = lua`
-- Where a run is indexed among all, and among those of its thread.
local function runMembers(row, id)
  local f = parts(row, 9)
  local place = f[2] .. f[4] .. id
  local all, own = { 'S' .. place }, { 'r' .. place }
  if f[6] ~= '' then all[2] = 'O' .. f[6] .. place end
  if f[9] ~= '' then all[#all + 1] = 'D' .. f[7] .. f[9] .. id end
  for k = 2, #all do own[k] = 'g' .. all[k] end
  if isUnended(row) then own[#own + 1] = 'u' .. f[4] .. id end
  if f[5] ~= '-' then own[#own + 1] = 'k' .. string.sub(f[5], 2) end
  return all, own, f[5]
end

local function applyRun(id, r)
  local place = call('HGET', IDS, 'r' .. id)
  if place then
    local all, own = runMembers(call('HGET', H .. place, 'R' .. id), id)
    call('ZREM', W, unpack(all))
    call('ZREM', Z .. place, unpack(own))
  end
  local all, own, key = runMembers(r.row, id)
  if not place then
    call('HSET', IDS, 'r' .. id, r.owner)
    if key ~= '-' then call('HSET', IDS, 'k' .. string.sub(key, 2), r.owner .. id) end
  end
  call('ZADD', W, scored(all))
  call('ZADD', Z .. r.owner, scored(own))
  put(states[r.owner], 'R' .. id, r.row)
  put(states[r.owner], 'Y' .. id, r.body)
end

-- Names the run of the thread that may be claimed: the first one that has not ended, while no other is running.
local function offer(s)
  local first, claim = begins(s.z, 'u', 'LIMIT', 0, 1)[1], ''
  local id = first and string.sub(first, 18)
  if id and (not s.running or s.running == id) then
    local f = parts(call('HGET', s.h, 'R' .. id), 9)
    if f[9] ~= '' then claim = 'C' .. f[7] .. f[8] .. f[9] .. id end
  end
  call('HSET', s.h, '#rr', s.running and '+' .. s.running or '-')
  local old = s.claim or ''
  if claim == old then return end
  if old ~= '' then
    call('ZREM', W, old)
    call('ZREM', s.z, 'g' .. old)
  end
  if claim ~= '' then
    call('ZADD', W, 0, claim)
    call('ZADD', s.z, 0, 'g' .. claim)
    wake = true
  end
  call('HSET', s.h, '#rc', claim)
end
`;
