/**
 * What an endpoint answers instead of a result. Only what stands here leaves the process: a code, a message written for
 * whoever asked, and plain details. Everything else that is thrown becomes a bare 500 with an id.
 */

import { type ErrorCode, type HoldfastError, isHoldfastError } from "../errors.ts";
import type { DecisionRecord } from "../wait-record.ts";
import { decisionView } from "./wait-view.ts";

/** Codes that exist only over HTTP, with their status. The others are those of `HoldfastError`. */
const HTTP_CODES = {
  INVALID_REQUEST: 400,
  UNAUTHENTICATED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  UNKNOWN_ASSISTANT: 404,
  UNKNOWN_THREAD: 404,
  NOTHING_ASKED: 409,
  UNKNOWN_GRAPH: 409,
  WRONG_GRAPH: 409,
  THREAD_BUSY: 409,
  THREAD_UNFINISHED: 409,
  BODY_TOO_LARGE: 413,
  UNSUPPORTED_MEDIA_TYPE: 415,
  UNSUPPORTED_FIELD: 422,
  INVALID_INPUT: 422,
  INTERNAL: 500,
  UNAVAILABLE: 503,
} as const;

export type HttpCode = keyof typeof HTTP_CODES;

/** Errors of the library that are the asker's business, with their status. */
const LIBRARY_CODES: Partial<Record<ErrorCode, 400 | 404 | 409 | 413 | 422>> = {
  INVALID_ID: 400,
  UNKNOWN_WAIT: 404,
  UNKNOWN_RUN: 404,
  RUN_ENDED: 409,
  RUN_KEY_REUSED: 409,
  THREAD_HAS_RUN: 409,
  ALREADY_ANSWERED: 409,
  WAIT_CHANGED: 409,
  THREAD_WAITING: 409,
  AMBIGUOUS_ANSWER: 409,
  HEAD_MOVED: 409,
  THREAD_DELETED: 409,
  INVALID_ANSWER: 422,
  UNSERIALIZABLE_VALUE: 422,
  VALUE_TOO_LARGE: 413,
};

/** The storage cannot answer now; the same request may succeed later. */
const STORAGE_CODES: readonly ErrorCode[] = [
  "BUSY",
  "LOCKED",
  "STORAGE_FAILED",
  "CLOSED",
  "WAIT_CONFLICT",
  "DECISION_CONFLICT",
  "RUN_CONFLICT",
];

/** Messages for whoever asks over HTTP, where the library's own speak to a program. */
const MESSAGES: Partial<Record<ErrorCode, (error: HoldfastError) => string>> = {
  UNKNOWN_WAIT: ({ details: { id, event, thread } }) =>
    event === undefined
      ? `There is no wait with id ${JSON.stringify(id)}.`
      : `Nobody waits for event ${JSON.stringify(event)}${thread === undefined ? "" : ` in thread ${JSON.stringify(thread)}`}. ` +
        "Events are not kept for later: send it again once the thread waits for it.",
  UNKNOWN_RUN: ({ details: { id } }) => `There is no run with id ${JSON.stringify(id)}.`,
  RUN_ENDED: ({ details: { id } }) => `Run ${String(id)} has ended.`,
  THREAD_WAITING: ({ details: { thread } }) =>
    `Thread ${JSON.stringify(thread)} waits for the answers named in the details. New input would drop that, so it was refused and ` +
    'nothing of it is stored. Answer them, or send `"on_paused": "supersede"` to drop them on purpose.',
  AMBIGUOUS_ANSWER: () =>
    "Several questions are open, named in the details. Nothing was recorded: name the one that is answered, for example by " +
    '`"command": { "resume": { "<id>": answer } }`.',
};

/** An answer that is no result, thrown by whoever finds that out. */
export class Problem extends Error {
  readonly code: HttpCode;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(code: HttpCode, message: string, details?: Readonly<Record<string, unknown>>) {
    super(message);
    this.name = "Problem";
    this.code = code;
    this.details = details;
  }
}

export interface ProblemAnswer {
  readonly status: (typeof HTTP_CODES)[HttpCode] | 400 | 404 | 409 | 413 | 422;
  readonly body: {
    readonly error: {
      readonly code: string;
      readonly message: string;
      readonly details?: Readonly<Record<string, unknown>>;
    };
  };
  /** Given where the failure is ours to look into; stands in the answer too. */
  readonly id?: string;
}

/** `newId` names a failure that is only told to `onError`. */
export function answerOf(error: unknown, newId: () => string): ProblemAnswer {
  if (error instanceof Problem) return answer(HTTP_CODES[error.code], error.code, error.message, error.details);
  if (isHoldfastError(error)) {
    const status = LIBRARY_CODES[error.code];
    if (status !== undefined) return answer(status, error.code, messageOf(error), detailsOf(error));
  }
  const id = newId();
  if (isHoldfastError(error) && STORAGE_CODES.includes(error.code)) {
    const message = "The storage cannot answer at the moment. Try again later.";
    return { ...answer(503, "UNAVAILABLE", message, { id }), id };
  }
  return { ...answer(500, "INTERNAL", "The request failed here. Its id is in the log.", { id }), id };
}

function answer(
  status: ProblemAnswer["status"],
  code: string,
  message: string,
  details: Readonly<Record<string, unknown>> | undefined,
): ProblemAnswer {
  return { status, body: { error: { code, message, ...(details === undefined ? {} : { details }) } } };
}

function messageOf(error: HoldfastError): string {
  return MESSAGES[error.code]?.(error) ?? error.message.replace(/ \[[A-Z_]+\]$/, "");
}

function detailsOf({ details }: HoldfastError): Readonly<Record<string, unknown>> {
  const { decision, ...rest } = details;
  return decision === undefined ? rest : { ...rest, decision: decisionView(decision as DecisionRecord) };
}
