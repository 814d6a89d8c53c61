/** What a group's operations ask of the store, read at once. */

import type { Commit, DecisionRow, EffectRow, Op, RunRow, WaitRow, WriteRow } from "holdfast";
import { threadDigest, type View } from "../memory/change.ts";
import { EFFECT_COLUMNS, readEffect, type StoredEffect } from "./effect-columns.ts";
import type { PgClient } from "./driver.ts";
import { readRun, RUN_COLUMNS, UNENDED } from "./run-columns.ts";
import { packId, quote, unpackText } from "./text.ts";
import { readWait, WAIT_COLUMNS } from "./wait-columns.ts";

type OpOf<K extends Op["kind"]> = Extract<Op, { kind: K }>;

const keyOf = (...parts: readonly (string | number)[]) => JSON.stringify(parts);

export class StoredView implements View {
  readonly #eras = new Map<string, number>();
  readonly #heads = new Map<string, string>();
  readonly #writes = new Map<string, WriteRow[]>();
  readonly #items = new Set<string>();
  readonly #effects = new Map<string, EffectRow>();
  readonly #waits = new Map<string, WaitRow>();
  readonly #decisions = new Map<string, number>();
  readonly #runs = new Map<string, RunRow>();
  readonly #runKeys = new Map<string, RunRow>();
  readonly #unended = new Map<string, RunRow[]>();

  /**
   * Inside a transaction that holds the locks of the threads: what it sees stays. Effects and waits are locked by it. Runs
   * are not: another thread's only refuses what has its id or key, and what is true now need not be true at the end.
   */
  static async read(client: PgClient, schema: string, group: readonly Commit[]): Promise<StoredView> {
    const view = new StoredView();
    const ops = group.flat();
    const reader = new Reader(client, quote(schema));
    await view.#readThreads(reader, ops);
    await view.#readHistory(reader, ops);
    await view.#readEffects(reader, ops);
    await view.#readWaits(reader, ops);
    await view.#readRuns(reader, ops);
    return view;
  }

  era(thread: string): number {
    return this.#eras.get(thread) ?? 0;
  }

  head(thread: string, ns: string): string | undefined {
    return this.#heads.get(keyOf(thread, ns));
  }

  taskWrites(thread: string, ns: string, checkpoint: string, task: string): readonly WriteRow[] {
    return this.#writes.get(keyOf(thread, ns, checkpoint, task)) ?? [];
  }

  hasItems(thread: string, list: string, start: number): boolean {
    return this.#items.has(keyOf(thread, list, start));
  }

  /** Storing one again is nothing, so nobody looks. */
  hasBlob(): boolean {
    return false;
  }

  effect(key: string): EffectRow | undefined {
    return this.#effects.get(key);
  }

  wait(id: string): WaitRow | undefined {
    return this.#waits.get(id);
  }

  /** Only its number is asked for. */
  lastDecision(thread: string): DecisionRow | undefined {
    const seq = this.#decisions.get(thread);
    return seq === undefined ? undefined : { thread, seq, wait: "", hash: "", body: "" };
  }

  /** Without its body, which nobody judges by. */
  run(id: string): RunRow | undefined {
    return this.#runs.get(id);
  }

  runWithKey(key: string): RunRow | undefined {
    return this.#runKeys.get(key);
  }

  /** As many of the first ones as may decide, and the one that is running. */
  unendedRuns(thread: string): readonly RunRow[] {
    return this.#unended.get(thread) ?? [];
  }

  async #readThreads(reader: Reader, ops: readonly Op[]): Promise<void> {
    const threads = [...new Set(ops.map((op) => op.thread))];
    const rows = await reader.rows<[at: string, era: number | null, last: number | null]>(
      threads.map((thread) => [packId(thread), threadDigest(thread)]),
      `select e.at, coalesce(t.era, s.era), (select max(d.seq) from @.holdfast_decisions d where d.thread_no = t.no)
        from given e left join @.holdfast_threads t on t.id = e.v->>0
        left join @.holdfast_tombstones s on s.digest = e.v->>1`,
    );
    for (const [at, era, last] of rows) {
      const thread = threads[Number(at) - 1] as string;
      if (era !== null) this.#eras.set(thread, era);
      if (last !== null) this.#decisions.set(thread, last);
    }
  }

  async #readHistory(reader: Reader, ops: readonly Op[]): Promise<void> {
    const puts = ops.filter((op): op is OpOf<"checkpoint"> => op.kind === "checkpoint");
    const heads = await reader.rows<[at: string, head: string]>(
      puts.map(({ thread, ns }) => [packId(thread), packId(ns)]),
      `select e.at, n.head from given e join @.holdfast_threads t on t.id = e.v->>0
        join @.holdfast_namespaces n on n.thread_no = t.no and n.ns = e.v->>1 where n.head is not null`,
    );
    for (const [at, head] of heads) {
      const { thread, ns } = puts[Number(at) - 1] as OpOf<"checkpoint">;
      this.#heads.set(keyOf(thread, ns), unpackText(head));
    }
    const calls = unique(
      ops.filter((op): op is OpOf<"writes"> => op.kind === "writes"),
      ({ thread, ns, checkpoint, task }) => keyOf(thread, ns, checkpoint, task),
    );
    const writes = await reader.rows<[at: string, slot: number, path: string, run: string | null, body: string]>(
      calls.map(({ thread, ns, checkpoint, task }) => [thread, ns, checkpoint, task].map(packId)),
      `select e.at, w.slot, w.path, w.run, w.body from given e join @.holdfast_threads t on t.id = e.v->>0
        join @.holdfast_namespaces n on n.thread_no = t.no and n.ns = e.v->>1
        join @.holdfast_writes w on w.ns_no = n.no and w.checkpoint = e.v->>2 and w.task = e.v->>3`,
    );
    for (const [at, slot, path, run, body] of writes) {
      const { thread, ns, checkpoint, task } = calls[Number(at) - 1] as OpOf<"writes">;
      const key = keyOf(thread, ns, checkpoint, task);
      const rows = this.#writes.get(key) ?? [];
      const by = run === null ? undefined : unpackText(run);
      rows.push({ checkpoint, task, slot, path: unpackText(path), run: by, body: unpackText(body) });
      this.#writes.set(key, rows);
    }
    const appended = ops.filter((op): op is OpOf<"items"> => op.kind === "items");
    const items = await reader.rows<[at: string]>(
      appended.map(({ thread, list, start }) => [packId(thread), packId(list), start]),
      `select e.at from given e join @.holdfast_threads t on t.id = e.v->>0
        join @.holdfast_items i on i.thread_no = t.no and i.list = e.v->>1 and i.start = (e.v->>2)::integer`,
    );
    for (const [at] of items) {
      const { thread, list, start } = appended[Number(at) - 1] as OpOf<"items">;
      this.#items.add(keyOf(thread, list, start));
    }
  }

  async #readEffects(reader: Reader, ops: readonly Op[]): Promise<void> {
    const changed = ops.filter((op): op is OpOf<"effect"> => op.kind === "effect");
    const rows = await reader.rows<StoredEffect>(
      changed.map((op) => [packId(op.row.key)]),
      `select ${EFFECT_COLUMNS} from given e join @.holdfast_effects f on f.key = e.v->>0
        left join @.holdfast_threads t on t.no = f.thread_no for update of f`,
    );
    for (const stored of rows) {
      const row = readEffect(stored);
      this.#effects.set(row.key, row);
    }
  }

  async #readWaits(reader: Reader, ops: readonly Op[]): Promise<void> {
    const ids = ops.flatMap((op) => (op.kind === "wait" ? [op.row.id] : op.kind === "endWait" ? [op.id] : []));
    type Stored = [id: string, thread: string, fields: string, body: string];
    const rows = await reader.rows<Stored>(
      ids.map((id) => [packId(id)]),
      `select w.id, t.id, ${WAIT_COLUMNS}::text, w.body from given e join @.holdfast_waits w on w.id = e.v->>0
        join @.holdfast_threads t on t.no = w.thread_no for update of w`,
    );
    for (const [id, thread, fields, body] of rows) {
      const row = readWait(id, unpackText(thread), JSON.parse(fields), body);
      this.#waits.set(row.id, row);
    }
  }

  async #readRuns(reader: Reader, ops: readonly Op[]): Promise<void> {
    const changed = ops.filter((op): op is OpOf<"run"> => op.kind === "run");
    const ids = ops.flatMap((op) => (op.kind === "run" ? [op.row.id] : op.kind === "fence" ? [op.run] : []));
    const keys = changed.flatMap(({ row, expect }) => (expect === null && row.key !== undefined ? [row.key] : []));
    const counts = new Map<string, number>();
    for (const { row } of changed) counts.set(row.thread, (counts.get(row.thread) ?? 0) + 1);
    const begun = new Set(changed.flatMap(({ row }) => (row.status === "running" ? [row.thread] : [])));
    const select = (from: string) => `select r.id, t.id, ${RUN_COLUMNS}::text from given e ${from}`;
    const found = async (given: readonly (readonly unknown[])[], from: string) => {
      const rows = await reader.rows<[id: string, thread: string, fields: string]>(given, select(from));
      return rows.map(([id, thread, fields]) => readRun(id, unpackText(thread), JSON.parse(fields), ""));
    };
    const byId = await found(
      ids.map((id) => [packId(id)]),
      "join @.holdfast_runs r on r.id = e.v->>0 join @.holdfast_threads t on t.no = r.thread_no",
    );
    const byKey = await found(
      keys.map((key) => [packId(key)]),
      "join @.holdfast_runs r on r.key = e.v->>0 join @.holdfast_threads t on t.no = r.thread_no",
    );
    // The group may end as many of the thread's runs as it changes; one more is in the way all the same.
    const unended = await found(
      [...begun].map((thread) => [packId(thread), (counts.get(thread) ?? 0) + 1]),
      `join @.holdfast_threads t on t.id = e.v->>0 cross join lateral (
          (select o.* from @.holdfast_runs o where o.thread_no = t.no and o.status in (${UNENDED})
            order by o.created_at, o.id limit (e.v->>1)::integer)
          union all (select o.* from @.holdfast_runs o where o.thread_no = t.no and o.status = 'running')
        ) r`,
    );
    for (const row of [...byId, ...byKey]) this.#runs.set(row.id, row);
    for (const row of byKey) if (row.key !== undefined) this.#runKeys.set(row.key, row);
    for (const row of unended) this.#unended.set(row.thread, [...(this.#unended.get(row.thread) ?? []), row]);
  }
}

class Reader {
  readonly #client: PgClient;
  readonly #schema: string;

  constructor(client: PgClient, schema: string) {
    this.#client = client;
    this.#schema = schema;
  }

  /** `sql` sees what is given as `given e(v, at)`, and the schema as `@`. */
  async rows<R extends readonly unknown[]>(given: readonly (readonly unknown[])[], sql: string): Promise<R[]> {
    if (given.length === 0) return [];
    const text = `with given (v, at) as (select * from jsonb_array_elements($1) with ordinality) ${sql}`;
    const { rows } = await this.#client.query<unknown[]>({
      text: text.replaceAll("@.", () => `${this.#schema}.`),
      values: [JSON.stringify(given)],
      rowMode: "array",
    });
    return rows as unknown as R[];
  }
}

function unique<T>(all: readonly T[], key: (one: T) => string): T[] {
  return [...new Map(all.map((one) => [key(one), one])).values()];
}
