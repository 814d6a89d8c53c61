/** What came of an adoption, thread by thread and in sum. */

/**
 * - `adopted` its checkpoints were taken over, and everything reads back equal
 * - `equal` everything was there already, and equal
 * - `different` it was taken over, and something does not read back equal: `differences` says what
 * - `damaged` the official saver itself cannot read a checkpoint of it; the others were taken over
 * - `refused` the target holds something else under this thread id; nothing was written for it
 * - `failed` it could not be stored
 */
export type AdoptStatus = "adopted" | "equal" | "different" | "damaged" | "refused" | "failed";

export interface AdoptedThread {
  readonly thread: string;
  readonly status: AdoptStatus;
  /** Checkpoints of the source in all namespaces, and their pending writes. */
  readonly checkpoints: number;
  readonly writes: number;
  /** Open questions. */
  readonly waits: number;
  /** Bytes in the source. */
  readonly bytes: number;
  /** What is not equal, or why it was refused or failed. Empty where all is well. */
  readonly differences: readonly string[];
  /** What the official saver has lost or gives wrongly, and what was left out for a reason. */
  readonly notes: readonly string[];
}

export interface AdoptReport {
  readonly source: string;
  /** Class and version of the saver that the result was compared with. */
  readonly comparedWith: string;
  readonly target: string;
  /** In the order of their ids. */
  readonly threads: readonly AdoptedThread[];
  readonly totals: {
    readonly threads: number;
    readonly checkpoints: number;
    readonly writes: number;
    readonly waits: number;
    readonly bytes: number;
    readonly differences: number;
  };
  /** Of the database as a whole. */
  readonly notes: readonly string[];
  /** Whether every thread is `adopted` or `equal`. */
  readonly complete: boolean;
}

export interface AdoptProgress {
  readonly thread: string;
  /** Place of the thread, from 1, and how many there are. */
  readonly number: number;
  readonly threads: number;
  readonly step: "copying" | "comparing" | "done";
  /** Checkpoints of the thread done in this step. */
  readonly done: number;
  readonly checkpoints: number;
  /** With the step "done". */
  readonly result?: AdoptedThread;
}

/** The report of the whole from those of its threads. */
export function reportOf(
  source: { readonly name: string; readonly saver: string },
  target: string,
  threads: readonly AdoptedThread[],
  notes: readonly string[],
): AdoptReport {
  const sum = (of: (thread: AdoptedThread) => number) => threads.reduce((total, thread) => total + of(thread), 0);
  return {
    source: source.name,
    comparedWith: source.saver,
    target,
    threads,
    totals: {
      threads: threads.length,
      checkpoints: sum(({ checkpoints }) => checkpoints),
      writes: sum(({ writes }) => writes),
      waits: sum(({ waits }) => waits),
      bytes: sum(({ bytes }) => bytes),
      differences: sum(({ differences }) => differences.length),
    },
    notes,
    complete: threads.every(({ status }) => status === "adopted" || status === "equal"),
  };
}
