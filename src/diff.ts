/**
 * What differs between two states, channel by channel, as plain JSON. Lists of things with ids (messages) are matched by
 * id, others by place; texts are compared inside. Time and memory grow with the size of the states, not with its square.
 */

import { isDeepStrictEqual } from "node:util";
import { create } from "jsondiffpatch/with-text-diffs";
import { type Plain, plainOf } from "./diff-plain.ts";

/** Where in a channel: keys of objects, places in lists, and `{ id }` for an item of a list that is matched by ids. */
export type DiffPath = readonly (string | number | { readonly id: string })[];

/** A part of a text that was exchanged. */
export interface TextEdit {
  /** Offset in the text before, in UTF-16 units. */
  readonly at: number;
  readonly removed: string;
  readonly added: string;
}

export type Change =
  | { readonly kind: "added" | "removed"; readonly path: DiffPath; readonly value: Plain }
  | { readonly kind: "replaced"; readonly path: DiffPath; readonly before: Plain; readonly after: Plain }
  /** A longer text that changed in parts; `edits` from its beginning to its end. */
  | { readonly kind: "text"; readonly path: DiffPath; readonly edits: readonly TextEdit[] }
  /** An item of a list that is matched by ids has another place among those that both lists have. */
  | { readonly kind: "moved"; readonly path: DiffPath; readonly from: number; readonly to: number };

/** Texts shorter than this are shown as a whole. */
const TEXT_MIN = 60;
/** Longer texts are compared by their common beginning and end only. */
const TEXT_MAX = 100_000;

/** How jsondiffpatch marks the patch of a text. */
const TEXT_DELTA = 2;

const patcher = create({ textDiff: { minLength: TEXT_MIN } });

/** Changes from one value to another; none where they are equal. */
export function changesOf(before: unknown, after: unknown): readonly Change[] {
  const changes: Change[] = [];
  compare(plainOf(before), plainOf(after), [], changes);
  return changes;
}

function compare(before: Plain, after: Plain, path: DiffPath, into: Change[]): void {
  if (Array.isArray(before) && Array.isArray(after)) return compareLists(before, after, path, into);
  if (isObject(before) && isObject(after)) return compareObjects(before, after, path, into);
  if (isDeepStrictEqual(before, after)) return;
  const edits = typeof before === "string" && typeof after === "string" ? textEdits(before, after) : undefined;
  into.push(edits === undefined ? { kind: "replaced", path, before, after } : { kind: "text", path, edits });
}

type PlainObject = { readonly [key: string]: Plain };

const isObject = (value: Plain): value is PlainObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function compareObjects(before: PlainObject, after: PlainObject, path: DiffPath, into: Change[]): void {
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [old, now] = [before[key], after[key]];
    if (old === undefined || !Object.hasOwn(before, key))
      into.push({ kind: "added", path: [...path, key], value: now ?? null });
    else if (now === undefined || !Object.hasOwn(after, key))
      into.push({ kind: "removed", path: [...path, key], value: old });
    else compare(old, now, [...path, key], into);
  }
}

function compareLists(before: readonly Plain[], after: readonly Plain[], path: DiffPath, into: Change[]): void {
  const [old, now] = [idsOf(before), idsOf(after)];
  if (old !== undefined && now !== undefined) compareById(before, after, old, now, path, into);
  else compareByPlace(before, after, path, into);
}

/** Id → place; undefined where an item has none, or two have the same. */
function idsOf(list: readonly Plain[]): ReadonlyMap<string, number> | undefined {
  const ids = new Map<string, number>();
  for (const [i, item] of list.entries()) {
    const id = isObject(item) ? item["id"] : undefined;
    if (typeof id !== "string" || ids.has(id)) return undefined;
    ids.set(id, i);
  }
  return ids;
}

function compareById(
  before: readonly Plain[],
  after: readonly Plain[],
  old: ReadonlyMap<string, number>,
  now: ReadonlyMap<string, number>,
  path: DiffPath,
  into: Change[],
): void {
  for (const [id, i] of old) {
    if (!now.has(id)) into.push({ kind: "removed", path: [...path, { id }], value: before[i] ?? null });
  }
  const stay = movedIds(
    [...old.keys()].filter((id) => now.has(id)),
    now,
  );
  for (const [id, i] of now) {
    const from = old.get(id);
    if (from === undefined) {
      into.push({ kind: "added", path: [...path, { id }], value: after[i] ?? null });
      continue;
    }
    if (stay.has(id)) into.push({ kind: "moved", path: [...path, { id }], from, to: i });
    compare(before[from] ?? null, after[i] ?? null, [...path, { id }], into);
  }
}

/** Ids outside the longest run that is in the same order in both lists. */
function movedIds(inOldOrder: readonly string[], now: ReadonlyMap<string, number>): ReadonlySet<string> {
  const places = inOldOrder.map((id) => now.get(id) ?? 0);
  if (places.every((place, i) => i === 0 || place > (places[i - 1] ?? 0))) return new Set();
  // Longest increasing subsequence: `ends[k]` is where the best run of k + 1 items ends.
  const ends: number[] = [];
  const previous = new Array<number>(places.length).fill(-1);
  for (const [i, place] of places.entries()) {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((places[ends[middle] ?? 0] ?? 0) < place) low = middle + 1;
      else high = middle;
    }
    previous[i] = low === 0 ? -1 : (ends[low - 1] ?? -1);
    ends[low] = i;
  }
  const kept = new Set<number>();
  for (let i = ends.at(-1) ?? -1; i >= 0; i = previous[i] ?? -1) kept.add(i);
  return new Set(inOldOrder.filter((_, i) => !kept.has(i)));
}

/** What both lists begin and end with is matched; between that, item by item. */
function compareByPlace(before: readonly Plain[], after: readonly Plain[], path: DiffPath, into: Change[]): void {
  const most = Math.min(before.length, after.length);
  let head = 0;
  while (head < most && isDeepStrictEqual(before[head], after[head])) head += 1;
  let tail = 0;
  while (tail < most - head && isDeepStrictEqual(before.at(-1 - tail), after.at(-1 - tail))) tail += 1;
  const [old, now] = [before.slice(head, before.length - tail), after.slice(head, after.length - tail)];
  for (let i = 0; i < Math.max(old.length, now.length); i += 1) {
    const at = [...path, head + i];
    if (i >= old.length) into.push({ kind: "added", path: at, value: now[i] ?? null });
    else if (i >= now.length) into.push({ kind: "removed", path: at, value: old[i] ?? null });
    else compare(old[i] ?? null, now[i] ?? null, at, into);
  }
}

/** Undefined where the text is short, or little of it stays. */
function textEdits(before: string, after: string): readonly TextEdit[] | undefined {
  if (before.length < TEXT_MIN || after.length < TEXT_MIN) return undefined;
  if (before.length > TEXT_MAX || after.length > TEXT_MAX) return [exchanged(before, after)];
  let edits: readonly TextEdit[];
  try {
    const delta = patcher.diff(before, after);
    if (!Array.isArray(delta) || delta[2] !== TEXT_DELTA) return undefined;
    edits = editsOf(String(delta[0]));
  } catch {
    // Half a surrogate pair cannot be written as a patch.
    return [exchanged(before, after)];
  }
  if (applied(before, edits) !== after) return [exchanged(before, after)];
  const removed = edits.reduce((sum, edit) => sum + edit.removed.length, 0);
  return removed * 2 > before.length ? undefined : edits;
}

/** Everything between the common beginning and the common end. */
function exchanged(before: string, after: string): TextEdit {
  const most = Math.min(before.length, after.length);
  let head = 0;
  while (head < most && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < most - head && before.at(-1 - tail) === after.at(-1 - tail)) tail += 1;
  return { at: head, removed: before.slice(head, before.length - tail), added: after.slice(head, after.length - tail) };
}

/** The patch text of diff-match-patch: each hunk counts from the text that the hunks before it have made. */
function editsOf(patch: string): TextEdit[] {
  const edits: TextEdit[] = [];
  let [at, grown] = [0, 0];
  let open: { at: number; removed: string; added: string } | undefined;
  for (const line of patch.split("\n")) {
    const header = /^@@ -(\d+)(?:,(\d+))? /.exec(line);
    if (header !== null) {
      open = undefined;
      // Places count from 1; a hunk of length 0 names the place before it.
      at = Number(header[1]) - (header[2] === "0" ? 0 : 1) - grown;
      continue;
    }
    const [sign, text] = [line[0], decodeURI(line.slice(1))];
    if (sign === " ") {
      at += text.length;
      open = undefined;
    } else if (sign === "-" || sign === "+") {
      if (open === undefined) {
        open = { at, removed: "", added: "" };
        edits.push(open);
      }
      if (sign === "-") {
        open.removed += text;
        at += text.length;
        grown -= text.length;
      } else {
        open.added += text;
        grown += text.length;
      }
    }
  }
  return edits;
}

function applied(before: string, edits: readonly TextEdit[]): string {
  let text = "";
  let at = 0;
  for (const edit of edits) {
    text += before.slice(at, edit.at) + edit.added;
    at = edit.at + edit.removed.length;
  }
  return text + before.slice(at);
}
