/** What `sqlite(file, options)` takes, checked. */

import { invalid, refuseUnknown, show, wholeMs } from "../options.ts";

/** What is safe once a commit is acknowledged: FULL also after a loss of power, NORMAL and OFF after a kill. */
export type Synchronous = "FULL" | "NORMAL" | "OFF";

export interface SqliteOptions {
  /**
   * - `"FULL"` (default): an fsync per commit; survives a loss of power.
   * - `"NORMAL"`: an fsync per WAL checkpoint; survives the death of the process. A loss of power may take the last
   *   commits, and leaves the file whole.
   * - `"OFF"`: no fsync; survives the death of the process. A loss of power may destroy the file.
   */
  readonly synchronous?: Synchronous | undefined;
  /**
   * How long a call waits for other connections that hold the write lock before it fails with BUSY; in milliseconds,
   * default 10,000. The event loop goes on meanwhile.
   */
  readonly busyTimeoutMs?: number | undefined;
  /**
   * How long a process that executes runs counts as alive after its last sign of life, in milliseconds, at least 1000,
   * default 10,000; others count as alive for as long as they exist. See the guide on runs.
   */
  readonly leaseMs?: number | undefined;
  /** Only reads: nothing is created or migrated, commits fail with NOT_SUPPORTED. Default false. */
  readonly readonly?: boolean | undefined;
}

export interface CheckedOptions {
  readonly synchronous: Synchronous;
  readonly busyTimeoutMs: number;
  readonly leaseMs: number;
  readonly readonly: boolean;
}

const LEVELS: readonly Synchronous[] = ["FULL", "NORMAL", "OFF"];
const NAMES = ["synchronous", "busyTimeoutMs", "leaseMs", "readonly"];
const BUSY_TIMEOUT_MS = 10_000;
const TIMER_MS_MAX = 2 ** 31 - 1;
const LEASE_MS = 10_000;

/** Refuses names that are no option; `more` are the names that a caller knows besides. */
export function checkNames(options: object, more: readonly string[] = []): void {
  refuseUnknown("sqlite()", options, [...NAMES, ...more]);
}

export function checkOptions(options: SqliteOptions): CheckedOptions {
  checkNames(options);
  const { synchronous = "FULL", busyTimeoutMs = BUSY_TIMEOUT_MS } = options;
  const { leaseMs = LEASE_MS, readonly = false } = options;
  if (!LEVELS.includes(synchronous)) {
    const near = LEVELS.find((level) => level === String(synchronous).toUpperCase());
    throw invalid(
      `The option synchronous is ${show(synchronous)}, but must be "FULL", "NORMAL" or "OFF".${near ? ` Did you mean "${near}"?` : ""}`,
    );
  }
  wholeMs("busyTimeoutMs", busyTimeoutMs, 0, TIMER_MS_MAX);
  wholeMs("leaseMs", leaseMs, 1000, TIMER_MS_MAX);
  if (typeof readonly !== "boolean")
    throw invalid(`The option readonly is ${show(readonly)}, but must be true or false.`);
  return { synchronous, busyTimeoutMs, leaseMs, readonly };
}

/** Refuses names that SQLite does not take for a file of that name. */
export function checkFile(file: string): void {
  if (typeof file !== "string") throw invalid(`The file of sqlite() must be a path, not ${show(file)}.`);
  if (file.trim() === ":memory:" || file.trim() === "") {
    throw invalid(
      `sqlite(${show(file)}) names no file, and a database in memory has no log that other connections could share. ` +
        'Give a path, or use memory() from "holdfast/checkpointers/memory".',
    );
  }
  if (file.startsWith("file:"))
    throw invalid(`sqlite(${show(file)}): give a path, not a URI: fileURLToPath(url) makes one.`);
  // better-sqlite3 trims names: it would open another file.
  if (file !== file.trim() || file.includes("\0"))
    throw invalid(`sqlite(${show(file)}): the path has a space at an end, or a NUL.`);
}
