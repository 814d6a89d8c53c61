import type { Endpoint } from "./shop.ts";

/**
 * What goes wrong with a request, on order.
 *
 * - `late`: the work is done at once, the answer comes after `delayMs`.
 * - `silent`: the work is done, no answer ever comes; the caller runs into its timeout.
 * - `drop`: the work is done, the connection breaks without an answer.
 * - `unavailable`: 503 before the work, and the answer says that nothing was done.
 */
export type FaultKind = "late" | "silent" | "drop" | "unavailable";

export interface Fault {
  readonly endpoint: Endpoint;
  readonly kind: FaultKind;
  /** Requests it applies to, default 1. */
  readonly times?: number;
  /** For `late`, default 100. */
  readonly delayMs?: number;
}

const kinds: readonly string[] = ["late", "silent", "drop", "unavailable"] satisfies FaultKind[];

export function isFaultKind(kind: unknown): kind is FaultKind {
  return typeof kind === "string" && kinds.includes(kind);
}

/** The faults that are due, first ordered, first served. */
export class Faults {
  #due: { readonly fault: Fault; left: number }[] = [];

  add(fault: Fault): void {
    this.#due.push({ fault, left: fault.times ?? 1 });
  }

  /** The fault for this request, if any; it is used up by one. */
  take(endpoint: Endpoint): Fault | undefined {
    const due = this.#due.find((one) => one.fault.endpoint === endpoint);
    if (due === undefined) return undefined;
    due.left -= 1;
    if (due.left <= 0) this.#due = this.#due.filter((one) => one !== due);
    return due.fault;
  }
}
