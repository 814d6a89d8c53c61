/** Where a stored checkpoint is not what the official saver gives. */

import { isDeepStrictEqual } from "node:util";
import type { Checkpoint, CheckpointTuple } from "@langchain/langgraph-checkpoint";

/**
 * Everything in which `found` differs from `expected`, in words; empty where they are equal. `writes` are compared apart, see
 * {@link writeDifferences}.
 */
export function checkpointDifferences(expected: CheckpointTuple, found: CheckpointTuple): string[] {
  const differences: string[] = [];
  const differ = (what: string) => differences.push(`checkpoint ${expected.checkpoint.id}: ${what}`);
  const [wanted, got] = [expected.checkpoint, found.checkpoint];
  for (const channel of keysOf(wanted.channel_values, got.channel_values)) {
    if (!isDeepStrictEqual(wanted.channel_values[channel], got.channel_values[channel]))
      differ(`the value of channel ${JSON.stringify(channel)}`);
    else if (Object.hasOwn(wanted.channel_values, channel) !== Object.hasOwn(got.channel_values, channel))
      differ(`channel ${JSON.stringify(channel)} has a value on one side only`);
  }
  for (const field of keysOf(fieldsOf(wanted), fieldsOf(got))) {
    if (!isDeepStrictEqual(fieldsOf(wanted)[field], fieldsOf(got)[field])) differ(`its ${field}`);
  }
  if (!isDeepStrictEqual(expected.metadata, found.metadata)) differ("its metadata");
  const [parent, continued] = [expected, found].map((tuple) => tuple.parentConfig?.configurable?.["checkpoint_id"]);
  if (parent !== continued) differ(`its parent is ${String(continued)} instead of ${String(parent)}`);
  return differences;
}

/** The same of its pending writes, in their order. */
export function writeDifferences(expected: CheckpointTuple, found: CheckpointTuple): string[] {
  const [wanted, got] = [expected.pendingWrites ?? [], found.pendingWrites ?? []];
  const { id } = expected.checkpoint;
  if (wanted.length !== got.length)
    return [`checkpoint ${id}: ${got.length} pending writes instead of ${wanted.length}`];
  return wanted.flatMap((write, at) =>
    isDeepStrictEqual(write, got[at])
      ? []
      : [`checkpoint ${id}: pending write ${at + 1} (task ${write[0]}, channel ${JSON.stringify(write[1])})`],
  );
}

/** Whether everything of `part` stands in `whole`, in the same order: what an adoption leaves that was killed. */
export function isPartOf(part: CheckpointTuple, whole: CheckpointTuple): boolean {
  const writes = whole.pendingWrites ?? [];
  let at = 0;
  return (part.pendingWrites ?? []).every((write) => {
    while (at < writes.length && !isDeepStrictEqual(write, writes[at])) at += 1;
    at += 1;
    return at <= writes.length;
  });
}

/** Everything of a checkpoint but its values. Sends that old versions kept apart have moved into a channel. */
function fieldsOf(checkpoint: Checkpoint): Record<string, unknown> {
  const { channel_values: _, ...fields } = checkpoint;
  const { pending_sends: __, ...kept } = fields as Record<string, unknown>;
  return kept;
}

const keysOf = (a: object, b: object): Set<string> => new Set([...Object.keys(a), ...Object.keys(b)]);
