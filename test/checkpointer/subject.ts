/** What a guarantee is checked on: a library (the real one or a mutant) and one store of it. */

import * as realLibrary from "holdfast";
import type { Backend, Checkpointer, CheckpointerOptions } from "holdfast";
import { newStore, type StoreName } from "../backends-table.ts";
import type { Library } from "../mutants/mutate.ts";

export interface Subject {
  readonly library: typeof realLibrary;
  /** Opens the store; a second time beside the first where the guarantee needs "shared". */
  open(options?: CheckpointerOptions, wrap?: (backend: Backend) => Backend): Promise<Checkpointer>;
  /** Everything stored, as text. */
  contents(): Promise<string>;
}

export interface Guarantee {
  /** As a sentence. */
  readonly name: string;
  /** "shared": several openers at once. */
  readonly needs?: "shared";
  /** Rejects where it does not hold. */
  readonly check: (subject: Subject) => Promise<void>;
}

export async function realSubject(name: StoreName): Promise<Subject> {
  const store = await newStore(name);
  return { library: realLibrary, open: (options, wrap) => store.open(options, wrap), contents: () => store.contents() };
}

/** A mutant over its own memory backend. */
export function memorySubject(library: Library): Subject {
  const state = new library.memory.MemoryState();
  return {
    library: library.holdfast,
    open: async (options = {}, wrap = (same) => same) =>
      new library.holdfast.Checkpointer(wrap(library.memory.memoryBackend({ state })), options),
    contents: async () => JSON.stringify([...state.changes()]),
  };
}

export const at = (thread_id: string, more: Record<string, unknown> = {}) => ({ configurable: { thread_id }, ...more });

/** A promise to be resolved by hand. */
export function gate(): { readonly passed: Promise<void>; open(): void } {
  let open = (): void => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open: () => open() };
}

/** What a promise was rejected with; undefined where it was not. */
export async function errorOf(
  promise: Promise<unknown>,
): Promise<
  { readonly code?: string; readonly message: string; readonly details?: Record<string, unknown> } | undefined
> {
  return promise.then(
    () => undefined,
    (error: { code?: string; message: string }) => error,
  );
}
