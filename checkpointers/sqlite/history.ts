/**
 * Lists of checkpoints, read page by page: each page is one short read transaction, and between two pages nothing is
 * open, so a slow reader hinders no writer and no WAL checkpoint.
 */

import type { Database, Statement } from "better-sqlite3";
import { type CheckpointQuery, deletedWhileRead, type StoredCheckpoint } from "holdfast";
import { compareIds, insertByNext } from "../ids.ts";
import { type Packed, packId, unpackId, uuidBound } from "./ids.ts";
import type { Place, Reads } from "./reads.ts";
import type { Turns } from "./turns.ts";

/** Checkpoints, and namespaces, read in one transaction at most. */
const PAGE = 100;
const PLACES = 500;

/** Greater than every text and smaller than every other blob. */
const FIRST_BLOB = Buffer.alloc(0);
/** Greater than every packed id. */
const AFTER_UUIDS = Buffer.alloc(17, 0xff);

/**
 * The checkpoints of one namespace whose ids are stored alike. SQLite sorts all text before all blobs, so the two kinds
 * are two sources, merged by their text.
 */
interface Source {
  readonly place: Place;
  readonly packed: boolean;
  /** What is left: `lower` <= id < `upper`. */
  lower: Packed;
  upper: Packed;
  /** The greatest id that is left. */
  next: string | undefined;
}

export class History {
  readonly #turns: Turns;
  readonly #reads: Reads;
  readonly #page: Statement;
  readonly #lastRow: Statement;

  constructor(db: Database, turns: Turns, reads: Reads) {
    this.#turns = turns;
    this.#reads = reads;
    // The number of a deleted namespace may be given to another one, hence the thread: its number is never used again.
    this.#page = db
      .prepare(/* sql */ `
        select checkpoint
        from holdfast_history
        where ns_no = (select no from holdfast_namespaces where no = ? and thread_no = ?)
          and checkpoint < ? and checkpoint >= ? and task = 0
        order by checkpoint desc
        limit ?`)
      .pluck();
    this.#lastRow = db.prepare("select max(no) from holdfast_history").pluck();
  }

  /** Checkpoints by descending id. Namespaces are merged, so memory grows with their number, not with their rows. */
  async *checkpoints(query: CheckpointQuery): AsyncGenerator<StoredCheckpoint> {
    let left = query.limit ?? Number.POSITIVE_INFINITY;
    if (left <= 0) return;
    const sources = await this.#sources(query);
    for (let source = sources.pop(); source !== undefined; source = sources.pop()) {
      const rows = await this.#pageOf(source, sources.at(-1)?.next, Math.min(PAGE, left));
      if (source.next !== undefined) insertByNext(sources, source);
      yield* rows;
      left -= rows.length;
      if (left <= 0) return;
    }
  }

  /**
   * A checkpoint and its ancestors, newest first. Rows added after the call are left out and a deletion meanwhile is an
   * error, so what is returned is one state, save for writes that were replaced in their slot meanwhile.
   */
  async *ancestors(thread: string, ns: string, id: string): AsyncGenerator<StoredCheckpoint> {
    const seen = new Set<string>();
    let era: number | undefined;
    let lastRow = 0;
    let next: string | undefined = id;
    while (next !== undefined) {
      const from: string = next;
      const page = await this.#turns.read(() => {
        const place = this.#reads.find(thread, ns);
        if (era === undefined) {
          if (place === undefined) return { rows: [], next: undefined };
          era = place.era;
          lastRow = (this.#lastRow.get() as number | null) ?? 0;
        }
        if (place === undefined || place.era !== era) throw deletedWhileRead(thread);
        return this.#lineage(place, from, seen, lastRow);
      });
      yield* page.rows;
      next = page.next;
    }
  }

  #lineage(
    place: Place,
    from: string,
    seen: Set<string>,
    lastRow: number,
  ): { rows: StoredCheckpoint[]; next: string | undefined } {
    const rows: StoredCheckpoint[] = [];
    let next: string | undefined = from;
    while (next !== undefined && rows.length < PAGE && !seen.has(next)) {
      seen.add(next);
      const row = this.#reads.checkpoint(place, packId(next), next, lastRow);
      if (row !== undefined) rows.push(row);
      next = row?.parent;
    }
    return { rows, next: next !== undefined && seen.has(next) ? undefined : next };
  }

  /** The sources that have anything, by ascending `next`. */
  async #sources(query: CheckpointQuery): Promise<Source[]> {
    const sources: Source[] = [];
    for (let afterNo = 0; ; ) {
      const places = await this.#turns.read(() => {
        const found = this.#reads.places(query.thread, query.ns, afterNo, PLACES);
        for (const place of found) sources.push(...this.#sourcesOf(place, query));
        return found;
      });
      if (places.length < PLACES) break;
      afterNo = places.at(-1)?.nsNo ?? 0;
      // A file may hold any number of threads: let others run between two pages of them.
      await new Promise((resolve) => setImmediate(resolve));
    }
    return sources.sort((a, b) => compareIds(a.next as string, b.next as string));
  }

  #sourcesOf(place: Place, query: CheckpointQuery): Source[] {
    const { id, before } = query;
    const sources: Source[] = [];
    for (const packed of [false, true]) {
      const source: Source = {
        place,
        packed,
        lower: packed ? FIRST_BLOB : "",
        upper: before === undefined ? (packed ? AFTER_UUIDS : FIRST_BLOB) : bound(packed, before),
        next: undefined,
      };
      if (id !== undefined) {
        const wanted = packId(id);
        if ((typeof wanted === "string") === packed) continue;
        // Nothing lies between an id and the same id with one more zero byte.
        source.lower = wanted;
        const after = typeof wanted === "string" ? `${wanted}\0` : Buffer.concat([wanted, Buffer.of(0)]);
        if (before === undefined || compareIds(id, before) < 0) source.upper = after;
      }
      source.next = this.#ids(source, source.lower, 1)[0];
      if (source.next !== undefined) sources.push(source);
    }
    return sources;
  }

  /** Reads the rows of a source down to what the next source has, and moves the source on. */
  #pageOf(source: Source, until: string | undefined, limit: number): Promise<StoredCheckpoint[]> {
    return this.#turns.read(() => {
      const lower = until === undefined ? source.lower : bound(source.packed, until);
      const rows: StoredCheckpoint[] = [];
      for (const id of this.#ids(source, lower, limit)) {
        const packed = packId(id);
        const row = this.#reads.checkpoint(source.place, packed, id);
        if (row !== undefined) rows.push(row);
        source.upper = packed;
      }
      source.next = rows.length === 0 ? undefined : this.#ids(source, source.lower, 1)[0];
      return rows;
    });
  }

  #ids(source: Source, lower: Packed, limit: number): string[] {
    const { nsNo, threadNo } = source.place;
    return (this.#page.all(nsNo, threadNo, source.upper, lower, limit) as Packed[]).map(unpackId);
  }
}

/** The bound that stands for `text` among ids of one kind. */
function bound(packed: boolean, text: string): Packed {
  return packed ? uuidBound(text) : text;
}
