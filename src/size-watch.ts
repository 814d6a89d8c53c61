/** Tells when a thread's checkpoint has become larger than it should be, and which channel makes it so. */

import type { Forms } from "./checkpoint-row.ts";
import { channels, type LargeCheckpointEvent } from "./events.ts";

/** Characters of all channel values from which a checkpoint counts as large. */
export const LARGE_CHARS = 1_000_000;

/** Places remembered as told; beyond that the oldest may be told again. */
const TOLD_MAX = 4096;

export class SizeWatch {
  readonly #told = new Set<string>();
  readonly #warned = new Set<string>();

  /**
   * Publishes {@link LargeCheckpointEvent} once for each thread and channel that is the largest of a large checkpoint, and
   * emits the process warning HOLDFAST_LARGE_CHECKPOINT once for each channel: a service has many threads of one graph.
   */
  look(place: { readonly thread: string; readonly ns: string; readonly checkpoint: string }, forms: Forms): void {
    let [channel, channelBytes, bytes] = ["", -1, 0];
    for (const [name, { size }] of forms) {
      // The input of a run: it stands in the channels it was meant for from the next checkpoint on.
      if (name === "__start__") continue;
      bytes += size;
      if (size > channelBytes) [channel, channelBytes] = [name, size];
    }
    if (bytes < LARGE_CHARS) return;
    if (this.#has(this.#told, JSON.stringify([place.thread, channel]))) return;
    const event: LargeCheckpointEvent = { ...place, channel, channelBytes, bytes };
    channels.largeCheckpoint.publish(event);
    if (this.#has(this.#warned, channel)) return;
    process.emitWarning(
      `Thread ${JSON.stringify(place.thread)} has a checkpoint of ${bytes} characters, ${channelBytes} of them in channel ${JSON.stringify(channel)}. ` +
        "It is stored, but every load reads it: keep large documents outside the state and their names in it, or trim the channel.",
      { type: "HoldfastWarning", code: "HOLDFAST_LARGE_CHECKPOINT" },
    );
  }

  #has(known: Set<string>, entry: string): boolean {
    if (known.has(entry)) return true;
    if (known.size >= TOLD_MAX) known.delete(known.values().next().value as string);
    known.add(entry);
    return false;
  }
}
