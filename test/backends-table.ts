/** The three backends as the tests of everything above them see them: one place that opens, reopens and reads a store. */

import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Backend, Checkpointer, type CheckpointerOptions } from "holdfast";
import { jsonlBackend } from "holdfast/checkpointers/jsonl";
import { MemoryState, memoryBackend } from "holdfast/checkpointers/memory";
import { sqliteBackend } from "holdfast/checkpointers/sqlite";
import { onTestFinished } from "vitest";

export type StoreName = "memory" | "jsonl" | "sqlite";

export const storeNames: readonly StoreName[] = ["memory", "jsonl", "sqlite"];

/** Backends that several openers may share at once, as several processes would. */
export const sharedStoreNames: readonly StoreName[] = ["memory", "sqlite"];

/** One empty store of a test. Closed and removed when the test has finished. */
export interface Store {
  readonly name: StoreName;
  /** Opens it; again after a close, or while it is open where the backend allows that. */
  backend(): Promise<Backend>;
  open(options?: CheckpointerOptions, wrap?: (backend: Backend) => Backend): Promise<Checkpointer>;
  /** Everything that is stored, as text: what an id or a value would be found in. Close what is open before. */
  contents(): Promise<string>;
}

/** Speed, not loss of power, is what these tests want; what survives that is tested with the backends. */
const opener = (name: StoreName, directory: string, state: MemoryState): (() => Promise<Backend>) => {
  switch (name) {
    case "memory":
      return async () => memoryBackend({ state });
    case "jsonl":
      return () => jsonlBackend(join(directory, "log"), { fsync: false });
    case "sqlite":
      return () => sqliteBackend(join(directory, "test.db"), { synchronous: "OFF" });
    default: {
      const never: never = name;
      return never;
    }
  }
};

export async function newStore(name: StoreName): Promise<Store> {
  const directory = await mkdtemp(join(tmpdir(), `holdfast-${name}-`));
  const state = new MemoryState();
  const opened: { close(): Promise<void> }[] = [];
  onTestFinished(async () => {
    for (const one of opened) await one.close();
    await rm(directory, { recursive: true });
  });
  const open = opener(name, directory, state);
  const backend = async () => {
    const fresh = await open();
    opened.push(fresh);
    return fresh;
  };
  return {
    name,
    backend,
    open: async (options = {}, wrap = (same) => same) => {
      const saver = new Checkpointer(wrap(await backend()), options);
      opened.unshift(saver);
      return saver;
    },
    contents: async () => (name === "memory" ? JSON.stringify([...state.changes()]) : textOf(directory)),
  };
}

async function textOf(directory: string): Promise<string> {
  let text = "";
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    if (entry.isFile())
      text += `${entry.name}\n${(await readFile(join(entry.parentPath, entry.name))).toString("latin1")}\n`;
  }
  return text;
}
