/** What `jsonl(directory, options)` takes, checked. */

import { invalid, refuseUnknown, show } from "../options.ts";
import type { Files } from "./files.ts";

export interface JsonlBackendOptions {
  /**
   * Whether a commit waits until the disk has it. Default true: commits survive a loss of power. With false they survive
   * the death of the process.
   */
  readonly fsync?: boolean | undefined;
  /** A log smaller than this is not compacted. Bytes; default 1,000,000. */
  readonly compactBytesMin?: number | undefined;
  /** The file system; for tests. */
  readonly files?: Files | undefined;
}

const names = ["fsync", "compactBytesMin", "files"];

/** @throws {HoldfastError} INVALID_ARGUMENT; `more` are the names that a caller knows besides */
export function checkOptions(options: JsonlBackendOptions, more: readonly string[] = []): void {
  refuseUnknown("jsonl()", options, [...names, ...more]);
  const { fsync, compactBytesMin } = options;
  if (fsync !== undefined && typeof fsync !== "boolean") {
    throw invalid(`The option fsync of jsonl() is ${String(fsync)}, but must be true or false.`);
  }
  if (compactBytesMin !== undefined && !(compactBytesMin >= 0)) {
    throw invalid(
      `The option compactBytesMin of jsonl() is ${String(compactBytesMin)}, but must be a number of bytes from 0.`,
    );
  }
}

/** @throws {HoldfastError} INVALID_ARGUMENT where this is no path of a directory */
export function checkDirectory(directory: string): void {
  if (typeof directory === "string" && directory !== "" && !directory.includes("\0")) return;
  throw invalid(`The directory of jsonl() must be a path, not ${show(directory)}.`);
}
