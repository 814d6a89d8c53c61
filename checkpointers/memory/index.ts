/** `holdfast/checkpointers/memory`: a checkpointer in this process's memory. */

import { Checkpointer, type CheckpointerOptions } from "holdfast";
import { memoryBackend } from "./backend.ts";

export { type MemoryBackendOptions, memoryBackend } from "./backend.ts";
export { MemoryState } from "./state.ts";

/** A checkpointer whose state ends with the process. For tests, and for graphs that need no durability. */
export function memory(options?: CheckpointerOptions): Checkpointer {
  return new Checkpointer(memoryBackend(), options);
}
