/** The backend on Postgres, by pg. */

import type {
  Backend,
  BackendDurability,
  Capabilities,
  CheckpointQuery,
  Commit,
  DecisionRow,
  DueRunsQuery,
  EffectQuery,
  EffectRow,
  ItemsRow,
  Loaded,
  RunQuery,
  RunRow,
  StoredCheckpoint,
  Verdict,
  WaitQuery,
  WaitRow,
} from "holdfast";
import { type Heartbeat, SharedHeartbeat } from "../heartbeat-thread.ts";
import { Committer } from "./commit.ts";
import { Connections } from "./connections.ts";
import type { PgPool } from "./driver.ts";
import { History } from "./history.ts";
import { Listener } from "./listener.ts";
import { openError, prepareSchema } from "./open.ts";
import { checkOptions, checkTarget, type PostgresOptions } from "./options.ts";
import { Owner } from "./owners.ts";
import { Reads } from "./reads.ts";
import { RunReads } from "./run-reads.ts";
import { runTransaction, type TransactionBody } from "./transaction.ts";
import { WaitReads } from "./wait-reads.ts";

/**
 * Opens the tables in a database, making them where they are missing. `target` is a URL, or a pool of pg that stays the
 * caller's: a pool of one connection is enough, and a pooler in transaction mode may stand in between.
 *
 * @throws {HoldfastError} INVALID_ARGUMENT, DRIVER_MISSING, CANNOT_OPEN where the server cannot be reached or the role may
 * not make the tables, UNSUPPORTED_FORMAT for those of a newer release
 */
export async function postgresBackend(target: string | PgPool, options: PostgresOptions = {}): Promise<Backend> {
  const checked = checkOptions(options);
  const name = checkTarget(target);
  const connections = await Connections.open(target, name, checked);
  try {
    await prepareSchema(connections, checked.schema);
    const durability = await readDurability(connections);
    const owner = await Owner.register(connections, checked.schema, checked.leaseMs);
    return new PostgresBackend({
      name,
      connections,
      owner,
      durability,
      schema: checked.schema,
      committer: new Committer(connections, owner, checked),
    });
  } catch (error) {
    connections.close();
    await connections.end();
    throw openError(name, error);
  }
}

/** What the server promises when it says that a transaction is committed. */
async function readDurability(connections: Connections): Promise<BackendDurability> {
  const rows = await connections.read<{ name: string; setting: string }>(
    "select name, setting from pg_settings where name in ('fsync', 'synchronous_commit')",
  );
  return rows.every(({ setting }) => setting !== "off") ? "fsync" : "os";
}

interface Parts {
  readonly name: string;
  readonly connections: Connections;
  readonly owner: Owner;
  readonly durability: BackendDurability;
  readonly schema: string;
  readonly committer: Committer;
}

class PostgresBackend implements Backend {
  readonly name: string;
  readonly capabilities: Capabilities;
  readonly owner: string;
  readonly #connections: Connections;
  readonly #owners: Owner;
  readonly #heartbeat: SharedHeartbeat;
  readonly #schema: string;
  readonly #committer: Committer;
  readonly #reads: Reads;
  readonly #history: History;
  readonly #waits: WaitReads;
  readonly #runs: RunReads;
  readonly #listener: Listener;
  readonly #transactions = new Set<Promise<unknown>>();
  #closing: Promise<void> | undefined;

  constructor({ name, connections, owner, durability, schema, committer }: Parts) {
    this.name = name;
    this.capabilities = { processes: "many", durability, transactions: true };
    this.owner = owner.id;
    this.#connections = connections;
    this.#owners = owner;
    this.#heartbeat = new SharedHeartbeat(() => owner.heartbeat());
    this.#schema = schema;
    this.#committer = committer;
    this.#reads = new Reads(connections, schema);
    this.#history = new History(connections, schema);
    this.#waits = new WaitReads(connections, schema);
    this.#runs = new RunReads(connections, schema);
    this.#listener = new Listener(connections, schema);
  }

  async commit(group: readonly Commit[]): Promise<readonly Verdict[]> {
    this.#connections.requireOpen();
    return this.#committer.commit(group);
  }

  load(thread: string, ns: string, id: string | undefined): Promise<Loaded> {
    return this.#reads.load(thread, ns, id);
  }

  checkpoints(query: CheckpointQuery): AsyncIterable<StoredCheckpoint> {
    return this.#history.checkpoints(query);
  }

  ancestors(thread: string, ns: string, id: string): AsyncIterable<StoredCheckpoint> {
    return this.#history.ancestors(thread, ns, id);
  }

  items(thread: string, list: string, length: number): Promise<{ rows: ItemsRow[]; extended: boolean }> {
    return this.#reads.items(thread, list, length);
  }

  blobs(thread: string, hashes: readonly string[]): Promise<ReadonlyMap<string, string | Uint8Array>> {
    return this.#reads.blobs(thread, hashes);
  }

  effects(query: EffectQuery): Promise<readonly EffectRow[]> {
    return this.#reads.effects(query);
  }

  waits(query: WaitQuery): Promise<readonly WaitRow[]> {
    return this.#waits.waits(query);
  }

  decisions(query: { readonly thread?: string | undefined }): AsyncIterable<DecisionRow> {
    return this.#waits.decisions(query);
  }

  decision(thread: string, seq: number | undefined): Promise<DecisionRow | undefined> {
    return this.#waits.decision(thread, seq);
  }

  runs(query: RunQuery): Promise<readonly RunRow[]> {
    return this.#runs.runs(query);
  }

  dueRuns(query: DueRunsQuery): Promise<readonly RunRow[]> {
    return this.#runs.dueRuns(query);
  }

  nextDue(query: { readonly graphs?: readonly string[] | undefined }): Promise<number | undefined> {
    return this.#runs.nextDue(query.graphs);
  }

  now(): Promise<number> {
    return this.#runs.now();
  }

  watch(wake: () => void): Promise<{ close(): Promise<void> }> {
    return this.#listener.watch(wake);
  }

  async heartbeat(): Promise<Heartbeat> {
    this.#connections.requireOpen();
    return this.#heartbeat.hold();
  }

  async ownerAlive(owner: string): Promise<boolean> {
    this.#connections.requireOpen();
    return owner === this.owner || this.#owners.alive(owner);
  }

  /** `tx` is a connection of pg inside the transaction; use it only until `body` has settled, and for nothing else. */
  async transaction<T>(body: TransactionBody<T>): Promise<T> {
    this.#connections.requireOpen();
    const running = runTransaction(this.#connections, this.#schema, body);
    this.#transactions.add(running);
    try {
      return await running;
    } finally {
      this.#transactions.delete(running);
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#owners.stop();
    this.#connections.close();
    await this.#listener.stop();
    await this.#committer.idle();
    await Promise.allSettled(this.#transactions);
    await this.#heartbeat.end();
    await this.#owners.release();
    await this.#connections.end();
  }
}
