/** Which errors say that nothing happened outside. */

import { isHoldfastError } from "./errors.ts";

/**
 * The default of `notExecuted`: our `NotExecuted`, a refused connection, a name that does not resolve. Looks at the error
 * and its causes.
 */
export function nothingHappened(error: unknown): boolean {
  for (let at: unknown = error, depth = 0; typeof at === "object" && at !== null && depth < 8; depth += 1) {
    if (isHoldfastError(at, "NOT_EXECUTED")) return true;
    const code = (at as { code?: unknown }).code;
    if (code === "ECONNREFUSED" || code === "ENOTFOUND" || code === "EAI_AGAIN") return true;
    at = (at as { cause?: unknown }).cause;
  }
  return false;
}

/**
 * For `notExecuted`: whether the receiver refused the request with a 4xx status, other than 408, 409, 425 and 429,
 * which may follow a request that was executed. Looks at `status` and `response.status`.
 */
export function http4xx(error: unknown): boolean {
  if (typeof error !== "object" || error === null) return false;
  const { status, response } = error as { status?: unknown; response?: { status?: unknown } };
  const code = Number(status ?? response?.status);
  return code >= 400 && code < 500 && ![408, 409, 425, 429].includes(code);
}
