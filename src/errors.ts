/**
 * Every error Holdfast throws on purpose. One base class with a string `code`; a subclass only where a caller
 * branches. Each code has a heading of the same name in `docs/errors.md`.
 *
 * Recognise errors with {@link isHoldfastError}, not `instanceof`: two copies of a package in one process are normal.
 */

const BRAND = Symbol.for("holdfast.error");

/** What a caller may do: `true` = the same call may succeed later without a change. */
const RETRYABLE = {
  // arguments and values
  INVALID_ARGUMENT: false,
  MISSING_THREAD_ID: false,
  INVALID_ID: false,
  UNSERIALIZABLE_VALUE: false,
  VALUE_TOO_LARGE: false,
  UNKNOWN_CHECKPOINT: false,
  THREAD_EXISTS: false,
  // stored data
  UNSUPPORTED_FORMAT: false,
  FOREIGN_DATABASE: false,
  CORRUPT_DATA: false,
  // the place where things are kept
  CLOSED: false,
  CANNOT_OPEN: false,
  LOCKED: true,
  BUSY: true,
  STORAGE_FAILED: true,
  DRIVER_MISSING: false,
  NOT_SUPPORTED: false,
  // one lineage per thread
  HEAD_MOVED: false,
  THREAD_DELETED: false,
  WRITE_CONFLICT: false,
  LIST_CONFLICT: false,
  RUN_REFUSED: false,
  // effects
  EFFECT_OUTSIDE_GRAPH: false,
  FOREIGN_CHECKPOINTER: false,
  EFFECT_NOT_DURABLE: false,
  EFFECT_MISMATCH: false,
  EFFECT_IN_DOUBT: true,
  EFFECT_UNKNOWN: false,
  EFFECT_FORKED: false,
  NOT_SIMULATED: false,
  EFFECT_GIVEN_UP: false,
  EFFECT_TIMEOUT: false,
  EFFECT_CONFLICT: true,
  EFFECT_ABORTED: false,
  NOT_EXECUTED: true,
  SETTLE_CONFLICT: false,
  UNKNOWN_EFFECT: false,
  // runs
  RUN_CONFLICT: false,
  RUN_LOST: false,
  UNKNOWN_RUN: false,
  RUN_KEY_REUSED: false,
  RUN_ENDED: false,
  THREAD_HAS_RUN: false,
  // waits
  WAIT_CONFLICT: false,
  DECISION_CONFLICT: true,
  ALREADY_ANSWERED: false,
  UNKNOWN_WAIT: false,
  WAIT_CHANGED: false,
  QUESTION_CHANGED: false,
  AMBIGUOUS_ANSWER: false,
  INVALID_ANSWER: false,
  THREAD_WAITING: false,
  WAIT_STRANDED: false,
  JOURNAL_FAILED: true,
} as const;

/** A stable identifier of one kind of failure; anchors a heading in `docs/errors.md`. */
export type ErrorCode = keyof typeof RETRYABLE;

/** All codes, for tests and documentation. */
export const errorCodes = Object.keys(RETRYABLE) as ErrorCode[];

export interface ErrorOptions {
  cause?: unknown;
  /** Ids and values the message speaks of, for programs. Plain data. */
  details?: Readonly<Record<string, unknown>>;
}

/** Base of all errors thrown on purpose. */
export class HoldfastError extends Error {
  readonly code: ErrorCode;
  /** Whether the same call may succeed later without a change. */
  readonly retryable: boolean;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(`${message} [${code}]`, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "HoldfastError";
    this.code = code;
    this.retryable = RETRYABLE[code];
    this.details = options.details ?? {};
    Object.defineProperty(this, BRAND, { value: true });
  }
}

/** Whether `error` is one of ours, also across copies of the package; with `code`, whether it is that kind. */
export function isHoldfastError(error: unknown, code?: ErrorCode): error is HoldfastError {
  return (
    typeof error === "object" &&
    error !== null &&
    (error as Record<symbol, unknown>)[BRAND] === true &&
    (code === undefined || (error as HoldfastError).code === code)
  );
}

/**
 * The effect was called before with another input: in this task (an id, a time or a model's text in the input has
 * changed since), or under the same given key.
 */
export class EffectMismatchError extends HoldfastError {
  constructor(message: string, options?: ErrorOptions) {
    super("EFFECT_MISMATCH", message, options);
    this.name = "EffectMismatchError";
  }
}

/** The effect was executed, or begun, outside the current lineage of the thread, and is refused here for that. */
export class ForkedEffectError extends HoldfastError {
  constructor(message: string, options?: ErrorOptions) {
    super("EFFECT_FORKED", message, options);
    this.name = "ForkedEffectError";
  }
}

/** The effect was begun by an owner that may still be alive; nobody runs it until that is settled. */
export class EffectInDoubtError extends HoldfastError {
  constructor(message: string, options?: ErrorOptions) {
    super("EFFECT_IN_DOUBT", message, options);
    this.name = "EffectInDoubtError";
  }
}

/** Throw it from an effect's `run` to state that nothing happened outside: the next attempt runs it again. */
export class NotExecuted extends HoldfastError {
  constructor(message: string, options?: ErrorOptions) {
    super("NOT_EXECUTED", message, options);
    this.name = "NotExecuted";
  }
}
