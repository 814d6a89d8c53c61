/** One call of an effect: finds what is recorded, decides whether the body may run, and records what comes out. */

import { isGraphBubbleUp } from "@langchain/langgraph";
import type { EffectContext, EffectDefinition } from "./effect.ts";
import { type EffectLedger, inDoubt, type Outcome } from "./effect-ledger.ts";
import { elsewhere, releaseTaken } from "./effect-elsewhere.ts";
import {
  digestOf,
  type EffectContent,
  type EffectLinks,
  effectKey,
  type RecordedDecision,
  type StoredEffect,
} from "./effect-record.ts";
import {
  callsItself,
  clip,
  givenUp,
  otherInput,
  settleInterrupt,
  timedOut,
  unknownOutcome,
} from "./effect-refusals.ts";
import { givenKey, linksOf, parseInput } from "./effect-input.ts";
import { assertMayStart, barrier, type Site, siteOf } from "./effect-site.ts";
import { type EffectMismatchError, isHoldfastError } from "./errors.ts";
import { channels, type EffectEvent } from "./events.ts";
import type { EffectRow, EffectStatus } from "./model.ts";
import { nothingHappened } from "./not-executed.ts";
import type { Tree } from "./serde.ts";
import type { BlobCollector } from "./values.ts";

type Definition = EffectDefinition<unknown, unknown>;

type Recorded = { readonly outcome: Outcome } | { readonly before: StoredEffect | undefined };

export class EffectCall {
  readonly name: string;
  readonly definition: Definition;
  readonly input: unknown;
  readonly key: string;
  /** The key that the definition gives, hashed; where the branch simulates, it is not the call's own. */
  readonly given: string | undefined;
  readonly site: Site;
  readonly ledger: EffectLedger;
  readonly digest: string;
  readonly #ordinal: number;
  readonly #blobs: BlobCollector;
  readonly #inputTree: Tree;
  #links: EffectLinks;

  /**
   * A call made here and now. Synchronous up to the key, so that equal calls made together are numbered in the order
   * in which the code makes them.
   */
  static here(name: string, definition: Definition, input: unknown): EffectCall {
    return new EffectCall(siteOf(name), name, definition, parseInput(name, definition, input));
  }

  private constructor(site: Site, name: string, definition: Definition, input: unknown) {
    this.site = site;
    this.name = name;
    this.definition = definition;
    this.input = input;
    this.ledger = site.saver.effectLedger;
    this.#blobs = this.ledger.blobs();
    this.#inputTree = this.ledger.serde.toTree(input, this.#blobs, () => `the input of effect ${JSON.stringify(name)}`);
    this.digest = digestOf(this.ledger.serde, this.#inputTree);
    this.#links = linksOf(site, definition);
    this.given = givenKey(name, definition, input);
    const { place, attempt } = site;
    // What a simulated call makes up must not stand under a key that other threads believe.
    if (this.given !== undefined && site.thread.effectsPolicy !== "simulate") {
      this.#ordinal = -1;
      this.key = this.given;
    } else {
      const equal = `${name}\u0000${this.digest}`;
      this.#ordinal = attempt.ordinals.get(equal) ?? 0;
      attempt.ordinals.set(equal, this.#ordinal + 1);
      this.key = effectKey([
        site.thread.thread,
        place.ns,
        place.checkpoint,
        place.task,
        name,
        this.digest,
        this.#ordinal,
      ]);
    }
    attempt.called.add(this.key);
  }

  /** E4: callers with the same key in this process share one execution. */
  outcome(): Promise<Outcome> {
    return this.shared(() => this.#execute());
  }

  shared(execute: () => Promise<Outcome>): Promise<Outcome> {
    const { around, running } = this.ledger;
    if (around.getStore()?.includes(this.key)) return Promise.reject(callsItself(this.name, this.key));
    const other = running.get(this.key);
    if (other !== undefined) {
      if (other.digest === this.digest) return other.outcome.then((outcome) => ({ ...outcome, cached: true }));
      // Under a given key, with another input: what the other call leaves on record decides (E2).
      const after = () => this.shared(execute);
      return other.outcome.then(after, after);
    }
    const call = {
      digest: this.digest,
      outcome: execute().finally(() => {
        releaseTaken(this);
        if (running.get(this.key) === call) running.delete(this.key);
      }),
    };
    running.set(this.key, call);
    return call.outcome;
  }

  /** What is recorded for this call, after the barrier; an outcome, or what the body must be told. */
  async recorded(): Promise<Recorded> {
    for (;;) {
      try {
        return await this.#look();
      } catch (error) {
        if (!(error instanceof Changed)) throw error;
      }
    }
  }

  async #look(): Promise<Recorded> {
    await barrier(this.site);
    const before = this.keyed ? await this.ledger.findKey(this.key) : await this.#ofThisTask();
    if (before === undefined) {
      const found = await elsewhere(this);
      if ("outcome" in found) return found;
      if (found.replaces !== undefined) this.#links = { ...this.#links, replaces: found.replaces };
      return { before };
    }
    if (before.row.digest !== this.digest) throw this.otherInput(before);
    const { replaces } = before.record.links;
    if (replaces !== undefined) this.#links = { ...this.#links, replaces };
    if (before.row.status === "done") return { outcome: this.#cached(before.record.value) };
    if (before.row.status === "given-up") throw givenUp(before);
    return { before };
  }

  /** Whether its identity is the key that the definition gives. */
  get keyed(): boolean {
    return this.#ordinal < 0;
  }

  /** Records an outcome without running the body. */
  async conclude(value: unknown, links: EffectLinks, begunAt: number, decision?: RecordedDecision): Promise<Outcome> {
    this.#links = { ...this.#links, ...links };
    const part = decision === undefined ? {} : { decision: this.tree(decision, "the decision") };
    await this.#write("done", 0, begunAt, undefined, { value: this.tree(value, "the outcome"), ...part });
    return this.#cached(value);
  }

  row(status: EffectStatus, attempt: number): Omit<EffectRow, "body" | "rev"> {
    const { place, thread } = this.site;
    return {
      key: this.key,
      thread: thread.thread,
      ns: place.ns,
      checkpoint: place.checkpoint,
      task: place.task,
      name: this.name,
      digest: this.digest,
      ordinal: this.#ordinal,
      status,
      attempt,
      owner: this.ledger.backend.owner,
    };
  }

  content(begunAt: number, part: Partial<EffectContent> = {}): EffectContent {
    return {
      input: this.#inputTree,
      checkpoints: this.site.place.checkpoints,
      begunAt,
      links: this.#links,
      ...part,
    };
  }

  tree(value: unknown, what: string): Tree {
    return this.ledger.serde.toTree(value, this.#blobs, () => `${what} of effect ${JSON.stringify(this.name)}`);
  }

  get blobs(): BlobCollector {
    return this.#blobs;
  }

  fresh(value: unknown): Outcome {
    return { value, cached: false, idempotencyKey: this.key };
  }

  #cached(value: unknown): Outcome {
    return { value, cached: true, idempotencyKey: this.key };
  }

  async #execute(): Promise<Outcome> {
    for (;;) {
      const found = await this.recorded();
      if ("outcome" in found) return found.outcome;
      try {
        return await this.#goOn(found.before);
      } catch (error) {
        // Another process, or a person, changed the effect meanwhile: look again.
        if (!(error instanceof Changed)) throw error;
      }
    }
  }

  async #goOn(before: StoredEffect | undefined): Promise<Outcome> {
    const policy = this.definition.onUnknown ?? (this.definition.verify === undefined ? "settle" : "verify");
    if (before !== undefined && before.row.status !== "not-executed" && policy !== "rerun") {
      const happened = await this.#judgeUnknown(before, policy);
      if (happened !== undefined) return happened;
    }
    if (before !== undefined && (await this.ledger.maybeRunning(before)))
      throw inDoubt(before, "It is not run a second time.");
    const attempt = (before?.row.attempt ?? 0) + 1;
    const begunAt = Date.now();
    if (policy === "rerun") return this.#runBody(before, attempt, begunAt);
    assertMayStart(this.site);
    const intent = await this.#write("intent", attempt, begunAt, before, {});
    return this.#runBody(intent, attempt, begunAt);
  }

  /** E3. The outcome where it is known to have happened; undefined where the body may run. */
  async #judgeUnknown(before: StoredEffect, policy: "verify" | "settle" | "fail"): Promise<Outcome | undefined> {
    if (policy === "verify") {
      const value = await this.definition.verify?.(
        this.input,
        this.context(before.row.attempt, new AbortController().signal),
      );
      if (value === undefined) return undefined;
      await this.#write("done", before.row.attempt, before.record.begunAt.getTime(), before, {
        value: this.tree(value, "the verified outcome"),
      });
      return this.#cached(value);
    }
    if (await this.ledger.maybeRunning(before)) throw inDoubt(before, "Nobody runs or settles it meanwhile.");
    if (policy === "fail") throw unknownOutcome(before);
    throw settleInterrupt(before);
  }

  async #runBody(before: StoredEffect | undefined, attempt: number, begunAt: number): Promise<Outcome> {
    const { row } = before ?? {};
    const event: EffectEvent = { name: this.name, key: this.key, thread: this.site.thread.thread, attempt };
    try {
      assertMayStart(this.site);
    } catch (error) {
      if (row?.status === "intent") await this.#write("not-executed", attempt, begunAt, before, {});
      throw error;
    }
    let value: unknown;
    try {
      value = await this.#bodyInTime(event);
      if (this.definition.output !== undefined) value = this.definition.output.parse(value);
      const outcome = { value: this.tree(value, "the outcome") };
      await this.#write("done", attempt, begunAt, before, outcome);
      return this.fresh(value);
    } catch (error) {
      if (
        error instanceof Changed ||
        isHoldfastError(error, "STORAGE_FAILED") ||
        isHoldfastError(error, "THREAD_DELETED") ||
        isHoldfastError(error, "RUN_LOST")
      )
        throw error;
      const nothing = isGraphBubbleUp(error as Error) || (this.definition.notExecuted ?? nothingHappened)(error);
      await this.#recordError(error, nothing, attempt, begunAt, before);
      throw error;
    }
  }

  async #bodyInTime(event: EffectEvent): Promise<unknown> {
    const { timeoutMs } = this.definition;
    const timer = timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs);
    const signals = [this.site.place.signal, timer].filter((signal) => signal !== undefined);
    channels.effectBefore.publish(event);
    const { around } = this.ledger;
    const body = around.run([...(around.getStore() ?? []), this.key], async () => {
      try {
        return await this.definition.run(this.input, this.context(event.attempt, AbortSignal.any(signals)));
      } finally {
        channels.effectAfter.publish(event);
      }
    });
    if (timer === undefined) return body;
    const late = new Promise<never>((_, reject) => {
      timer.addEventListener("abort", () => reject(timedOut(this.name, this.key, timeoutMs as number)), { once: true });
    });
    return Promise.race([body, late]).catch((error: unknown) => {
      if (isHoldfastError(error, "EFFECT_TIMEOUT")) this.#keepOverdue(body);
      throw error;
    });
  }

  /** A body that goes on after its timeout still counts as running (E4); what it does in the end is recorded. */
  #keepOverdue(body: Promise<unknown>): void {
    const { overdue } = this.ledger;
    const end = body
      .then(async (value) => {
        const found = await this.ledger.findKey(this.key);
        if (found?.row.status !== "failed") return;
        await this.#write("done", found.row.attempt, found.record.begunAt.getTime(), found, {
          value: this.tree(value, "the late outcome"),
        });
      })
      .catch(() => {
        // It failed in the end, or was settled meanwhile: the recorded timeout stands.
      })
      .finally(() => overdue.delete(this.key));
    overdue.set(this.key, end);
  }

  async #recordError(
    error: unknown,
    nothing: boolean,
    attempt: number,
    begunAt: number,
    before: StoredEffect | undefined,
  ): Promise<void> {
    const known = {
      message: error instanceof Error ? error.message : String(error),
      name: error instanceof Error ? error.name : typeof error,
    };
    let tree: Tree;
    try {
      tree = this.tree(error, "the error");
    } catch {
      tree = this.tree(known, "the error");
    }
    await this.#write(nothing ? "not-executed" : "failed", attempt, begunAt, before, { error: tree });
  }

  async #write(
    status: EffectStatus,
    attempt: number,
    begunAt: number,
    before: StoredEffect | undefined,
    part: Partial<EffectContent>,
  ) {
    try {
      return await this.ledger.write(
        this.row(status, attempt),
        this.content(begunAt, part),
        before?.row,
        this.site.thread.era,
        this.#blobs,
        [],
        this.site.thread.fence,
      );
    } catch (error) {
      if (isHoldfastError(error, "EFFECT_CONFLICT")) throw new Changed();
      throw error;
    }
  }

  context(
    attempt: number,
    signal: AbortSignal = this.site.place.signal ?? new AbortController().signal,
  ): EffectContext {
    return { idempotencyKey: this.key, signal, attempt };
  }

  /** E2: the row of this call, or a refusal where the task's recorded calls do not fit the calls it makes now. */
  async #ofThisTask(): Promise<StoredEffect | undefined> {
    const { attempt, place, thread } = this.site;
    attempt.recorded ??= this.ledger.find({ thread: thread.thread, task: place.task });
    const recorded = await attempt.recorded;
    if (recorded.some(({ row }) => row.key === this.key)) return this.ledger.findKey(this.key);
    const unclaimed = recorded.find(
      ({ row }) => row.name === this.name && row.ordinal >= 0 && !attempt.called.has(row.key) && mayHaveHappened(row),
    );
    if (unclaimed !== undefined) throw this.otherInput(unclaimed);
    return undefined;
  }

  otherInput(found: StoredEffect): EffectMismatchError {
    const { serde } = this.ledger;
    const text = (value: unknown) => clip(serde.stringify(serde.toTree(value, this.ledger.blobs(), () => "an input")));
    return otherInput(found, text(found.record.input), text(this.input), this.input);
  }
}

/** The row was changed between reading and writing it. */
class Changed extends Error {}

function mayHaveHappened(row: EffectRow): boolean {
  return row.status !== "not-executed";
}
