/** `holdfast/checkpointers/jsonl`: a checkpointer in a directory, readable with any text tool. */

import { Checkpointer, type CheckpointerOptions } from "holdfast";
import { CHECKPOINTER_OPTIONS } from "../options.ts";
import { jsonlBackend } from "./backend.ts";
import { checkOptions, type JsonlBackendOptions } from "./options.ts";

export { jsonlBackend } from "./backend.ts";
export type { JsonlBackendOptions } from "./options.ts";

export type JsonlOptions = JsonlBackendOptions & CheckpointerOptions;

/**
 * Opens a directory, creating it where it is missing, for one process at a time.
 *
 * All rows are kept in memory: meant for what fits there. A commit that was acknowledged survives SIGKILL, and with
 * `fsync` (the default) a loss of power.
 *
 * @throws {HoldfastError} LOCKED, CANNOT_OPEN, CORRUPT_DATA, UNSUPPORTED_FORMAT, FOREIGN_DATABASE, DRIVER_MISSING,
 * INVALID_ARGUMENT
 */
export async function jsonl(directory: string, options: JsonlOptions = {}): Promise<Checkpointer> {
  checkOptions(options, CHECKPOINTER_OPTIONS);
  const { fsync, compactBytesMin, files, ...checkpointer } = options;
  return new Checkpointer(await jsonlBackend(directory, { fsync, compactBytesMin, files }), checkpointer);
}
