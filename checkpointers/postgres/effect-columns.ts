/** Columns of effects. */

import type { EffectRow, EffectStatus } from "holdfast";
import { unpackText } from "./text.ts";

/** The columns of {@link EFFECT_COLUMNS}, in order. */
export type StoredEffect = [
  key: string,
  thread: string | null,
  ns: string,
  checkpoint: string,
  task: string,
  name: string,
  digest: string,
  ordinal: number,
  status: string,
  rev: number,
  attempt: number,
  owner: string,
  body: string,
];

/** Of `holdfast_effects f left join holdfast_threads t on t.no = f.thread_no`. */
export const EFFECT_COLUMNS = /* sql */ `
  f.key, t.id, f.ns, f.checkpoint, f.task, f.name, f.digest, f.ordinal, f.status, f.rev, f.attempt, f.owner, f.body`;

export function readEffect(stored: StoredEffect): EffectRow {
  const [key, thread, ns, checkpoint, task, name, digest, ordinal, status, rev, attempt, owner, body] = stored;
  return {
    key: unpackText(key),
    thread: thread === null ? "" : unpackText(thread),
    ns: unpackText(ns),
    checkpoint: unpackText(checkpoint),
    task: unpackText(task),
    name: unpackText(name),
    digest: unpackText(digest),
    ordinal,
    status: status as EffectStatus,
    rev,
    attempt,
    owner: unpackText(owner),
    body: unpackText(body),
  };
}
