/**
 * Rows in a directory: all of them in memory, each commit a line of `log.jsonl`, see `record.ts`.
 *
 * A group of commits is judged on the acknowledged state and on itself, written with one write and one fsync, and only
 * then applied to memory: a reader never sees what a crash could take back.
 */

import { join } from "node:path";
import { type Backend, type Commit, HoldfastError, isHoldfastError, type Verdict } from "holdfast";
import { weightOf } from "../memory/change.ts";
import { Draft, judge } from "../memory/judge.ts";
import { MemoryState } from "../memory/state.ts";
import { StateBackend } from "../memory/state-backend.ts";
import { acquireLock, type ProcessLock } from "../process-lock.ts";
import { withoutDeleted } from "./deletions.ts";
import { type Files, nodeFiles } from "./files.ts";
import { Log, logName } from "./log.ts";
import { checkDirectory, checkOptions, type JsonlBackendOptions } from "./options.ts";
import { checkHeader, type TornRecord } from "./read-log.ts";
import { encodeChanges } from "./record.ts";

const lockName = "lock";

/**
 * Opens a directory, creating it where it is missing. One opener at a time; the lock dies with its process.
 *
 * @throws {HoldfastError} LOCKED, CANNOT_OPEN, CORRUPT_DATA, UNSUPPORTED_FORMAT, FOREIGN_DATABASE, DRIVER_MISSING,
 * INVALID_ARGUMENT; the log is as it was in each case
 */
export async function jsonlBackend(directory: string, options: JsonlBackendOptions = {}): Promise<Backend> {
  checkDirectory(directory);
  checkOptions(options);
  const { fsync = true, compactBytesMin = 1_000_000, files = nodeFiles } = options;
  const lock = await openDirectory(directory, files);
  try {
    const state = new MemoryState();
    let logged = 0;
    const log = await Log.open({ directory, files, fsync, live: () => state.changes() }, (change) => {
      state.apply(change);
      logged += weightOf(change);
    });
    if (log.torn !== undefined) warnOfTorn(join(directory, logName), log.torn);
    const backend = new JsonlBackend(directory, { fsync, compactBytesMin, lock, state, log, logged });
    await backend.compactIfWorthwhile();
    return backend;
  } catch (error) {
    lock.release();
    throw cannotOpen(directory, error);
  }
}

async function openDirectory(directory: string, files: Files): Promise<ProcessLock> {
  let lock: ProcessLock | undefined;
  try {
    await files.makeDirectory(directory);
    // Before anything is put beside a file of somebody else.
    await checkHeader(files, join(directory, logName));
    lock = await acquireLock(join(directory, lockName));
  } catch (error) {
    throw cannotOpen(directory, error);
  }
  if (lock !== undefined) return lock;
  throw new HoldfastError(
    "LOCKED",
    `The directory ${directory} is open already, in this process or in another one. A JSONL directory has one writer: ` +
      "close the other one, give this one a directory of its own, or use SQLite, which several processes may share.",
    { details: { directory } },
  );
}

function cannotOpen(directory: string, cause: unknown): HoldfastError {
  if (isHoldfastError(cause) && cause.code !== "STORAGE_FAILED") return cause;
  return new HoldfastError(
    "CANNOT_OPEN",
    `The directory ${directory} cannot be opened (${cause instanceof Error ? cause.message : String(cause)}). ` +
      "It must be a directory, or a place where one can be created, that this process may read and write.",
    { cause, details: { directory } },
  );
}

function warnOfTorn(path: string, torn: TornRecord): void {
  process.emitWarning(
    `The last record of ${path} (line ${torn.line}, ${torn.bytes} bytes) was cut off by a crash and is dropped. ` +
      "It was never acknowledged; nothing else is lost.",
    { type: "HoldfastWarning", code: "HOLDFAST_TORN_RECORD" },
  );
}

interface Parts {
  readonly fsync: boolean;
  readonly compactBytesMin: number;
  readonly lock: ProcessLock;
  readonly state: MemoryState;
  readonly log: Log;
  /** What all changes in the log weigh, the outdated ones included. */
  readonly logged: number;
}

class JsonlBackend extends StateBackend {
  readonly #log: Log;
  readonly #lock: ProcessLock;
  readonly #compactBytesMin: number;
  #logged: number;
  /** Commits come one after the other; settles when the last one has. */
  #tail: Promise<void> = Promise.resolve();
  /** Commits and compactions that are not done when they return, and those that wait for them. */
  #underWay = 0;

  constructor(directory: string, parts: Parts) {
    const durability = parts.fsync ? "fsync" : "os";
    super(`jsonl:${directory}`, { processes: "one", durability, transactions: false }, parts.state);
    this.#log = parts.log;
    this.#lock = parts.lock;
    this.#compactBytesMin = parts.compactBytesMin;
    this.#logged = parts.logged;
  }

  commit(group: readonly Commit[]): Promise<readonly Verdict[]> | readonly Verdict[] {
    try {
      this.requireOpen();
      if (this.#underWay > 0) return this.#inTurn(() => this.#commit(group));
      const answer = this.#commit(group);
      // What is not done yet takes its turn too.
      return "then" in answer ? this.#inTurn(() => answer) : answer;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** After everything that is under way; whatever comes meanwhile waits for it. */
  async #inTurn<T>(action: () => Promise<T> | T): Promise<T> {
    this.#underWay += 1;
    const answer = this.#tail.then(action);
    this.#tail = answer.then(
      () => {},
      () => {},
    );
    try {
      return await answer;
    } finally {
      this.#underWay -= 1;
    }
  }

  /** Writes the log anew when more than half of it is outdated. Failing is no failure of a commit: the log is whole. */
  async compactIfWorthwhile(): Promise<void> {
    if (!this.#worthCompacting) return;
    try {
      await this.#log.rewrite(this.state.changes(), () => {});
    } catch (error) {
      process.emitWarning(`A log could not be compacted and keeps its size: ${String(error)}`, {
        type: "HoldfastWarning",
        code: "HOLDFAST_NOT_COMPACTED",
      });
    }
    // Also after a failure: the next attempt waits until the log has grown by as much again.
    this.#logged = this.state.weight;
  }

  get #worthCompacting(): boolean {
    return this.#log.size >= this.#compactBytesMin && this.#logged > 2 * this.state.weight;
  }

  protected async release(): Promise<void> {
    await this.#tail;
    try {
      await this.#log.close();
    } finally {
      this.#lock.release();
    }
  }

  #commit(group: readonly Commit[]): Promise<readonly Verdict[]> | readonly Verdict[] {
    const { draft, payloads, verdicts } = this.#judge(group);
    const apply = () => {
      for (const change of draft.changes) {
        this.state.apply(change);
        this.#logged += weightOf(change);
      }
    };
    if (draft.changes.some((change) => change.kind === "delete")) {
      // An appended deletion would leave the thread's lines in the file: writing the log anew is the commit.
      const rewritten = this.#log.rewrite(withoutDeleted(this.state.changes(), draft.changes), () => {
        apply();
        this.#logged = this.state.weight;
      });
      return rewritten.then(() => verdicts);
    }
    const appending = payloads.length > 0 ? this.#log.append(payloads) : undefined;
    if (appending === undefined) {
      apply();
      if (this.#worthCompacting) void this.#inTurn(() => this.compactIfWorthwhile());
      return verdicts;
    }
    return appending.then(async () => {
      apply();
      await this.compactIfWorthwhile();
      return verdicts;
    });
  }

  #judge(group: readonly Commit[]): { draft: Draft; payloads: Buffer[]; verdicts: Verdict[] } {
    const draft = new Draft(this.state);
    const payloads: Buffer[] = [];
    const verdicts = group.map((commit): Verdict => {
      const { verdict, changes } = judge(draft, commit);
      if (verdict !== undefined || changes.length === 0) return verdict;
      try {
        payloads.push(encodeChanges(changes));
      } catch (error) {
        if (isHoldfastError(error, "VALUE_TOO_LARGE")) return error;
        throw error;
      }
      for (const change of changes) draft.apply(change);
      return undefined;
    });
    return { draft, payloads, verdicts };
  }
}
