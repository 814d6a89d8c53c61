/** Rows in an SQLite file, shared by any number of processes of one machine. */

import type { Statement } from "better-sqlite3";
import {
  type Backend,
  type Capabilities,
  type CheckpointQuery,
  type Commit,
  channels,
  type DecisionRow,
  type DueRunsQuery,
  type EffectQuery,
  type EffectRow,
  HoldfastError,
  type ItemsRow,
  type Loaded,
  type RunQuery,
  type RunRow,
  type StoredCheckpoint,
  type Verdict,
  type WaitQuery,
  type WaitRow,
} from "holdfast";
import { type Heartbeat, SharedHeartbeat } from "../heartbeat-thread.ts";
import { mayWake } from "../may-wake.ts";
import type { SqliteDatabase } from "../sqlite-driver.ts";
import { Committer } from "./commit.ts";
import { storageError } from "./failure.ts";
import { History } from "./history.ts";
import { openDatabase } from "./open.ts";
import { type CheckedOptions, checkFile, checkOptions, type SqliteOptions } from "./options.ts";
import { directoryOf, observer, Owner, type Ownership } from "./owners.ts";
import { Reads } from "./reads.ts";
import { RunReads } from "./run-reads.ts";
import { callBody, type TransactionBody } from "./transaction.ts";
import { type AroundCommit, Turns, untilFree } from "./turns.ts";
import { WaitReads } from "./wait-reads.ts";
import { WakeFile } from "./wake-file.ts";

/**
 * Opens or creates a database file. Its log (`-wal`, `-shm`) and a directory of lock files (`-owners`) stand beside it.
 *
 * @throws {HoldfastError} INVALID_ARGUMENT, DRIVER_MISSING, CANNOT_OPEN, FOREIGN_DATABASE, UNSUPPORTED_FORMAT, BUSY,
 * STORAGE_FAILED, CORRUPT_DATA
 */
export async function sqliteBackend(file: string, options: SqliteOptions = {}): Promise<Backend> {
  checkFile(file);
  const checked = checkOptions(options);
  const { db, path } = await openDatabase(file, checked);
  let owners: Ownership | undefined;
  try {
    const ownership = checked.readonly ? observer(path) : await Owner.register(path);
    owners = ownership;
    // Preparing statements reads the schema, and so may have to wait.
    return await untilFree(
      path,
      checked.busyTimeoutMs,
      () => new SqliteBackend(`sqlite:${file}`, path, db, checked, ownership),
    );
  } catch (error) {
    db.close();
    owners?.release();
    throw storageError(path, error);
  }
}

class SqliteBackend implements Backend {
  readonly name: string;
  readonly capabilities: Capabilities;
  readonly owner: string;
  readonly #db: SqliteDatabase;
  readonly #readonly: boolean;
  readonly #owners: Ownership;
  readonly #turns: Turns;
  readonly #committer: Committer;
  readonly #reads: Reads;
  readonly #history: History;
  readonly #waits: WaitReads;
  readonly #runs: RunReads;
  readonly #clock: Statement;
  readonly #around: AroundCommit;
  readonly #heartbeat: SharedHeartbeat;
  readonly #wakeFile: WakeFile;
  #closing: Promise<void> | undefined;

  constructor(name: string, path: string, db: SqliteDatabase, options: CheckedOptions, owners: Ownership) {
    this.name = name;
    this.capabilities = {
      processes: "many",
      durability: options.synchronous === "FULL" ? "fsync" : "os",
      transactions: true,
    };
    this.owner = owners.owner;
    this.#db = db;
    this.#readonly = options.readonly;
    this.#owners = owners;
    this.#turns = new Turns(db, name, options.busyTimeoutMs);
    this.#committer = new Committer(db);
    this.#heartbeat = new SharedHeartbeat(() => owners.heartbeat(options.leaseMs));
    this.#wakeFile = new WakeFile(name, directoryOf(path));
    this.#around = { before: publishInside, after: () => this.#committer.committed() };
    this.#waits = new WaitReads(db, this.#turns);
    this.#runs = new RunReads(db);
    // In the versions of all drivers, and exact: SQLite itself counts milliseconds.
    this.#clock = db.prepare("select cast(round((julianday('now') - 2440587.5) * 86400000) as integer)").pluck();
    this.#reads = new Reads(db, this.#waits);
    this.#history = new History(db, this.#turns, this.#reads);
  }

  commit(group: readonly Commit[]): Promise<readonly Verdict[]> | readonly Verdict[] {
    let careful = false;
    try {
      this.#requireWritable();
      const answer = this.#turns.write(() => {
        const verdicts = this.#committer.apply(group, careful);
        careful = true;
        return verdicts;
      }, this.#around);
      if (!(answer instanceof Promise)) return this.#told(group, answer);
      return answer.then(
        (verdicts) => this.#told(group, verdicts),
        (error: unknown) => {
          throw storageError(this.name, error);
        },
      );
    } catch (error) {
      return Promise.reject(storageError(this.name, error));
    }
  }

  load(thread: string, ns: string, id: string | undefined): Promise<Loaded> {
    return this.#turns.read(() => this.#reads.load(thread, ns, id));
  }

  checkpoints(query: CheckpointQuery): AsyncIterable<StoredCheckpoint> {
    return this.#history.checkpoints(query);
  }

  ancestors(thread: string, ns: string, id: string): AsyncIterable<StoredCheckpoint> {
    return this.#history.ancestors(thread, ns, id);
  }

  items(thread: string, list: string, length: number): Promise<{ rows: ItemsRow[]; extended: boolean }> {
    return this.#turns.read(() => this.#reads.items(thread, list, length));
  }

  blobs(thread: string, hashes: readonly string[]): Promise<ReadonlyMap<string, string | Uint8Array>> {
    return this.#turns.read(() => this.#reads.blobs(thread, hashes));
  }

  effects(query: EffectQuery): Promise<readonly EffectRow[]> {
    return this.#turns.read(() => this.#reads.effects(query));
  }

  waits(query: WaitQuery): Promise<readonly WaitRow[]> {
    return this.#turns.read(() => this.#waits.waits(query));
  }

  decisions(query: { readonly thread?: string | undefined }): AsyncIterable<DecisionRow> {
    return this.#waits.decisions(query);
  }

  decision(thread: string, seq: number | undefined): Promise<DecisionRow | undefined> {
    return this.#turns.read(() => this.#waits.decision(thread, seq));
  }

  runs(query: RunQuery): Promise<readonly RunRow[]> {
    return this.#turns.read(() => this.#runs.runs(query));
  }

  dueRuns(query: DueRunsQuery): Promise<readonly RunRow[]> {
    return this.#turns.read(() => this.#runs.dueRuns(query));
  }

  nextDue(query: { readonly graphs?: readonly string[] | undefined }): Promise<number | undefined> {
    return this.#turns.read(() => this.#runs.nextDue(query.graphs));
  }

  /** By SQLite, which asks the operating system: a `Date` that this process has replaced does no harm. */
  now(): number {
    this.#turns.requireOpen();
    return this.#clock.get() as number;
  }

  /** Tells others of what they may wait for. */
  #told(group: readonly Commit[], verdicts: readonly Verdict[]): readonly Verdict[] {
    const now = () => this.now();
    if (group.some((commit, i) => verdicts[i] === undefined && commit.some((op) => mayWake(op, now))))
      this.#wakeFile.touch();
    return verdicts;
  }

  watch(wake: () => void): Promise<{ close(): Promise<void> }> {
    return this.#wakeFile.watch(wake);
  }

  async heartbeat(): Promise<Heartbeat> {
    this.#turns.requireOpen();
    return this.#heartbeat.hold();
  }

  async ownerAlive(owner: string): Promise<boolean> {
    this.#turns.requireOpen();
    return this.#owners.alive(owner);
  }

  /** `tx` is the better-sqlite3 database. Use it only inside `body`. */
  async transaction<T>(body: TransactionBody<T>): Promise<T> {
    this.#requireWritable();
    let bodyFailed = false;
    let done: Commit = [];
    try {
      const answer = await this.#turns.write(() => {
        bodyFailed = true;
        const { ops, value } = callBody(this.#db, body);
        bodyFailed = false;
        const verdict = this.#committer.applyAlone(ops);
        if (verdict !== undefined) throw verdict;
        done = ops;
        return value;
      }, this.#around);
      this.#told([done], [undefined]);
      return answer;
    } catch (error) {
      throw bodyFailed ? error : storageError(this.name, error);
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#wakeFile.close();
    await this.#turns.close();
    await this.#heartbeat.end();
    try {
      // The last connection does this by closing; the others leave a short log behind.
      if (!this.#readonly) this.#db.pragma("wal_checkpoint(passive)");
    } catch {
      // The rows are safe in the log: the next one to open the file brings them over.
    }
    this.#db.close();
    this.#owners.release();
  }

  #requireWritable(): void {
    this.#turns.requireOpen();
    if (!this.#readonly) return;
    throw new HoldfastError(
      "NOT_SUPPORTED",
      `${this.name} was opened with the option readonly: nothing can be stored.`,
      {
        details: { name: this.name },
      },
    );
  }
}

function publishInside(): void {
  if (channels.commitInside.hasSubscribers) channels.commitInside.publish(undefined);
}
