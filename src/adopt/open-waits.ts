/**
 * The questions that an adopted thread waits for, as waits of ours.
 *
 * A task of the newest root checkpoint that has paused and neither finished nor failed waits. Where the question was asked in
 * a subgraph, its newest checkpoint holds the same pause, and the wait belongs there.
 */

import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { INTERRUPT, isInterruptId, NULL_TASK_ID, RESUME, SPECIAL_WRITES, TASK_ERROR } from "../langgraph.ts";
import { originOf } from "../thread-origin.ts";
import { type Interrupt, ThreadWaits } from "../thread-waits.ts";
import type { SourcePlace } from "./source.ts";
import type { ThreadTarget } from "./thread-target.ts";

/** The newest checkpoint of a namespace. */
export interface Head {
  readonly place: SourcePlace;
  readonly tuple: CheckpointTuple;
}

interface Pause {
  readonly head: Head;
  readonly task: string;
  readonly interrupt: Interrupt;
}

/** Ids of the questions that are open, with where they were asked; and how many pauses have no id to answer them by. */
export function openPauses(heads: ReadonlyMap<string, Head>): { readonly pauses: Pause[]; readonly nameless: number } {
  const root = heads.get("");
  if (root === undefined || hasAnswerToTake(root.tuple)) return { pauses: [], nameless: 0 };
  const inner = [...heads.values()].filter(({ place }) => place.ns !== "");
  inner.sort((a, b) => b.place.ns.length - a.place.ns.length);
  let nameless = 0;
  const pauses = pausesOf(root).flatMap((pause) => {
    const { id } = pause.interrupt;
    if (id === undefined || !isInterruptId(id)) {
      nameless += 1;
      return [];
    }
    const asked = inner.flatMap(pausesOf).find(({ interrupt }) => interrupt.id === id);
    return [asked ?? pause];
  });
  return { pauses, nameless };
}

/** Opens the waits that are not there yet. Durable when it resolves. @throws WAIT_CONFLICT */
export async function openWaits(target: ThreadTarget, heads: ReadonlyMap<string, Head>): Promise<void> {
  const root = heads.get("");
  for (const { head, task, interrupt } of openPauses(heads).pauses) {
    const { ns, id } = head.place;
    const asked = Date.parse(head.tuple.checkpoint.ts);
    const ledger = target.target.waitsAt(Number.isFinite(asked) ? asked : Date.now());
    const place = { thread: target.thread, ns, checkpoint: id };
    const at = { config: {}, origin: originOf(root?.tuple), place, era: target.era, task };
    await ledger.commit(new ThreadWaits().pause(ledger, at, [[INTERRUPT, [interrupt]]]));
  }
}

function pausesOf(head: Head): Pause[] {
  const { pendingWrites = [] } = head.tuple;
  const over = new Set(
    pendingWrites.filter(([, channel]) => channel === TASK_ERROR || !SPECIAL_WRITES.has(channel)).map(([task]) => task),
  );
  return pendingWrites.flatMap(([task, channel, value]) =>
    channel === INTERRUPT && !over.has(task) && Array.isArray(value)
      ? (value as Interrupt[]).map((interrupt) => ({ head, task, interrupt }))
      : [],
  );
}

/** An answer without a name that no question has taken: the thread goes on with it, and waits for nobody. */
const hasAnswerToTake = ({ pendingWrites = [] }: CheckpointTuple): boolean =>
  pendingWrites.some(([task, channel]) => task === NULL_TASK_ID && channel === RESUME);
