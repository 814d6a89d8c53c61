/** Scripts that hand over rows which are indexed among those of all threads: waits and runs. */

import { lua, type Script, script } from "./script.ts";

/** Rows looked at together where a filter may leave out most of them. */
export const PAGE = 200;

/**
 * Of a row its id, that of its thread, which stands in the thread's index, and its fields. `kind`: of its entry in `ids`;
 * `fields`: what its fields in the thread's hash begin with.
 */
export const rowsOf = (kind: string, ...fields: string[]): string => lua`
local function idOf(T)
  local member = begins(Z .. T, '#', 'LIMIT', 0, 1)[1]
  return member and string.sub(member, 2)
end
local found, names = {}, {}
local function add(id)
  local T = call('HGET', IDS, '${kind}' .. id)
  if not T or not alive(T) then return end
  names[T] = names[T] or idOf(T)
  found[#found + 1] = id
  found[#found + 1] = names[T]
  for _, field in ipairs({ ${fields.map((field) => `'${field}'`).join(", ")} }) do
    found[#found + 1] = call('HGET', H .. T, field .. id)
  end
end
`;

export const byIdScript = (rows: string): Script =>
  script(lua`${rows}
add(ARGV[1])
return found
`);

/**
 * The next rows of several statuses in one order: of a thread, or, where none is given, of all. A status is a range of names;
 * as many names of each are merged as rows are asked for, so no row is read that is not handed over.
 */
export const listScript = (rows: string): Script =>
  script(lua`${rows}
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
