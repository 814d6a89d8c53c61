/** The question an effect asks where another lineage has left something behind that it might do twice. */

import type { EffectCall } from "./effect-call.ts";
import type { StoredEffect } from "./effect-record.ts";
import { clip } from "./effect-refusals.ts";
import { accepted, shownDigest, waitAt } from "./wait-call.ts";
import { waitName } from "./wait-record.ts";

/** What a fork question shows as its `details`. */
export interface ForkQuestionDetails {
  readonly effect: string;
  /** The input it is called with now. */
  readonly input: unknown;
  /** What was left behind. */
  readonly left: {
    readonly key: string;
    readonly input: unknown;
    /** "done": `outcome` is known. */
    readonly status: string;
    readonly outcome: unknown;
    readonly error: string | null;
    readonly begunAt: string;
    readonly checkpoint: string;
  };
}

/** What the person decided, about the effect with key `left`. */
type ForkAnswer =
  | { readonly does: "run" | "reuse"; readonly left: string }
  | { readonly does: "use"; readonly left: string; readonly value: unknown; readonly by: string; readonly at: Date }
  | { readonly does: "refuse"; readonly left: string; readonly by: string; readonly comment: string | undefined };

export class ForkQuestion {
  readonly #call: EffectCall;
  readonly #name: string;
  readonly #shown: unknown;

  private constructor(call: EffectCall) {
    this.#call = call;
    this.#name = waitName(`again: ${call.name}`);
    this.#shown = call.key;
  }

  static of(call: EffectCall): ForkQuestion {
    return new ForkQuestion(call);
  }

  /** Whether this call's question was asked before and is not finished. */
  isOpen(): boolean {
    const { site } = this.#call;
    if (site.thread.waits.isEmpty) return false;
    const digest = shownDigest(site.saver.waitLedger, { kind: "question", name: this.#name, shown: this.#shown });
    return site.thread.waits.active.some((row) => row.task === site.place.task && row.digest === digest);
  }

  /**
   * @param left what was left behind; undefined where the recorded question knows it
   * @throws GraphInterrupt while nobody has decided
   */
  async answer(left: StoredEffect | undefined): Promise<ForkAnswer> {
    const { site, definition } = this.#call;
    const details = left === undefined ? undefined : detailsOf(this.#call, left);
    const known = left?.row.status === "done";
    const taken = await waitAt(site, {
      kind: "question",
      name: this.#name,
      shown: this.#shown,
      value: {
        type: "question",
        question: left === undefined ? "" : questionOf(this.#call, left),
        details,
        allow: ALLOW,
      },
      details,
      allow: ALLOW,
      schema: schemaOf(known),
    });
    const about = (taken.wait.details as ForkQuestionDetails).left;
    const { type, value, by, at, comment } = taken.decision;
    if (type === "approve") return { does: "run", left: about.key };
    if (type !== "respond") return { does: "refuse", left: about.key, by, comment };
    const response = value as { readonly recorded?: true; readonly outcome?: unknown };
    if (response.recorded === true) return { does: "reuse", left: about.key };
    const { output } = definition;
    const { outcome } = response;
    const told = output === undefined ? outcome : await accepted(site, taken, output, outcome);
    return { does: "use", left: about.key, value: told, by, at };
  }
}

const ALLOW = ["approve", "respond", "reject"] as const;

/** JSON Schema of a response: the recorded outcome, where there is one, or an outcome told by the person. */
function schemaOf(known: boolean): unknown {
  const only = (name: string, schema: unknown) => ({
    type: "object",
    properties: { [name]: schema },
    required: [name],
    additionalProperties: false,
  });
  const told = only("outcome", {});
  return known ? { anyOf: [only("recorded", { const: true }), told] } : told;
}

function detailsOf(call: EffectCall, { row, record }: StoredEffect): ForkQuestionDetails {
  const { error } = record;
  return {
    effect: call.name,
    input: call.input,
    left: {
      key: row.key,
      input: record.input,
      status: row.status,
      outcome: record.value,
      error: error === undefined ? null : error instanceof Error ? error.message : String(error),
      begunAt: record.begunAt.toISOString(),
      checkpoint: row.checkpoint,
    },
  };
}

function questionOf(call: EffectCall, { row, record }: StoredEffect): string {
  const { serde } = call.ledger;
  const text = (value: unknown) => clip(serde.stringify(serde.toTree(value, call.ledger.blobs(), () => "an input")));
  const now = row.digest === call.digest ? "the same input" : `the input ${text(call.input)}`;
  const then =
    row.status === "done"
      ? `was done with the outcome ${text(record.value)}`
      : `was begun (${row.status}), and its outcome is not known`;
  return (
    `Outside this branch, ${call.name} with input ${text(record.input)} ${then}. It is now called with ${now}. Run it? ` +
    "approve: run it · respond { recorded: true }: take that outcome · respond { outcome }: it happened, with this outcome · reject: refuse it."
  );
}
