/** What `postgres(url | pool, options)` takes, checked. */

import { invalid, refuseUnknown, show, wholeMs } from "../options.ts";

export interface PostgresOptions {
  /** Schema of the tables; made where it is missing and the role may. Any name. Default `"public"`. */
  readonly schema?: string | undefined;
  /**
   * How long the server takes this process for alive after its last commit or heartbeat, in milliseconds. Default 10,000.
   * An effect whose process is gone is looked after by others when this time is over.
   */
  readonly leaseMs?: number | undefined;
  /**
   * How long a commit or read goes on trying while the server cannot be reached, in milliseconds. Default 30,000. What may
   * have happened is looked up before it is repeated.
   */
  readonly retryForMs?: number | undefined;
  /** How long one answer of the server may take before the connection counts as lost, in milliseconds. Default 30,000. */
  readonly answerTimeoutMs?: number | undefined;
}

export interface CheckedOptions {
  readonly schema: string;
  readonly leaseMs: number;
  readonly retryForMs: number;
  readonly answerTimeoutMs: number;
}

const NAMES = ["schema", "leaseMs", "retryForMs", "answerTimeoutMs"];
/** Names of Postgres are at most so many bytes; longer ones would be cut. */
const NAME_BYTES_MAX = 63;
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Refuses names that are no option; `more` are the names that a caller knows besides. */
export function checkNames(options: object, more: readonly string[] = []): void {
  refuseUnknown("postgres()", options, [...NAMES, ...more]);
}

export function checkOptions(options: PostgresOptions): CheckedOptions {
  checkNames(options);
  const { schema = "public", leaseMs = 10_000, retryForMs = 30_000, answerTimeoutMs = 30_000 } = options;
  if (typeof schema !== "string" || schema === "" || schema.includes("\0")) {
    throw invalid(`The option schema is ${show(schema)}, but must be the name of a schema.`);
  }
  if (Buffer.byteLength(schema) > NAME_BYTES_MAX) {
    throw invalid(
      `The option schema is ${show(schema)}, longer than the ${NAME_BYTES_MAX} bytes that Postgres keeps of a name.`,
    );
  }
  if (schema.startsWith("pg_")) {
    throw invalid(`The option schema is ${show(schema)}, but Postgres keeps names that begin with pg_ for itself.`);
  }
  wholeMs("leaseMs", leaseMs, 1000, TIMER_MS_MAX);
  wholeMs("retryForMs", retryForMs, 0, TIMER_MS_MAX);
  wholeMs("answerTimeoutMs", answerTimeoutMs, 100, TIMER_MS_MAX);
  return { schema, leaseMs, retryForMs, answerTimeoutMs };
}

/** Refuses what is neither a URL nor a pool. Resolves to the name of the database in messages: without a password. */
export function checkTarget(target: unknown): string {
  if (typeof target === "string") {
    const url = URL.canParse(target) ? new URL(target) : undefined;
    if (url === undefined || !/^postgres(?:ql)?:\/\//.test(target)) {
      throw invalid(
        `postgres(${JSON.stringify(withoutPassword(target))}): give a URL such as "postgres://user@localhost/database", or a Pool of pg.`,
      );
    }
    return `postgres:${url.host || url.searchParams.get("host") || "localhost"}${url.pathname}`;
  }
  if (typeof (target as { connect?: unknown } | null | undefined)?.connect === "function") return "postgres";
  throw invalid(`postgres(${show(target)}): give a URL such as "postgres://user@localhost/database", or a Pool of pg.`);
}

function withoutPassword(url: string): string {
  return url.replace(/:[^:@/]*@/, ":…@");
}
