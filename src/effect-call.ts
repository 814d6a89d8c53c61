/** One call of an effect: finds what is recorded, decides whether the body may run, and records what comes out. */

import { isGraphBubbleUp } from "@langchain/langgraph";
import type { EffectContext, EffectDefinition } from "./effect.ts";
import { type EffectLedger, inDoubt, type Outcome } from "./effect-ledger.ts";
import { digestOf, type EffectContent, effectKey, type StoredEffect } from "./effect-record.ts";
import { callsItself, clip, forked, givenUp, settleInterrupt, timedOut, unknownOutcome } from "./effect-refusals.ts";
import { assertMayStart, barrier, type Site, siteOf } from "./effect-site.ts";
import { EffectMismatchError, HoldfastError, isHoldfastError } from "./errors.ts";
import { channels, type EffectEvent } from "./events.ts";
import { Lineage } from "./lineage.ts";
import type { EffectRow, EffectStatus } from "./model.ts";
import { nothingHappened } from "./not-executed.ts";
import type { Tree } from "./serde.ts";
import type { BlobCollector } from "./values.ts";

type Definition = EffectDefinition<unknown, unknown>;

export class EffectCall {
  readonly name: string;
  readonly definition: Definition;
  readonly input: unknown;
  readonly key: string;
  readonly site: Site;
  readonly #ledger: EffectLedger;
  readonly #digest: string;
  readonly #ordinal: number;
  readonly #blobs: BlobCollector;
  readonly #inputTree: Tree;

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
    this.#ledger = site.saver.effectLedger;
    this.#blobs = this.#ledger.blobs();
    this.#inputTree = this.#ledger.serde.toTree(
      input,
      this.#blobs,
      () => `the input of effect ${JSON.stringify(name)}`,
    );
    this.#digest = digestOf(this.#ledger.serde, this.#inputTree);
    const { place, attempt } = site;
    if (definition.key !== undefined) {
      const key = definition.key(input);
      if (typeof key !== "string" || key === "") {
        throw new HoldfastError(
          "INVALID_ARGUMENT",
          `Effect ${JSON.stringify(name)}: key(input) gave ${JSON.stringify(key)}; it must give a string that is not empty.`,
        );
      }
      this.#ordinal = -1;
      this.key = effectKey(["key", name, key]);
    } else {
      const equal = `${name}\u0000${this.#digest}`;
      this.#ordinal = attempt.ordinals.get(equal) ?? 0;
      attempt.ordinals.set(equal, this.#ordinal + 1);
      this.key = effectKey([
        site.thread.thread,
        place.ns,
        place.checkpoint,
        place.task,
        name,
        this.#digest,
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
    const { around, running } = this.#ledger;
    if (around.getStore()?.includes(this.key)) return Promise.reject(callsItself(this.name, this.key));
    const other = running.get(this.key);
    if (other !== undefined) {
      if (other.digest === this.#digest) return other.outcome.then((outcome) => ({ ...outcome, cached: true }));
      // Under a given key, with another input: what the other call leaves on record decides (E2).
      const after = () => this.shared(execute);
      return other.outcome.then(after, after);
    }
    const call = {
      digest: this.#digest,
      outcome: execute().finally(() => {
        if (running.get(this.key) === call) running.delete(this.key);
      }),
    };
    running.set(this.key, call);
    return call.outcome;
  }

  /** What is recorded for this call, after the barrier; an outcome, or what the body must be told. */
  async recorded(): Promise<{ readonly outcome: Outcome } | { readonly before: StoredEffect | undefined }> {
    await barrier(this.site);
    const before = this.#ordinal < 0 ? await this.#ledger.findKey(this.key) : await this.#ofThisTask();
    if (before === undefined) {
      const reused = await this.#ofOtherLineages();
      return reused === undefined ? { before } : { outcome: this.#cached(reused) };
    }
    if (before.row.digest !== this.#digest) throw this.#otherInput(before);
    if (before.row.status === "done") return { outcome: this.#cached(before.record.value) };
    if (before.row.status === "given-up") throw givenUp(before);
    return { before };
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
      digest: this.#digest,
      ordinal: this.#ordinal,
      status,
      attempt,
      owner: this.#ledger.backend.owner,
    };
  }

  content(begunAt: number, part: Partial<EffectContent> = {}): EffectContent {
    return { input: this.#inputTree, checkpoints: this.site.place.checkpoints, begunAt, ...part };
  }

  tree(value: unknown, what: string): Tree {
    return this.#ledger.serde.toTree(value, this.#blobs, () => `${what} of effect ${JSON.stringify(this.name)}`);
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
    if (before !== undefined && (await this.#ledger.maybeRunning(before)))
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
        this.#context(before.row.attempt, new AbortController().signal),
      );
      if (value === undefined) return undefined;
      await this.#write("done", before.row.attempt, before.record.begunAt.getTime(), before, {
        value: this.tree(value, "the verified outcome"),
      });
      return this.#cached(value);
    }
    if (await this.#ledger.maybeRunning(before)) throw inDoubt(before, "Nobody runs or settles it meanwhile.");
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
        isHoldfastError(error, "THREAD_DELETED")
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
    const { around } = this.#ledger;
    const body = around.run([...(around.getStore() ?? []), this.key], async () => {
      try {
        return await this.definition.run(this.input, this.#context(event.attempt, AbortSignal.any(signals)));
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
    const { overdue } = this.#ledger;
    const end = body
      .then(async (value) => {
        const found = await this.#ledger.findKey(this.key);
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
      return await this.#ledger.write(
        this.row(status, attempt),
        this.content(begunAt, part),
        before?.row,
        this.site.thread.era,
        this.#blobs,
      );
    } catch (error) {
      if (isHoldfastError(error, "EFFECT_CONFLICT")) throw new Changed();
      throw error;
    }
  }

  #context(attempt: number, signal: AbortSignal): EffectContext {
    return { idempotencyKey: this.key, signal, attempt };
  }

  /** E2: the row of this call, or a refusal where the task's recorded calls do not fit the calls it makes now. */
  async #ofThisTask(): Promise<StoredEffect | undefined> {
    const { attempt, place, thread } = this.site;
    attempt.recorded ??= this.#ledger.find({ thread: thread.thread, task: place.task });
    const recorded = await attempt.recorded;
    if (recorded.some(({ row }) => row.key === this.key)) return this.#ledger.findKey(this.key);
    const unclaimed = recorded.find(
      ({ row }) => row.name === this.name && row.ordinal >= 0 && !attempt.called.has(row.key) && mayHaveHappened(row),
    );
    if (unclaimed !== undefined) throw this.#otherInput(unclaimed);
    return undefined;
  }

  /** E7, as far as it goes without policies: what was done elsewhere with the same name and input. */
  async #ofOtherLineages(): Promise<unknown> {
    const { onFork = "deny", onUnknown } = this.definition;
    if (this.#ordinal < 0 || onFork === "execute" || onUnknown === "rerun") return undefined;
    const { place, thread } = this.site;
    const equal = await this.#ledger.find({ thread: thread.thread, name: this.name, digest: this.#digest });
    const elsewhere = equal.filter(({ row }) => row.ordinal >= 0 && row.task !== place.task && mayHaveHappened(row));
    if (elsewhere.length === 0) return undefined;
    const lineage = new Lineage(this.#ledger.backend, thread, place.checkpoints);
    for (const found of elsewhere) {
      if (await lineage.includes(found.record.checkpoints)) continue;
      if (onFork === "deny" || found.row.status !== "done") throw forked(found);
      await this.#write("done", 0, found.record.begunAt.getTime(), undefined, {
        value: this.tree(found.record.value, "the reused outcome"),
      });
      return found.record.value;
    }
    return undefined;
  }

  #otherInput(found: StoredEffect): EffectMismatchError {
    const keyed = this.#ordinal < 0;
    const { serde } = this.#ledger;
    const text = (value: unknown) => clip(serde.stringify(serde.toTree(value, this.#ledger.blobs(), () => "an input")));
    const where = keyed ? "under the same key" : `in the same task (${found.row.task})`;
    return new EffectMismatchError(
      `Effect ${JSON.stringify(this.name)} was recorded ${where} with input ${text(found.record.input)}, and is now called with ${text(this.input)}. ` +
        "It was not run: that could do the same thing twice. " +
        (keyed
          ? "Give different actions different keys. "
          : "Take ids, times and model texts in the input from state, so that they are the same when the node runs again, or give the effect a `key`. ") +
        `If the recorded call must not stand in the way, settle it: checkpointer.settle(${JSON.stringify(found.row.key)}, …).`,
      { details: { name: this.name, key: found.row.key, recorded: found.record.input, called: this.input } },
    );
  }
}

/** The row was changed between reading and writing it. */
class Changed extends Error {}

function mayHaveHappened(row: EffectRow): boolean {
  return row.status !== "not-executed";
}

function parseInput(name: string, definition: Definition, input: unknown): unknown {
  try {
    return definition.input.parse(input);
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new HoldfastError(
      "INVALID_ARGUMENT",
      `Effect ${JSON.stringify(name)} was called with an input that its schema refuses; it was not run. ${message}`,
      {
        cause,
        details: { name },
      },
    );
  }
}
