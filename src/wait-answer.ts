/** What may be answered to a wait, and whether two answers are the same. */

import { Validator } from "@langchain/core/utils/json_schema";
import { HoldfastError } from "./errors.ts";
import type { WaitKind } from "./model.ts";
import type { Decision, DecisionRecord, DecisionType, WaitRecord } from "./wait-record.ts";

export const DECISION_TYPES: readonly DecisionType[] = ["approve", "edit", "reject", "respond"];

/** What an answer is checked against: of a decoded wait, or the plain part of its row. */
export interface Answerable {
  readonly id: string;
  readonly name: string;
  readonly kind: WaitKind;
  readonly allow: readonly DecisionType[];
  readonly schema?: unknown;
}

/** Whether a value is a {@link Decision}. */
export function isDecision(value: unknown): value is Decision {
  if (typeof value !== "object" || value === null) return false;
  const { type, comment, ...rest } = value as Record<string, unknown>;
  if (!DECISION_TYPES.includes(type as DecisionType)) return false;
  if (comment !== undefined && typeof comment !== "string") return false;
  const keys = Object.keys(rest).filter((key) => rest[key] !== undefined || key === "value");
  return type === "edit" || type === "respond" ? keys.join() === "value" : keys.length === 0;
}

/** @throws INVALID_ANSWER */
export function checkAnswer(wait: Answerable, decision: unknown): Decision {
  if (!isDecision(decision)) {
    throw invalidAnswer(
      wait,
      `${JSON.stringify(decision) ?? String(decision)} is no decision. Use { type: "approve" }, { type: "edit", value }, ` +
        '{ type: "reject" } or { type: "respond", value }, each with an optional `comment`.',
    );
  }
  if (!wait.allow.includes(decision.type)) throw invalidAnswer(wait, refusedType(wait, decision.type));
  if ("value" in decision && wait.schema !== undefined) {
    const problem = schemaProblem(wait.schema, decision.value);
    if (problem !== undefined) throw invalidAnswer(wait, `its value does not fit the question's schema: ${problem}`);
  }
  return decision;
}

/** What a resume value of LangGraph (`Command({ resume })`) says to a question. */
export function decisionOfResume(wait: Answerable, value: unknown): Decision {
  if (wait.kind !== "question") return { type: "respond", value };
  if (isDecision(value)) return value;
  if (value === true && wait.allow.includes("approve")) return { type: "approve" };
  if (value === false && wait.allow.includes("reject")) return { type: "reject" };
  return { type: "respond", value };
}

/** The same decision on the same value; comments and names do not count. */
export function sameDecision(decision: Decision, recorded: DecisionRecord, text: (value: unknown) => string): boolean {
  if (decision.type !== recorded.type) return false;
  return !("value" in decision) || text(decision.value) === text(recorded.value);
}

export function alreadyAnswered(wait: WaitRecord): HoldfastError {
  const { decision } = wait;
  const what =
    decision === undefined
      ? `it is ${wait.status}`
      : `${JSON.stringify(decision.type)} by ${decision.by} at ${decision.at.toISOString()}`;
  return new HoldfastError(
    "ALREADY_ANSWERED",
    `Wait ${wait.id} (${wait.name}) of thread ${JSON.stringify(wait.thread)} has been decided: ${what}. The first decision stands.`,
    { details: { id: wait.id, thread: wait.thread, status: wait.status, decision } },
  );
}

export function invalidAnswer(wait: { readonly id: string; readonly name: string }, why: string): HoldfastError {
  return new HoldfastError("INVALID_ANSWER", `The answer to ${wait.name} (${wait.id}) was not accepted: ${why}`, {
    details: { id: wait.id, name: wait.name },
  });
}

function refusedType(wait: Answerable, type: DecisionType): string {
  switch (wait.kind) {
    case "settle":
      return "it asks whether an effect happened. Use checkpointer.settle(key, { done: value } | { notDone: true } | { giveUp: reason }, { by }).";
    case "event":
      return `it waits for an event. Use checkpointer.deliver(${JSON.stringify(wait.name)}, value, { thread, by }).`;
    case "timer":
      return "it waits for its time to come, and nobody can answer that.";
    case "question":
    case "interrupt":
      return `it takes ${wait.allow.map((known) => JSON.stringify(known)).join(", ")}, not ${JSON.stringify(type)}.`;
    default: {
      const never: never = wait.kind;
      return never;
    }
  }
}

function schemaProblem(schema: unknown, value: unknown): string | undefined {
  const { valid, errors } = new Validator(schema as object, "2020-12", false).validate(value);
  if (valid) return undefined;
  const deepest = errors.at(-1);
  return deepest === undefined ? "it is invalid" : `${deepest.instanceLocation}: ${deepest.error}`;
}
