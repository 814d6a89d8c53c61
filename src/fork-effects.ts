/** What of a thread's effects a fork leaves behind, and what a new thread takes along of it. */

import type { Op } from "./backend.ts";
import type { Checkpointer } from "./checkpointer.ts";
import { type EffectContent, effectBody, effectKey, effectOps, type StoredEffect } from "./effect-record.ts";
import type { ForkPlan } from "./fork-plan.ts";
import { type LeftBehind, leftBehind } from "./fork-policy.ts";
import type { EffectRow } from "./model.ts";

/** Seen from the branch that is planned. */
export async function leftBy({ backend, effectLedger }: Checkpointer, plan: ForkPlan): Promise<LeftBehind> {
  const rows = await backend.effects({ thread: plan.request.thread });
  return leftBehind(effectLedger.serde, rows, plan.lineage);
}

/**
 * Copies of what the new thread leaves behind in the old one, so that it is neither done twice nor forgotten, also when the
 * old thread is deleted. They stand at checkpoints that the new thread does not have, so they count as left behind there.
 */
export async function copiedEffects(saver: Checkpointer, plan: ForkPlan, to: string, era: number): Promise<Op[]> {
  const ops: Op[] = [];
  const { unclaimed } = await leftBy(saver, plan);
  for (const { row } of unclaimed) {
    const stored = await saver.effectLedger.findKey(row.key);
    if (stored !== undefined) ops.push(...copyOf(saver, stored, to, era));
  }
  return ops;
}

function copyOf({ effectLedger }: Checkpointer, { row, record }: StoredEffect, to: string, era: number): Op[] {
  const { serde } = effectLedger;
  const blobs = effectLedger.blobs();
  const tree = (value: unknown) =>
    value === undefined ? undefined : serde.toTree(value, blobs, () => `effect ${row.name} (${row.key})`);
  const { links, status } = record;
  const content: EffectContent = {
    input: serde.toTree(record.input, blobs, () => `the input of effect ${row.name} (${row.key})`),
    checkpoints: record.checkpoints,
    begunAt: record.begunAt.getTime(),
    links: {
      ...links,
      copyOf: row.key,
      ...(links.replaces === undefined ? {} : { replaces: keyIn(to, links.replaces) }),
    },
    value: status === "done" ? serde.toTree(record.value, blobs, () => `the outcome of effect ${row.name}`) : undefined,
    error: tree(record.error),
    decision: tree(record.decision),
  };
  const copy: EffectRow = {
    ...row,
    thread: to,
    key: keyIn(to, row.key),
    rev: 1,
    body: effectBody(serde, content, blobs),
  };
  return effectOps(copy, era, null, blobs);
}

/** The key of an effect's copy in another thread. */
const keyIn = (thread: string, key: string): string => effectKey(["copy", thread, key]);
