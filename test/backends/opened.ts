/** A store for the conformance suite, by how it is opened. */

import type { Backend } from "holdfast";
import type { OpenedBackend } from "holdfast/testing";

/** One that several openers share, and that outlives them; `remove` is called when all of them are closed. */
export async function sharedStore(
  openOne: () => Promise<Backend>,
  remove: () => Promise<unknown> = async () => {},
): Promise<OpenedBackend> {
  const opened: Backend[] = [];
  const open = async () => {
    const backend = await openOne();
    opened.push(backend);
    return backend;
  };
  return {
    backend: await open(),
    second: open,
    reopen: open,
    destroy: async () => {
      for (const backend of opened) await backend.close();
      await remove();
    },
  };
}
