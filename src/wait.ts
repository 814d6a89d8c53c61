/**
 * Waiting inside a graph: `ask` a person, `sleep`, `waitFor` an event. Nothing runs meanwhile: a wait is a row, and the
 * thread goes on in any process, days later.
 *
 * - W1 The wait is durable before the pause is shown.
 * - W3 An answer belongs to one question: its id is made of the task, the name, and what was shown. An answered question
 *   whose content has changed is refused with both contents; what was approved is what is returned, from the store.
 * - W5 W7 Deadlines and timers are moments in the row. They are decided by whoever looks first: the task when it runs
 *   again, or `resumeDue`. A clock set back makes them later, a clock set forward earlier; each happens once.
 *
 * A task that is resumed runs from its beginning: what it does before a wait must be an effect, or harmless.
 */

import { toJsonSchema } from "@langchain/core/utils/json_schema";
import { type Duration, momentMs } from "./durations.ts";
import type { Schema } from "./effect.ts";
import { siteAt } from "./effect-site.ts";
import { HoldfastError } from "./errors.ts";
import { accepted, waitAt } from "./wait-call.ts";
import { DECISION_TYPES } from "./wait-answer.ts";
import { type DecisionType, type OnDeadline, waitName } from "./wait-record.ts";

export interface AskOptions<T> {
  /** What is to be approved: shown to the person, and returned as `value` on approval. */
  readonly details?: unknown;
  /** Schema of the value in an edit or a response; a zod schema also shows in the question as JSON Schema. */
  readonly answer?: Schema<T>;
  /** Default: approve, reject and respond, with `details` also edit; with `answer` and no details: respond and reject. */
  readonly allow?: readonly DecisionType[];
  /** What the question is called. Default: its text. Questions of one name in one task are told apart by their content. */
  readonly name?: string;
  /** Who is asked; the inbox filters by it. */
  readonly assignee?: string;
  /** From the first time it is asked. */
  readonly deadline?: Duration | Date;
  /** Default `reject`. `hold`: stays open and counts as overdue. */
  readonly onDeadline?: OnDeadline;
  /**
   * When the same question with the same content has been rejected so many times in this thread, the last rejection is
   * returned at once and nobody is asked again: for a model that repeats a call that was rejected. Default: no limit.
   */
  readonly rejections?: number;
}

/** What a person said, or what the deadline did. */
export interface Answer<T> {
  /** Whether it was approved, as shown or edited. */
  readonly approved: boolean;
  readonly decision: DecisionType;
  /** approve: the details as they were shown · edit, respond: the value given · reject: undefined. */
  readonly value: T;
  readonly comment: string | undefined;
  /** Who decided: as authentication said it, or "deadline". */
  readonly by: string;
  readonly at: Date;
  readonly waitId: string;
}

/**
 * Asks a person and pauses the task until somebody has decided. Use it in nodes, tools, subgraphs, `Send` tasks,
 * `entrypoint`/`task` and error handlers; questions asked together (`Promise.all`) are shown together.
 *
 * Answered by `checkpointer.answer(id, …)`, by the endpoints of `holdfast/approvals`, or by LangGraph's
 * `new Command({ resume: { [id]: decision } })`.
 *
 * Costs one commit when it is opened, one when it is answered.
 *
 * @throws GraphInterrupt while it is open: never catch it (rethrow what `isGraphInterrupt` recognises) · QUESTION_CHANGED ·
 *   INVALID_ARGUMENT · the place errors of `effect`
 */
export async function ask<T = unknown>(question: string, options: AskOptions<T> = {}): Promise<Answer<T>> {
  checkAsk(question, options as AskOptions<unknown>);
  const { details, answer, assignee, deadline, onDeadline } = options;
  const name = options.name ?? waitName(question);
  const site = siteAt(`ask(${JSON.stringify(name)})`);
  const allow = options.allow ?? allowedBy(details !== undefined, answer !== undefined);
  const schema = answer === undefined ? undefined : jsonSchemaOf(answer);
  const taken = await waitAt(site, {
    kind: "question",
    name,
    shown: [question, details],
    value: {
      type: "question",
      question,
      ...(details === undefined ? {} : { details }),
      allow,
      ...(schema === undefined ? {} : { schema }),
      ...(assignee === undefined ? {} : { assignee }),
    },
    details,
    allow,
    schema,
    assignee,
    due: deadline === undefined ? undefined : (now) => momentMs("deadline", deadline, now),
    onDeadline,
    rejections: options.rejections,
  });
  const { decision, wait } = taken;
  const type = decision.type as DecisionType;
  const given = type === "edit" || type === "respond";
  const value =
    given && answer !== undefined && decision.by !== "deadline"
      ? await accepted(site, taken, answer, decision.value)
      : decision.value;
  return {
    approved: type === "approve" || type === "edit",
    decision: type,
    value: (type === "approve" ? wait.details : value) as T,
    comment: decision.comment,
    by: decision.by,
    at: decision.at,
    waitId: wait.id,
  };
}

export interface WaitForOptions<T> {
  /** Checked on what is delivered; what does not fit stays waiting. */
  readonly value?: Schema<T>;
  /** From the first call. Default: none. */
  readonly timeout?: Duration | Date;
}

/** An event that came, or a timeout. */
export type Received<T> =
  | { readonly timedOut: false; readonly value: T; readonly by: string; readonly at: Date }
  | { readonly timedOut: true; readonly value: undefined; readonly by: string; readonly at: Date };

/**
 * Waits until `checkpointer.deliver(event, value, { thread, by })` is called, or the timeout comes. Events are not kept
 * for later: one that comes before this call is refused to its sender (UNKNOWN_WAIT), who sends it again.
 *
 * @throws as {@link ask}
 */
export async function waitFor<T = unknown>(event: string, options: WaitForOptions<T> = {}): Promise<Received<T>> {
  checkName("waitFor", event);
  const { timeout, value: schema } = options;
  const site = siteAt(`waitFor(${JSON.stringify(event)})`);
  const taken = await waitAt(site, {
    kind: "event",
    name: event,
    value: { type: "event", event },
    due: timeout === undefined ? undefined : (now) => momentMs("timeout", timeout, now),
  });
  const { type, by, at, value } = taken.decision;
  if (type === "due") return { timedOut: true, value: undefined, by, at };
  const checked = schema === undefined ? value : await accepted(site, taken, schema, value);
  return { timedOut: false, value: checked as T, by, at };
}

/** Pauses the thread for a while. The time begins at the first call and is kept in the row. @throws as {@link ask} */
export async function sleep(duration: Duration, options: { readonly name?: string } = {}): Promise<void> {
  const { name = "sleep" } = options;
  checkName("sleep", name);
  momentMs("sleep(duration)", duration, 0);
  const site = siteAt(`sleep(${JSON.stringify(duration)})`);
  await waitAt(site, {
    kind: "timer",
    name,
    value: { type: "timer" },
    due: (now) => momentMs("duration", duration, now),
  });
}

/** Pauses the thread until a moment; the first call's moment counts. @throws as {@link ask} */
export async function sleepUntil(moment: Date, options: { readonly name?: string } = {}): Promise<void> {
  const { name = "sleepUntil" } = options;
  checkName("sleepUntil", name);
  if (!(moment instanceof Date)) throw invalid(`sleepUntil takes a Date, got ${JSON.stringify(moment)}.`);
  const at = momentMs("sleepUntil(moment)", moment, 0);
  const site = siteAt("sleepUntil()");
  await waitAt(site, { kind: "timer", name, value: { type: "timer" }, due: () => at });
}

function allowedBy(details: boolean, answer: boolean): DecisionType[] {
  if (details) return ["approve", "edit", "reject", "respond"];
  return answer ? ["respond", "reject"] : ["approve", "reject", "respond"];
}

function jsonSchemaOf(schema: Schema<unknown>): unknown {
  try {
    return toJsonSchema(schema as Parameters<typeof toJsonSchema>[0]);
  } catch {
    // Not every schema with `parse` can be shown; it is still applied to the answer.
    return undefined;
  }
}

const ASK_OPTIONS = ["details", "answer", "allow", "name", "assignee", "deadline", "onDeadline", "rejections"];

function checkAsk(question: unknown, options: AskOptions<unknown>): void {
  if (typeof question !== "string" || question === "") {
    throw invalid(
      `ask() takes the question as a text, got ${JSON.stringify(question)}. What is to be approved goes into \`details\`.`,
    );
  }
  for (const option of Object.keys(options)) {
    if (!ASK_OPTIONS.includes(option))
      throw invalid(`ask(): unknown option ${JSON.stringify(option)}. Known: ${ASK_OPTIONS.join(", ")}.`);
  }
  const { allow, name, answer, onDeadline, deadline, rejections } = options;
  if (rejections !== undefined && !(Number.isInteger(rejections) && rejections >= 1))
    throw invalid(`ask(): rejections is ${JSON.stringify(rejections)}; it must be a whole number from 1.`);
  if (name !== undefined) checkName("ask", name);
  if (allow !== undefined && (allow.length === 0 || !allow.every((type) => DECISION_TYPES.includes(type))))
    throw invalid(`ask(): allow is ${JSON.stringify(allow)}; use some of ${DECISION_TYPES.join(", ")}.`);
  if (answer !== undefined && typeof answer.parse !== "function")
    throw invalid("ask(): `answer` must be a schema with `parse`, for example z.object({ … }).");
  if (deadline !== undefined) momentMs("ask(): deadline", deadline, 0);
  const known = onDeadline === undefined || onDeadline === "reject" || onDeadline === "hold";
  if (!known && !(typeof onDeadline === "object" && onDeadline !== null && "value" in onDeadline))
    throw invalid(`ask(): onDeadline is ${JSON.stringify(onDeadline)}; use "reject", "hold" or { value }.`);
  if (onDeadline !== undefined && deadline === undefined) throw invalid("ask(): onDeadline without a deadline.");
}

function checkName(call: string, name: unknown): void {
  if (typeof name === "string" && name !== "" && name.length <= 200 && name.isWellFormed()) return;
  throw invalid(`${call}: a name must be a well-formed text of 1 to 200 characters, got ${JSON.stringify(name)}.`);
}

const invalid = (message: string) => new HoldfastError("INVALID_ARGUMENT", message);
