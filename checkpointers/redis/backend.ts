/** Rows in Redis or Valkey, shared by any number of processes. */

import {
  type Backend,
  type BackendDurability,
  type Capabilities,
  type CheckpointQuery,
  type Commit,
  type DecisionRow,
  type DueRunsQuery,
  type EffectQuery,
  type EffectRow,
  HoldfastError,
  type ItemsRow,
  isHoldfastError,
  type Loaded,
  type RunQuery,
  type RunRow,
  type StoredCheckpoint,
  type Verdict,
  type WaitQuery,
  type WaitRow,
} from "holdfast";
import { Committer } from "./committer.ts";
import { Connection } from "./connection.ts";
import { newClient, type RedisClient } from "./driver.ts";
import { History } from "./history.ts";
import { type CheckedOptions, checkOptions, checkUrl, type RedisOptions } from "./options.ts";
import { type Heartbeat, SharedHeartbeat } from "../heartbeat-thread.ts";
import { Owner } from "./owners.ts";
import { Reads } from "./reads.ts";
import { RunReads } from "./run-reads.ts";
import { inspect } from "./server.ts";
import { Subscriber } from "./subscriber.ts";
import { WaitReads } from "./wait-reads.ts";

/** A wrong address should be told soon; a server that starts together with its clients should be waited for. */
const OPEN_MS = 5000;

/** A server that is away does not hold up an end: the sign of life expires by itself. */
const LEAVE_MS = 500;

/**
 * Opens a store on Redis 6 or later, or Valkey; no modules. `target` is a URL, the path of a unix socket, or an ioredis
 * client, which the caller goes on to own: it is not ended with the backend.
 *
 * @throws {HoldfastError} INVALID_ARGUMENT, DRIVER_MISSING, CANNOT_OPEN, NOT_SUPPORTED, FOREIGN_DATABASE,
 * UNSUPPORTED_FORMAT, STORAGE_FAILED
 */
export async function redisBackend(target: string | RedisClient, options: RedisOptions = {}): Promise<Backend> {
  const checked = checkOptions(options);
  const own = typeof target === "string";
  const client = own ? clientOf(target, checked) : target;
  const keys = `{${checked.prefix}}:`;
  const place = own ? withoutSecret(target) : "redis client";
  const name = checked.prefix === "holdfast" ? place : `${place} (${checked.prefix})`;
  const connection = new Connection(name, client, keys, Math.min(checked.retryMs, OPEN_MS), own);
  try {
    const durability = await inspect(connection, checked);
    const owner = await Owner.register(connection, checked.leaseMs);
    connection.tryFor(checked.retryMs);
    return new RedisBackend(connection, owner, durability, checked, keys, own ? target : undefined);
  } catch (error) {
    connection.end();
    if (!isHoldfastError(error, "STORAGE_FAILED")) throw error;
    throw new HoldfastError(
      "CANNOT_OPEN",
      `${name} cannot be opened: ${reason(error)}. Check its address and password.`,
      {
        cause: error.cause,
        details: { name },
      },
    );
  }
}

function reason(error: HoldfastError): string {
  return error.cause instanceof Error ? error.cause.message : String(error.cause);
}

/** Calls fail at once when the connection is lost: whether and when they are repeated is decided here, not by the client. */
function clientOf(url: string, options: CheckedOptions): RedisClient {
  checkUrl(url);
  return newClient(url, {
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    socketTimeout: options.answerTimeoutMs,
    retryStrategy: (times) => Math.min(10 * 2 ** Math.min(times, 6), 500),
    reconnectOnError: (error) => error.message.startsWith("READONLY"),
    connectionName: "holdfast",
  });
}

function withoutSecret(url: string): string {
  return url.replace(/^(rediss?:\/\/)[^@/]*@/, "$1").replace(/\?.*$/, "");
}

class RedisBackend implements Backend {
  readonly name: string;
  readonly capabilities: Capabilities;
  readonly owner: string;
  readonly #connection: Connection;
  readonly #owner: Owner;
  readonly #heartbeat: SharedHeartbeat;
  readonly #committer: Committer;
  readonly #reads: Reads;
  readonly #history: History;
  readonly #waits: WaitReads;
  readonly #runs: RunReads;
  readonly #subscriber: Subscriber;
  #closing: Promise<void> | undefined;

  constructor(
    connection: Connection,
    owner: Owner,
    durability: BackendDurability,
    options: CheckedOptions,
    keys: string,
    url: string | undefined,
  ) {
    this.name = connection.name;
    this.capabilities = { processes: "many", durability, transactions: false };
    this.owner = owner.owner;
    this.#connection = connection;
    this.#owner = owner;
    // With a client of somebody else the timer stays: a thread can make no connection of it.
    const none: Heartbeat = { stop: async () => {} };
    this.#heartbeat = new SharedHeartbeat(async () => (url === undefined ? none : owner.heartbeat(url, keys)));
    this.#committer = new Committer(connection, owner.owner, options.ttlMs, options.leaseMs);
    this.#reads = new Reads(connection, keys);
    this.#history = new History(connection);
    this.#waits = new WaitReads(connection, this.#history);
    this.#runs = new RunReads(connection);
    this.#subscriber = new Subscriber(connection, options.answerTimeoutMs);
  }

  async commit(group: readonly Commit[]): Promise<readonly Verdict[]> {
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
    return this.#subscriber.watch(wake);
  }

  async heartbeat(): Promise<Heartbeat> {
    this.#connection.requireOpen();
    return this.#heartbeat.hold();
  }

  ownerAlive(owner: string): Promise<boolean> {
    return this.#owner.alive(owner);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#connection.refuse();
    this.#subscriber.stop();
    await this.#committer.idle();
    await this.#connection.idle();
    this.#connection.tryFor(LEAVE_MS);
    await this.#heartbeat.end();
    await this.#owner.leave();
    this.#connection.end();
  }
}
