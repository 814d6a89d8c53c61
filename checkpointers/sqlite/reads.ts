/** Reads of single things. Every method is called inside a read transaction, so it sees one state. */

import type { Database, Statement } from "better-sqlite3";
import type { CheckpointRow, EffectQuery, EffectRow, ItemsRow, Loaded, StoredCheckpoint, WriteRow } from "holdfast";
import { EFFECT_COLUMNS, readBlob, readEffect, readText, type StoredEffect } from "./columns.ts";
import type { WaitReads } from "./wait-reads.ts";
import { wellFormed } from "../ids.ts";
import { type Packed, packDigest, packId, packToken, threadDigest, unpackId, unpackToken } from "./ids.ts";

type StoredRow = [
  task: Packed | number,
  slot: number,
  parent: Packed | null,
  source: string | null,
  path: string | null,
  run: Packed | null,
  body: string | Buffer,
];

/** A namespace that has rows. */
export interface Place {
  readonly thread: string;
  readonly threadNo: number;
  readonly ns: string;
  readonly nsNo: number;
  readonly head: Packed | undefined;
}

interface List {
  readonly no: number;
  readonly base: Packed | null;
  readonly baseLength: number;
}

export class Reads {
  readonly #waits: WaitReads;
  readonly #thread: Statement;
  readonly #namespace: Statement;
  readonly #places: Statement;
  readonly #placesOf: Statement;
  readonly #row: Statement;
  readonly #list: Statement;
  readonly #items: Statement;
  readonly #end: Statement;
  readonly #blob: Statement;
  readonly #effectByKey: Statement;
  readonly #effectsOfThread: Statement;
  readonly #effectsOfTask: Statement;
  readonly #effectsOfInput: Statement;

  constructor(db: Database, waits: WaitReads) {
    this.#waits = waits;
    this.#thread = db.prepare("select no, era from holdfast_threads where id = ?").raw();
    this.#namespace = db.prepare("select no, head from holdfast_namespaces where thread_no = ? and ns = ?").raw();
    const places = (where: string) =>
      db
        .prepare(/* sql */ `
          select n.no, n.thread_no, t.id, n.ns, n.head
          from holdfast_namespaces n join holdfast_threads t on t.no = n.thread_no
          where ${where}
          order by n.no
          limit ?`)
        .raw();
    this.#places = places("n.no > ? and (? is null or n.ns = ?)");
    this.#placesOf = places("t.id = ? and n.no > ?");
    this.#row = db
      .prepare(/* sql */ `
        select task, slot, parent, source, path, run, body
        from holdfast_history
        where ns_no = ? and checkpoint = ? and no <= ?`)
      .raw();
    this.#list = db
      .prepare(/* sql */ `
        select no, base, coalesce(base_length, 0)
        from holdfast_lists
        where thread_no = ? and list = ?`)
      .raw();
    this.#items = db
      .prepare(/* sql */ `
        select start, count, body
        from holdfast_items
        where list_no = ? and start < ?
        order by start`)
      .raw();
    this.#end = db
      .prepare(/* sql */ `
        select start + count
        from holdfast_items
        where list_no = ?
        order by start desc
        limit 1`)
      .pluck();
    this.#blob = db
      .prepare(/* sql */ `
        select d.form, d.data
        from holdfast_blobs b join holdfast_data d on d.no = b.data_no
        where b.thread_no = ? and b.hash = ?`)
      .raw();
    const effects = (where: string) =>
      db
        .prepare(/* sql */ `
          select ${EFFECT_COLUMNS}
          from holdfast_effects e left join holdfast_threads t on t.no = e.thread_no
          where ${where}`)
        .raw();
    this.#effectByKey = effects("e.key = ?");
    this.#effectsOfThread = effects("e.thread_no = ?");
    this.#effectsOfTask = effects("e.thread_no = ? and e.task = ?");
    this.#effectsOfInput = effects("e.thread_no = ? and e.digest = ? and e.name = ?");
  }

  load(thread: string, ns: string, id: string | undefined): Loaded {
    const found = this.#thread.get(packId(thread)) as [number, number] | undefined;
    if (found === undefined) {
      const left = this.#thread.get(threadDigest(thread)) as [number, number] | undefined;
      return { era: left?.[1] ?? 0, head: undefined, checkpoint: undefined, writes: [], waits: [] };
    }
    const [threadNo, era] = found;
    const waits = ns === "" ? this.#waits.active(threadNo) : [];
    const place = this.#place(thread, threadNo, ns);
    const head = place?.head;
    const wanted = id === undefined ? head : packId(id);
    const headId = head === undefined ? undefined : unpackId(head);
    const stored = place && wanted !== undefined ? this.checkpoint(place, wanted, id ?? headId ?? "") : undefined;
    if (stored === undefined) return { era, head: headId, checkpoint: undefined, writes: [], waits };
    const { writes, ...checkpoint } = stored;
    return { era, head: headId, checkpoint, writes, waits };
  }

  /** The namespace and its thread's era; undefined where it has no rows. */
  find(thread: string, ns: string): (Place & { readonly era: number }) | undefined {
    const found = this.#thread.get(packId(thread)) as [number, number] | undefined;
    if (found === undefined) return undefined;
    const place = this.#place(thread, found[0], ns);
    return place && { ...place, era: found[1] };
  }

  #place(thread: string, threadNo: number, ns: string): Place | undefined {
    const found = this.#namespace.get(threadNo, wellFormed(ns)) as [number, Packed | null] | undefined;
    return found && { thread, threadNo, ns, nsNo: found[0], head: found[1] ?? undefined };
  }

  /** Namespaces of a thread or of all threads, with a given name or all, by ascending number. */
  places(thread: string | undefined, ns: string | undefined, afterNo: number, limit: number): Place[] {
    if (thread !== undefined && ns !== undefined) {
      const place = this.find(thread, ns);
      return place === undefined || place.nsNo <= afterNo ? [] : [place];
    }
    type Found = [nsNo: number, threadNo: number, thread: Packed, ns: string, head: Packed | null];
    const found = (
      thread === undefined
        ? this.#places.all(afterNo, ns ?? null, ns ?? null, limit)
        : this.#placesOf.all(packId(thread), afterNo, limit)
    ) as Found[];
    return found.map(([nsNo, threadNo, id, name, head]) => ({
      thread: unpackId(id),
      threadNo,
      ns: name,
      nsNo,
      head: head ?? undefined,
    }));
  }

  /** A checkpoint with its writes, of the rows up to `lastRow`; undefined where only writes are there. */
  checkpoint(
    place: Place,
    packed: Packed,
    id: string,
    lastRow = Number.MAX_SAFE_INTEGER,
  ): StoredCheckpoint | undefined {
    let row: CheckpointRow | undefined;
    const writes: WriteRow[] = [];
    for (const [task, slot, parent, source, path, run, body] of this.#row.all(
      place.nsNo,
      packed,
      lastRow,
    ) as StoredRow[]) {
      if (typeof task === "number") {
        const { thread, ns } = place;
        row = { thread, ns, id, parent: optionalId(parent), source: source ?? "", body: readText(body) };
      } else {
        writes.push({
          checkpoint: id,
          task: unpackId(task),
          path: path ?? "",
          slot,
          run: optionalId(run),
          body: readText(body),
        });
      }
    }
    return row && { ...row, writes };
  }

  items(thread: string, list: string, length: number): { rows: ItemsRow[]; extended: boolean } {
    const threadNo = this.#threadNo(thread);
    const asked = threadNo === undefined ? undefined : this.#findList(threadNo, packToken(list));
    if (threadNo === undefined || asked === undefined) return { rows: [], extended: false };
    // From the list back to its first base, then read in the order of the items.
    const chain: { name: string; no: number; end: number }[] = [];
    let end = length;
    let name = list;
    for (let at: List | undefined = asked; at !== undefined && end > 0; ) {
      chain.push({ name, no: at.no, end });
      if (at.base === null) break;
      name = unpackToken(at.base);
      end = Math.min(end, at.baseLength);
      at = this.#findList(threadNo, at.base);
    }
    const rows: ItemsRow[] = [];
    for (const part of chain.reverse()) {
      for (const [start, count, body] of this.#items.all(part.no, part.end) as [number, number, string | Buffer][]) {
        rows.push({ list: part.name, start, count, body: readText(body) });
      }
    }
    const ownEnd = (this.#end.get(asked.no) as number | undefined) ?? 0;
    return { rows, extended: Math.max(ownEnd, asked.baseLength) > length };
  }

  #findList(threadNo: number, list: Packed): List | undefined {
    const found = this.#list.get(threadNo, list) as [number, Packed | null, number] | undefined;
    return found && { no: found[0], base: found[1], baseLength: found[2] };
  }

  #threadNo(thread: string): number | undefined {
    return (this.#thread.get(packId(thread)) as [number, number] | undefined)?.[0];
  }

  blobs(thread: string, hashes: readonly string[]): Map<string, string | Uint8Array> {
    const found = new Map<string, string | Uint8Array>();
    const threadNo = hashes.length === 0 ? undefined : this.#threadNo(thread);
    if (threadNo === undefined) return found;
    for (const hash of hashes) {
      const row = this.#blob.get(threadNo, packToken(hash)) as [number, string | Buffer] | undefined;
      if (row !== undefined) found.set(hash, readBlob(row[0], row[1]));
    }
    return found;
  }

  effects(query: EffectQuery): EffectRow[] {
    return this.#effectRows(query).map(readEffect);
  }

  #effectRows(query: EffectQuery): StoredEffect[] {
    if ("key" in query) return this.#effectByKey.all(packDigest(query.key)) as StoredEffect[];
    const threadNo = query.thread === "" ? 0 : this.#threadNo(query.thread);
    if (threadNo === undefined) return [];
    if ("digest" in query) {
      return this.#effectsOfInput.all(threadNo, packDigest(query.digest), wellFormed(query.name)) as StoredEffect[];
    }
    if (query.task === undefined) return this.#effectsOfThread.all(threadNo) as StoredEffect[];
    return this.#effectsOfTask.all(threadNo, packId(query.task)) as StoredEffect[];
  }
}

function optionalId(packed: Packed | null): string | undefined {
  return packed === null ? undefined : unpackId(packed);
}
