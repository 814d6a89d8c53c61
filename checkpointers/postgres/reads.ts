/** Reads of single things, each in one statement and therefore of one state. */

import type { CheckpointRow, EffectQuery, EffectRow, ItemsRow, Loaded, WaitRow, WriteRow } from "holdfast";
import { threadDigest } from "../memory/change.ts";
import type { Connections, Row } from "./connections.ts";
import { EFFECT_COLUMNS, readEffect, type StoredEffect } from "./effect-columns.ts";
import { packId, quote, unpackText } from "./text.ts";
import { readWait } from "./wait-columns.ts";

/** A row of `holdfast_load_1`. */
interface LoadRow extends Row {
  readonly kind: "era" | "checkpoint" | "write" | "wait";
  readonly id: string | null;
  readonly a: string | null;
  readonly b: string | null;
  readonly n: number | null;
  readonly body: string;
}

interface ItemRow extends Row {
  readonly list: string;
  readonly start: number | null;
  readonly count: number;
  readonly body: string;
  readonly extended: boolean;
}

interface BlobRow extends Row {
  readonly hash: string;
  readonly text: string | null;
  readonly bytes: Buffer | null;
}

export class Reads {
  readonly #connections: Connections;
  readonly #schema: string;

  constructor(connections: Connections, schema: string) {
    this.#connections = connections;
    this.#schema = quote(schema);
  }

  async load(thread: string, ns: string, id: string | undefined): Promise<Loaded> {
    const rows = await this.#connections.read<LoadRow>(
      `select kind, id, a, b, n, body from ${this.#schema}.holdfast_load_1($1, $2, $3, $4)`,
      [packId(thread), packId(ns), id === undefined ? null : packId(id), threadDigest(thread)],
    );
    let era = 0;
    let head: string | undefined;
    let checkpoint: CheckpointRow | undefined;
    const writes: WriteRow[] = [];
    const waits: WaitRow[] = [];
    for (const row of rows) {
      switch (row.kind) {
        case "era":
          era = row.n ?? 0;
          head = optional(row.id);
          break;
        case "checkpoint":
          checkpoint = checkpointRow(thread, ns, row);
          break;
        case "write":
          writes.push(writeRow(checkpoint?.id ?? "", row));
          break;
        case "wait":
          waits.push(readWait(row.id ?? "", thread, JSON.parse(row.a ?? "[]"), row.body));
          break;
        default: {
          const never: never = row.kind;
          return never;
        }
      }
    }
    return { era, head, checkpoint, writes, waits };
  }

  /** From the list back to its first base, then the rows of all of them in the order of the items. */
  async items(thread: string, list: string, length: number): Promise<{ rows: ItemsRow[]; extended: boolean }> {
    const s = this.#schema;
    const rows = await this.#connections.read<ItemRow>(
      `with recursive thread as (select no from ${s}.holdfast_threads where id = $1),
        chain (depth, list, upto) as (
          select 0, $2::text collate "C", $3::integer from thread
          union all
          select c.depth + 1, l.base, least(c.upto, l.base_length)
          from chain c join ${s}.holdfast_lists l on l.thread_no = (select no from thread) and l.list = c.list
        ),
        longer as (
          select exists (select from ${s}.holdfast_items i
              where i.thread_no = (select no from thread) and i.list = $2 and i.start + i.count > $3
                and i.start >= (select max(j.start) from ${s}.holdfast_items j where j.thread_no = i.thread_no and j.list = $2))
            or exists (select from ${s}.holdfast_lists l
              where l.thread_no = (select no from thread) and l.list = $2 and l.base_length > $3) as extended
        )
        select c.list, i.start, i.count, i.body, longer.extended
        from longer left join (chain c join ${s}.holdfast_items i
          on i.thread_no = (select no from thread) and i.list = c.list and i.start < c.upto) on true
        order by c.depth desc, i.start`,
      [packId(thread), packId(list), length],
    );
    return {
      rows: rows
        .filter((row) => row.start !== null)
        .map((row) => ({
          list: unpackText(row.list),
          start: row.start as number,
          count: row.count,
          body: unpackText(row.body),
        })),
      extended: rows[0]?.extended ?? false,
    };
  }

  async blobs(thread: string, hashes: readonly string[]): Promise<Map<string, string | Uint8Array>> {
    const found = new Map<string, string | Uint8Array>();
    this.#connections.requireOpen();
    if (hashes.length === 0) return found;
    const rows = await this.#connections.read<BlobRow>(
      `select b.hash, b.text, b.bytes from ${this.#schema}.holdfast_threads t
        join ${this.#schema}.holdfast_blobs b on b.thread_no = t.no and b.hash = any($2::text[])
        where t.id = $1`,
      [packId(thread), hashes.map(packId)],
    );
    for (const { hash, text, bytes } of rows) {
      // A plain Uint8Array as on every other backend, not a Buffer.
      const data = bytes === null ? unpackText(text ?? "") : new Uint8Array(bytes);
      found.set(unpackText(hash), data);
    }
    return found;
  }

  async effects(query: EffectQuery): Promise<EffectRow[]> {
    const { where, values } = effectFilter(query, this.#schema);
    const rows = await this.#connections.readArrays<StoredEffect>(
      `select ${EFFECT_COLUMNS} from ${this.#schema}.holdfast_effects f
        left join ${this.#schema}.holdfast_threads t on t.no = f.thread_no where ${where}`,
      values,
    );
    return rows.map(readEffect);
  }
}

function effectFilter(query: EffectQuery, schema: string): { readonly where: string; readonly values: string[] } {
  if ("key" in query) return { where: "f.key = $1", values: [packId(query.key)] };
  const ofThread =
    query.thread === ""
      ? "f.thread_no is null"
      : `f.thread_no = (select no from ${schema}.holdfast_threads where id = $1)`;
  // Of deleted threads, too, the parameter stands in the statement: its type must be known.
  const thread = `$1::text is not null and ${ofThread}`;
  if ("digest" in query) {
    return {
      where: `${thread} and f.digest = $2 and f.name = $3`,
      values: [query.thread, query.digest, query.name].map(packId),
    };
  }
  if (query.task === undefined) return { where: thread, values: [packId(query.thread)] };
  return { where: `${thread} and f.task = $2`, values: [query.thread, query.task].map(packId) };
}

export function checkpointRow(
  thread: string,
  ns: string,
  row: { readonly id: string | null; readonly a: string | null; readonly b: string | null; readonly body: string },
): CheckpointRow {
  return {
    thread,
    ns,
    id: unpackText(row.id ?? ""),
    parent: optional(row.a),
    source: unpackText(row.b ?? ""),
    body: unpackText(row.body),
  };
}

/** `id` is the task, `a` the path, `b` the run, `n` the slot. */
export function writeRow(
  checkpoint: string,
  row: {
    readonly id: string | null;
    readonly a: string | null;
    readonly b: string | null;
    readonly n: number | null;
    readonly body: string;
  },
): WriteRow {
  return {
    checkpoint,
    task: unpackText(row.id ?? ""),
    path: unpackText(row.a ?? ""),
    slot: row.n ?? 0,
    run: optional(row.b),
    body: unpackText(row.body),
  };
}

function optional(text: string | null): string | undefined {
  return text === null ? undefined : unpackText(text);
}
