/**
 * Who has a database file open: one lock file per owner, in a directory beside the database. The lock is released by
 * the operating system when the process ends, however it ends, and kept while the process is stopped. An owner that gives
 * signs of life counts as gone also when those have ended, see `heartbeat.ts`.
 *
 * A missing lock file is a dead owner: nothing but its owner, or somebody who holds its lock, removes one.
 */

import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, rmdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { HoldfastError, isHoldfastError } from "holdfast";
import type { Heartbeat } from "../heartbeat-thread.ts";
import { acquireLock, lockHeld, type ProcessLock } from "../process-lock.ts";
import { BEAT_SUFFIX, beatInto, hasExpired } from "./heartbeat.ts";
import { WAKE_NAME } from "./wake-file.ts";

const SUFFIX = ".lock";
/** A name is a random UUID; anything else in the directory is left alone. */
const LOCK_NAME = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\.lock$/;
/** An opener that sweeps, or a closer that removes the empty directory, may come in between: once or twice, not often. */
const ATTEMPTS = 20;

/** How a backend knows owners, itself among them. */
export interface Ownership {
  readonly owner: string;
  /** False only where the owner is provably gone, or has given signs of life and stopped. */
  alive(owner: string): boolean;
  /** From now on this owner gives signs of life, each good for `leaseMs`. */
  heartbeat(leaseMs: number): Promise<Heartbeat>;
  release(): void;
}

/** For a reader: it owns nothing, so it has an id but no lock. */
export function observer(path: string): Ownership {
  const owner = randomUUID();
  const directory = directoryOf(path);
  return {
    owner,
    alive: (other) => other === owner || isAlive(directory, other),
    heartbeat: async () => ({ stop: async () => {} }),
    release: () => {},
  };
}

export class Owner implements Ownership {
  readonly owner: string;
  readonly #directory: string;
  readonly #lock: ProcessLock;

  private constructor(directory: string, owner: string, lock: ProcessLock) {
    this.#directory = directory;
    this.owner = owner;
    this.#lock = lock;
  }

  /** Registers a new owner of the database at `path` and removes what dead ones have left. */
  static async register(path: string): Promise<Owner> {
    const directory = directoryOf(path);
    let cause: unknown;
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const owner = randomUUID();
      const file = join(directory, owner + SUFFIX);
      try {
        mkdirSync(directory, { recursive: true });
        const lock = await acquireLock(file);
        // Between creating and locking, a sweep may have taken the file for a dead owner's and removed it.
        if (lock !== undefined && existsSync(file)) {
          const registered = new Owner(directory, owner, lock);
          await sweep(directory, owner);
          return registered;
        }
        lock?.release();
      } catch (error) {
        cause = error;
        if (isHoldfastError(error, "DRIVER_MISSING")) throw error;
      }
    }
    throw new HoldfastError(
      "CANNOT_OPEN",
      `No lock file can be made in ${directory}. The directory of the database must be writable and on a local disk.`,
      { cause, details: { path: directory } },
    );
  }

  alive(owner: string): boolean {
    return owner === this.owner || isAlive(this.#directory, owner);
  }

  heartbeat(leaseMs: number): Promise<Heartbeat> {
    return beatInto(join(this.#directory, this.owner + BEAT_SUFFIX), leaseMs);
  }

  release(): void {
    rmSync(join(this.#directory, this.owner + BEAT_SUFFIX), { force: true });
    rmSync(join(this.#directory, this.owner + SUFFIX), { force: true });
    this.#lock.release();
    removeIfEmpty(this.#directory);
  }
}

/** Beside the database at `path`. */
export function directoryOf(path: string): string {
  return `${path}-owners`;
}

function isAlive(directory: string, owner: string): boolean {
  const name = owner + SUFFIX;
  // Names that no owner ever had are no paths into other directories.
  return LOCK_NAME.test(name) && lockHeld(join(directory, name)) && !hasExpired(join(directory, owner + BEAT_SUFFIX));
}

/** Removes the lock files of dead owners, each only while holding its lock. */
async function sweep(directory: string, own: string): Promise<void> {
  for (const name of readdirSync(directory)) {
    const file = join(directory, name);
    if (name === own + SUFFIX || !LOCK_NAME.test(name) || lockHeld(file) || !existsSync(file)) continue;
    const lock = await acquireLock(file);
    if (lock === undefined) continue;
    rmSync(file.slice(0, -SUFFIX.length) + BEAT_SUFFIX, { force: true });
    rmSync(file, { force: true });
    lock.release();
  }
}

function removeIfEmpty(directory: string): void {
  try {
    if (readdirSync(directory).every((name) => name === WAKE_NAME)) rmSync(join(directory, WAKE_NAME), { force: true });
    rmdirSync(directory);
  } catch {
    // Others have it open.
  }
}
