/**
 * Databases by URL, for the commands. The one file of src that knows the checkpointers, and only by the name under which the
 * package publishes them, when a command needs one.
 */

import { existsSync } from "node:fs";
import type { Checkpointer } from "../checkpointer.ts";
import { HoldfastError } from "../errors.ts";

export interface StoreFlags {
  readonly url: string;
  readonly schema?: string;
}

export async function backends() {
  return import("holdfast/checkpointers");
}

/**
 * The store that processes share runs in.
 * @param look it is only looked at: what is not there is not made, and an SQLite file is not written to
 */
export async function openStore(
  { url, schema }: StoreFlags,
  { look }: { readonly look: boolean },
): Promise<Checkpointer> {
  const { openCheckpointer } = await backends();
  const scheme = url.slice(0, url.indexOf(":"));
  if (scheme === "memory") {
    throw new HoldfastError(
      "NOT_SUPPORTED",
      `${url} is another store in each process: there is nothing in it. Name a store that processes share, for example sqlite:holdfast.db`,
    );
  }
  const path = url.slice(scheme.length + 1);
  if (look && (scheme === "sqlite" || scheme === "jsonl") && !existsSync(path)) {
    throw new HoldfastError("CANNOT_OPEN", `${url}: there is no such ${scheme === "sqlite" ? "file" : "directory"}.`);
  }
  return openCheckpointer(url, {
    ...(schema === undefined ? {} : { schema }),
    ...(look && scheme === "sqlite" ? { readonly: true } : {}),
  });
}
