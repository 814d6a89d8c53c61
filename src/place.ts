/** Which thread, namespace and checkpoint a saver call is about, with ids checked before anything is touched. */

import { HoldfastError } from "./errors.ts";

/** Longest thread id, namespace, checkpoint id or task id, in UTF-16 units; the same on every backend. */
export const ID_MAX = 4000;

export interface Place {
  readonly thread: string;
  readonly ns: string;
  readonly checkpoint: string | undefined;
}

/** Any well-formed string of up to {@link ID_MAX} characters is an id; no character in it has a meaning. */
export function checkId(what: string, id: string): string {
  if (id.length > ID_MAX) {
    throw new HoldfastError(
      "INVALID_ID",
      `${what} has ${id.length} characters, the most is ${ID_MAX}. It begins ${JSON.stringify(id.slice(0, 40))}.`,
      {
        details: { what, length: id.length, max: ID_MAX },
      },
    );
  }
  if (!id.isWellFormed()) {
    throw new HoldfastError(
      "INVALID_ID",
      `${what} ${JSON.stringify(id)} holds half a surrogate pair, which no store keeps apart. Use a well-formed string.`,
      {
        details: { what },
      },
    );
  }
  return id;
}

/** @throws MISSING_THREAD_ID, INVALID_ID */
export function placeOf(config: { readonly configurable?: Readonly<Record<string, unknown>> | undefined }): Place {
  const { thread_id, checkpoint_ns, checkpoint_id, thread_ts } = config.configurable ?? {};
  if (thread_id === undefined || thread_id === null || thread_id === "") {
    throw new HoldfastError(
      "MISSING_THREAD_ID",
      'The config names no thread. Pass one: app.invoke(input, { configurable: { thread_id: "order-17" } }).',
    );
  }
  const checkpoint = checkpoint_id || thread_ts;
  return {
    thread: checkId("thread_id", String(thread_id)),
    ns: checkId("checkpoint_ns", checkpoint_ns === undefined || checkpoint_ns === null ? "" : String(checkpoint_ns)),
    checkpoint: checkpoint ? checkId("checkpoint_id", String(checkpoint)) : undefined,
  };
}
