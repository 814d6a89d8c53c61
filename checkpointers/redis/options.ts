/** What `redis(url, options)` takes, checked. */

import { type BackendDurability, type Duration, durationMs } from "holdfast";
import { invalid, refuseUnknown, show, wholeMs } from "../options.ts";

export interface RedisOptions {
  /** Begins the name of every key, inside the hash tag: a store of its own. Default `"holdfast"`. */
  readonly prefix?: string | undefined;
  /**
   * How long a thread is kept after its last commit, for example `"30 days"`, or milliseconds. A thread with an open or
   * answered wait is kept as long as it waits, and one with a run until that has ended. Default: for ever.
   */
  readonly ttl?: Duration | undefined;
  /**
   * What an acknowledged commit survives, where the server does not say it (CONFIG is forbidden, or the service keeps its
   * data in another way). Default: what its settings say, and `"none"` where they cannot be read.
   */
  readonly durability?: BackendDurability | undefined;
  /** How long an owner counts as alive after its last sign of life, in milliseconds. Default 10,000. */
  readonly leaseMs?: number | undefined;
  /** How long a call goes on trying to reach the server before it fails with STORAGE_FAILED. Default 30,000. */
  readonly retryMs?: number | undefined;
  /** How long a silent connection counts as alive while an answer is due. Default 10,000. Only with a URL. */
  readonly answerTimeoutMs?: number | undefined;
  /** Opens a server that may evict keys to make room, which is silent loss of data. Default false: refused. */
  readonly allowEviction?: boolean | undefined;
}

export interface CheckedOptions {
  readonly prefix: string;
  readonly ttlMs: number | undefined;
  readonly durability: BackendDurability | undefined;
  readonly leaseMs: number;
  readonly retryMs: number;
  readonly answerTimeoutMs: number;
  readonly allowEviction: boolean;
}

/** Every option, so that the compiler finds one that is missing here. */
const NAMES: Readonly<Record<keyof RedisOptions, true>> = {
  prefix: true,
  ttl: true,
  durability: true,
  leaseMs: true,
  retryMs: true,
  answerTimeoutMs: true,
  allowEviction: true,
};
/** A hundred years and a bit. */
const MS_MAX = 1e13;
const LEVELS: readonly BackendDurability[] = ["fsync", "os", "none"];

/** Refuses names that are no option; `more` are the names that a caller knows besides. */
export function checkNames(options: object, more: readonly string[] = []): void {
  refuseUnknown("redis()", options, [...Object.keys(NAMES), ...more]);
}

export function checkOptions(options: RedisOptions): CheckedOptions {
  checkNames(options);
  const { prefix = "holdfast", ttl, durability, allowEviction = false } = options;
  const { leaseMs = 10_000, retryMs = 30_000, answerTimeoutMs = 10_000 } = options;
  // A brace would end the hash tag: parts of the store would lie in different slots of a cluster.
  if (typeof prefix !== "string" || !/^[A-Za-z0-9_.:-]{1,100}$/.test(prefix))
    throw invalid(
      `The option prefix is ${show(prefix)}, but must be 1 to 100 letters, digits or any of "_", ".", ":", "-".`,
    );
  if (durability !== undefined && !LEVELS.includes(durability))
    throw invalid(`The option durability is ${show(durability)}, but must be "fsync", "os" or "none".`);
  if (typeof allowEviction !== "boolean")
    throw invalid(`The option allowEviction is ${show(allowEviction)}, but must be true or false.`);
  return {
    prefix,
    ttlMs: ttl === undefined ? undefined : wholeMs("ttl", durationMs("The option ttl", ttl), 1, MS_MAX),
    durability,
    leaseMs: wholeMs("leaseMs", leaseMs, 1000, MS_MAX),
    retryMs: wholeMs("retryMs", retryMs, 0, MS_MAX),
    answerTimeoutMs: wholeMs("answerTimeoutMs", answerTimeoutMs, 100, MS_MAX),
    allowEviction,
  };
}

/** Refuses what is no URL of a Redis server. */
export function checkUrl(url: string): void {
  if (typeof url === "string" && /^rediss?:\/\/./.test(url)) return;
  if (typeof url === "string" && url.startsWith("/")) return;
  throw invalid(
    `redis() takes "redis://host:6379/0", "rediss://…" for TLS, or the path of a unix socket, not ${show(url)}.`,
  );
}
