/** An effect's row as values: what stands in its body, and back. */

import { hash } from "node:crypto";
import type { Backend, Op } from "./backend.ts";
import type { OnFork } from "./fork-policy.ts";
import type { CheckpointMap } from "./lineage.ts";
import type { EffectRow, EffectStatus } from "./model.ts";
import { encoded, payload, type Serde, type Tree } from "./serde.ts";
import { type BlobCollector, inlineOrBlob, ValueReader } from "./values.ts";

/** A person's word on an unknown outcome. */
export type SettleDecision = { readonly done: unknown } | { readonly notDone: true } | { readonly giveUp: string };

export interface RecordedDecision {
  readonly decision: SettleDecision;
  readonly by: string;
  readonly at: Date;
  /** The attempt it speaks of. */
  readonly attempt: number;
}

/** A recorded effect, decoded. */
export interface EffectRecord {
  /** Also the idempotency key handed to the outside world. */
  readonly key: string;
  readonly name: string;
  /** The thread it was called in; "" when that was deleted (given keys only). */
  readonly thread: string;
  readonly ns: string;
  readonly checkpoint: string;
  readonly task: string;
  readonly status: EffectStatus;
  /** How often the body was begun. */
  readonly attempt: number;
  readonly owner: string;
  /** Whether the key was given by `key(input)`. */
  readonly keyed: boolean;
  readonly input: unknown;
  /** The outcome; only where status is "done". */
  readonly value: unknown;
  /** What the body threw; only where status is "failed". */
  readonly error: unknown;
  readonly decision: RecordedDecision | undefined;
  /** When the last attempt began, by the writer's clock; for people, never for decisions. */
  readonly begunAt: Date;
  readonly checkpoints: CheckpointMap;
  readonly links: EffectLinks;
}

/** What a record says of its place, its definition, and its relation to effects of other lineages (E7). */
export interface EffectLinks {
  /** The node that called it. */
  readonly node?: string;
  /** What its definition says about forks, where it says something. */
  readonly onFork?: OnFork;
  /** `onUnknown: "rerun"`: runs again in every lineage. */
  readonly rerun?: true;
  /** Its definition has a `simulate` hook. */
  readonly simulates?: true;
  /** Its outcome is that of the effect with this key; its body did not run. */
  readonly reusedFrom?: string;
  /** It was run in place of the effect with this key, which stays left behind. */
  readonly replaces?: string;
  /** Nothing happened: its outcome was made up for a branch that runs nothing. */
  readonly simulated?: true;
  /** It stands for the effect with this key in the thread that this one was forked from. */
  readonly copyOf?: string;
}

/** A record with the row it came from. */
export interface StoredEffect {
  readonly row: EffectRow;
  readonly record: EffectRecord;
}

export interface EffectContent {
  readonly input: Tree;
  readonly checkpoints: CheckpointMap;
  readonly begunAt: number;
  readonly links: EffectLinks;
  readonly value?: Tree | undefined;
  readonly error?: Tree | undefined;
  readonly decision?: Tree | undefined;
}

interface ParsedContent {
  readonly in: Tree;
  readonly map: Record<string, string>;
  readonly at: number;
  readonly ln?: EffectLinks;
  readonly out?: Tree;
  readonly err?: Tree;
  readonly dec?: Tree;
}

/** Effects with a given key outlive their thread, and so must what their rows refer to. */
export const blobScope = (row: { readonly thread: string; readonly ordinal: number }): string =>
  row.ordinal < 0 ? "" : row.thread;

/** Row text. `blobs` must have been given to the serde for every tree of the content; it gets what else is needed. */
export function effectBody(serde: Serde, content: EffectContent, blobs: BlobCollector): string {
  const part = (name: string, tree: Tree | undefined) =>
    tree === undefined ? "" : `,"${name}":${inlineOrBlob(serde.stringify(tree), blobs)}`;
  const links = JSON.stringify(content.links);
  return encoded(
    `{"at":${content.begunAt},"map":${JSON.stringify(Object.fromEntries(content.checkpoints))}` +
      `${links === "{}" ? "" : `,"ln":${links}`}` +
      `${part("in", content.input)}${part("out", content.value)}${part("err", content.error)}${part("dec", content.decision)}}`,
  );
}

export function effectOps(row: EffectRow, era: number, expect: number | null, blobs: BlobCollector): Op[] {
  const scope = blobScope(row);
  return [...blobs.ops(scope, scope === "" ? 0 : era), { kind: "effect", thread: row.thread, era, row, expect }];
}

export async function readEffect(backend: Backend, serde: Serde, row: EffectRow): Promise<StoredEffect> {
  const content = parseContent(serde, row);
  const reader = new ValueReader(backend, serde, blobScope(row));
  await reader.fetch([row.body], [content.in, content.out, content.err, content.dec]);
  const revive = (tree: Tree | undefined, what: string) =>
    tree === undefined ? undefined : reader.revive(tree, () => `${what} of effect ${row.name} (${row.key})`);
  const record: EffectRecord = {
    key: row.key,
    name: row.name,
    thread: row.thread,
    ns: row.ns,
    checkpoint: row.checkpoint,
    task: row.task,
    status: row.status,
    attempt: row.attempt,
    owner: row.owner,
    keyed: row.ordinal < 0,
    input: revive(content.in, "the input"),
    value: revive(content.out, "the outcome"),
    error: revive(content.err, "the error"),
    decision: revive(content.dec, "the decision") as RecordedDecision | undefined,
    begunAt: new Date(content.at),
    checkpoints: new Map(Object.entries(content.map)),
    links: content.ln ?? {},
  };
  return { row, record };
}

/** Where an effect was called and what it stands for, without reading its values. */
export function effectPlace(
  serde: Serde,
  row: EffectRow,
): { readonly checkpoints: CheckpointMap; readonly links: EffectLinks; readonly begunAt: number } {
  const { map, ln = {}, at } = parseContent(serde, row);
  return { checkpoints: new Map(Object.entries(map)), links: ln, begunAt: at };
}

const parseContent = (serde: Serde, row: EffectRow) => serde.parse(payload(row.body)) as unknown as ParsedContent;

/** Digest of a value's canonical text: the order of an object's keys does not matter. */
export function digestOf(serde: Serde, tree: Tree): string {
  return hash("sha256", JSON.stringify(sortKeys(JSON.parse(serde.stringify(tree)))), "hex").slice(0, 32);
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return ["[", ...value.map(sortKeys)];
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return ["{", ...entries.map(([key, inner]) => [key, sortKeys(inner)])];
}

/** 64 hex digits from the parts that make an effect's identity. */
export function effectKey(parts: readonly (string | number)[]): string {
  return hash("sha256", JSON.stringify(parts), "hex");
}
