/**
 * The recorded effects of one checkpointer: reading, changing and settling rows, and which bodies run in this process.
 *
 * - E3 A settled decision is the first one; the row's revision decides, from any process.
 * - E4 In one process at most one body runs per key: `running` holds its promise, and `overdue` the bodies that were
 *   given up on after a timeout and may still act.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { type Backend, type EffectQuery, eraOf, type Op } from "./backend.ts";
import type { CommitQueue } from "./commit-queue.ts";
import {
  type EffectContent,
  type EffectRecord,
  effectBody,
  effectOps,
  type RecordedDecision,
  readEffect,
  type SettleDecision,
  type StoredEffect,
} from "./effect-record.ts";
import { settleId } from "./effect-refusals.ts";
import { EffectInDoubtError, HoldfastError, isHoldfastError } from "./errors.ts";
import type { Journal } from "./journal.ts";
import type { EffectRow } from "./model.ts";
import type { Serde, Tree } from "./serde.ts";
import { BlobCollector } from "./values.ts";
import type { WaitLedger } from "./wait-ledger.ts";

export interface SettleResult {
  /** True where the same decision had been recorded before. */
  readonly replayed: boolean;
  readonly decision: RecordedDecision;
}

/** What an effect call gives. */
export interface Outcome<T = unknown> {
  readonly value: T;
  /** True where the body was not run by this call. */
  readonly cached: boolean;
  readonly idempotencyKey: string;
}

/** A call under way, with the digest of its input. */
export interface RunningCall {
  readonly outcome: Promise<Outcome>;
  readonly digest: string;
}

/** Somebody else has changed the effect, or its question, between reading and writing. */
const SETTLE_AGAIN = ["EFFECT_CONFLICT", "WAIT_CONFLICT", "DECISION_CONFLICT", "RUN_CONFLICT"] as const;

export class EffectLedger {
  readonly backend: Backend;
  readonly serde: Serde;
  /** Calls under way, by key. */
  readonly running = new Map<string, RunningCall>();
  /** Keys of the bodies around the running code, outermost first. */
  readonly around = new AsyncLocalStorage<readonly string[]>();
  /** Bodies that went on after their timeout, by key. */
  readonly overdue = new Map<string, Promise<unknown>>();
  readonly #queue: CommitQueue;
  readonly #memo: Map<string, string>;
  readonly #journal: Journal | undefined;
  readonly #waits: WaitLedger;

  constructor(
    backend: Backend,
    serde: Serde,
    queue: CommitQueue,
    memo: Map<string, string>,
    journal: Journal | undefined,
    waits: WaitLedger,
  ) {
    this.backend = backend;
    this.serde = serde;
    this.#queue = queue;
    this.#memo = memo;
    this.#journal = journal;
    this.#waits = waits;
  }

  /** A collector for everything that one call's row refers to. */
  blobs(): BlobCollector {
    return new BlobCollector(this.#memo);
  }

  /** Resolves when everything queued before is durable, refused or failed. */
  async flush(): Promise<void> {
    await this.#queue.flush();
  }

  async find(query: EffectQuery): Promise<StoredEffect[]> {
    const rows = await this.backend.effects(query);
    return Promise.all(rows.map((row) => this.read(row)));
  }

  read(row: EffectRow): Promise<StoredEffect> {
    return readEffect(this.backend, this.serde, row);
  }

  async findKey(key: string): Promise<StoredEffect | undefined> {
    return (await this.find({ key }))[0];
  }

  async records(query: { readonly thread: string } | { readonly key: string }): Promise<readonly EffectRecord[]> {
    await this.#queue.flush();
    return (await this.find(query)).map(({ record }) => record);
  }

  /**
   * Stores an effect's new state, durably, and journals it.
   * @throws EFFECT_CONFLICT where it was changed meanwhile, THREAD_DELETED, RUN_LOST
   */
  async write(
    row: Omit<EffectRow, "body" | "rev">,
    content: EffectContent,
    before: EffectRow | undefined,
    era: number,
    blobs: BlobCollector,
    extra: readonly Op[] = [],
    fence?: Op,
  ): Promise<StoredEffect> {
    const body = effectBody(this.serde, content, blobs);
    const stored: EffectRow = { ...row, rev: (before?.rev ?? 0) + 1, body };
    const ops = [...effectOps(stored, era, before?.rev ?? null, blobs), ...extra];
    await this.#queue.enqueue(ops, undefined, { urgent: true, fence });
    const read = await this.#fresh(stored, content, blobs);
    await this.#journal?.effect(read.record);
    return read;
  }

  async settle(key: string, decision: SettleDecision, by: string): Promise<SettleResult> {
    const decided = checkDecision(decision, by);
    await this.#queue.flush();
    for (;;) {
      const found = await this.findKey(key);
      if (found === undefined) {
        throw new HoldfastError(
          "UNKNOWN_EFFECT",
          `There is no effect with key ${JSON.stringify(key)}. checkpointer.effects({ thread }) lists a thread's.`,
          {
            details: { key },
          },
        );
      }
      const replayed = this.#alreadyDecided(found, decided);
      if (replayed !== undefined) return { replayed: true, decision: replayed };
      if ("notDone" in decided) await this.#assertOwnerGone(found);
      try {
        return { replayed: false, decision: await this.#decide(found, decided, by) };
      } catch (error) {
        if (!SETTLE_AGAIN.some((code) => isHoldfastError(error, code))) throw error;
      }
    }
  }

  /** Whether the body of an intent may still be running somewhere (E4). */
  async maybeRunning({ row }: StoredEffect): Promise<boolean> {
    if (this.overdue.has(row.key)) return true;
    if (row.status !== "intent") return false;
    if (row.owner === this.backend.owner) return false;
    return this.backend.ownerAlive(row.owner);
  }

  async #assertOwnerGone(found: StoredEffect): Promise<void> {
    const { row } = found;
    const here = row.status === "intent" && row.owner === this.backend.owner && this.running.has(row.key);
    if (here || (await this.maybeRunning(found)))
      throw inDoubt(found, "It cannot be settled as not done while its owner may still be running it.");
  }

  #alreadyDecided({ row, record }: StoredEffect, decision: SettleDecision): RecordedDecision | undefined {
    const earlier = record.decision;
    if (earlier !== undefined && earlier.attempt === row.attempt) {
      if (this.#same(earlier.decision, decision)) return earlier;
      throw new HoldfastError(
        "SETTLE_CONFLICT",
        `Effect ${row.name} (${row.key}) was settled by ${earlier.by} at ${earlier.at.toISOString()} as ${JSON.stringify(earlier.decision)}; the first decision stands.`,
        { details: { key: row.key, by: earlier.by, decision: earlier.decision } },
      );
    }
    if (row.status === "intent" || row.status === "failed") return undefined;
    throw new HoldfastError(
      "SETTLE_CONFLICT",
      `Effect ${row.name} (${row.key}) is not in doubt: its state is ${row.status}. There is nothing to settle.`,
      { details: { key: row.key, status: row.status } },
    );
  }

  #same(a: unknown, b: unknown): boolean {
    const blobs = this.blobs();
    const text = (value: unknown) => this.serde.stringify(this.serde.toTree(value, blobs, () => "the decision"));
    return text(a) === text(b);
  }

  async #decide({ row, record }: StoredEffect, decision: SettleDecision, by: string): Promise<RecordedDecision> {
    const recorded: RecordedDecision = { decision, by, at: new Date(), attempt: row.attempt };
    const blobs = this.blobs();
    const tree = (value: unknown, what: string): Tree =>
      this.serde.toTree(value, blobs, () => `${what} of effect ${row.name} (${row.key})`);
    const content: EffectContent = {
      input: tree(record.input, "the input"),
      checkpoints: record.checkpoints,
      begunAt: record.begunAt.getTime(),
      links: record.links,
      decision: tree(recorded, "the decision"),
      ...("done" in decision ? { value: tree(decision.done, "the outcome") } : {}),
    };
    const status = "done" in decision ? "done" : "notDone" in decision ? "not-executed" : "given-up";
    const era = row.thread === "" ? 0 : await eraOf(this.backend, row.thread);
    const asked = await this.#waits.settleOps(settleId(row), by, era);
    await this.write({ ...row, status }, content, row, era, blobs, asked);
    return recorded;
  }

  /** The record of a row just written, without reading it back. */
  async #fresh(row: EffectRow, content: EffectContent, blobs: BlobCollector): Promise<StoredEffect> {
    const revive = (tree: Tree | undefined) =>
      tree === undefined ? undefined : this.serde.fromTree(tree, blobs.blobs, () => `effect ${row.name}`);
    const { key, name, thread, ns, checkpoint, task, status, attempt, owner } = row;
    const record: EffectRecord = {
      key,
      name,
      thread,
      ns,
      checkpoint,
      task,
      status,
      attempt,
      owner,
      keyed: row.ordinal < 0,
      input: revive(content.input),
      value: revive(content.value),
      error: revive(content.error),
      decision: revive(content.decision) as RecordedDecision | undefined,
      begunAt: new Date(content.begunAt),
      checkpoints: content.checkpoints,
      links: content.links,
    };
    return { row, record };
  }
}

export function inDoubt({ row, record }: StoredEffect, why: string): EffectInDoubtError {
  return new EffectInDoubtError(
    `Effect ${row.name} (${row.key}) was begun at ${record.begunAt.toISOString()} by owner ${row.owner}, which may still be running it. ${why} ` +
      "Wait until that process has finished or died, or settle it as done if you know that it happened.",
    { details: { key: row.key, name: row.name, owner: row.owner, thread: row.thread } },
  );
}

function checkDecision(decision: SettleDecision, by: string): SettleDecision {
  const bad = (found: string): HoldfastError =>
    new HoldfastError(
      "INVALID_ARGUMENT",
      `${found}. Use settle(key, { done: value } | { notDone: true } | { giveUp: "reason" }, { by: "who" }).`,
    );
  if (typeof by !== "string" || by === "") throw bad(`settle: \`by\` must name who decides, got ${JSON.stringify(by)}`);
  if (typeof decision !== "object" || decision === null)
    throw bad(`settle: got the decision ${JSON.stringify(decision)}`);
  const keys = Object.keys(decision);
  if (keys.length !== 1) throw bad(`settle: a decision has one of done, notDone, giveUp; got ${JSON.stringify(keys)}`);
  if ("done" in decision) return { done: decision.done };
  if ("notDone" in decision && decision.notDone === true) return { notDone: true };
  if ("giveUp" in decision && typeof decision.giveUp === "string" && decision.giveUp !== "")
    return { giveUp: decision.giveUp };
  throw bad(`settle: got the decision ${JSON.stringify(decision)}`);
}
