/** A file system whose N-th change fails, in front of the real one. Reads and closing always work. */

import { type Files, nodeFiles, type OpenFile } from "../../checkpointers/jsonl/files.ts";

export interface FaultPlan {
  /** The change that fails, from 1. Changes: opening for writing, write, truncate, sync, rename, remove. */
  readonly at: number;
  readonly code: "ENOSPC" | "EIO";
  /** `before`: nothing happens. `partly`: a write puts half of its bytes down. `after`: it happens all the same. */
  readonly how: "before" | "partly" | "after";
  /** How many changes fail from there on, the later ones with nothing done. Infinity: as if the process had died. */
  readonly times: number;
}

export class FaultyFiles implements Files {
  readonly #plan: FaultPlan;
  #changes = 0;
  /** The changes that were asked for, in order. */
  readonly asked: string[] = [];

  constructor(plan: FaultPlan) {
    this.#plan = plan;
  }

  /** Whether the plan's change was reached. */
  get injected(): boolean {
    return this.#changes >= this.#plan.at;
  }

  makeDirectory = nodeFiles.makeDirectory;
  size = nodeFiles.size;
  read = nodeFiles.read;

  async open(path: string, mode: "existing" | "empty"): Promise<OpenFile> {
    if (mode === "existing") return this.#wrap(await nodeFiles.open(path, mode));
    return this.#wrap(await this.#change("create", () => nodeFiles.open(path, mode)));
  }

  rename(from: string, to: string): Promise<void> {
    return this.#change("rename", () => nodeFiles.rename(from, to));
  }

  remove(path: string): Promise<void> {
    return this.#change("remove", () => nodeFiles.remove(path));
  }

  syncDirectory(path: string): Promise<void> {
    return this.#change("sync directory", () => nodeFiles.syncDirectory(path));
  }

  #wrap(file: OpenFile): OpenFile {
    return {
      write: (bytes, position) =>
        this.#change(
          "write",
          () => file.write(bytes, position),
          () => file.write(bytes.subarray(0, Math.ceil(bytes.length / 2)), position),
        ),
      truncate: (length) => this.#change("truncate", () => file.truncate(length)),
      sync: () => this.#change("sync", () => file.sync()),
      close: () => file.close(),
      ...(file.now === undefined ? {} : { now: this.#wrapNow(file.now) }),
    };
  }

  #wrapNow(now: NonNullable<OpenFile["now"]>): NonNullable<OpenFile["now"]> {
    return {
      write: (bytes, position) =>
        this.#changeNow(
          "write",
          () => now.write(bytes, position),
          () => now.write(bytes.subarray(0, Math.ceil(bytes.length / 2)), position),
        ),
      sync: () => this.#changeNow("sync", () => now.sync()),
    };
  }

  #changeNow<T>(what: string, whole: () => T, part?: () => unknown): T {
    const failure = this.#failureOf(what);
    if (failure === undefined) return whole();
    if (failure.acts === "whole") whole();
    if (failure.acts === "part") part?.();
    throw failure.error;
  }

  async #change<T>(what: string, whole: () => Promise<T>, part?: () => Promise<unknown>): Promise<T> {
    const failure = this.#failureOf(what);
    if (failure === undefined) return whole();
    if (failure.acts === "whole") await whole();
    if (failure.acts === "part") await part?.();
    throw failure.error;
  }

  /** Counts a change; how it fails, or undefined where it does not. */
  #failureOf(what: string): { readonly acts: "whole" | "part" | "nothing"; readonly error: Error } | undefined {
    this.asked.push(what);
    this.#changes += 1;
    const { at, code, how, times } = this.#plan;
    if (this.#changes < at || this.#changes >= at + times) return undefined;
    const first = this.#changes === at;
    const acts = first && how === "after" ? "whole" : first && how === "partly" ? "part" : "nothing";
    return {
      acts,
      error: Object.assign(new Error(`${code}: injected into change ${this.#changes} (${what})`), { code }),
    };
  }
}

/** Writes at most so many bytes per call, and reads in pieces as small. */
export function shortFiles(bytesMax: number): Files {
  return {
    ...nodeFiles,
    async *read(path) {
      for await (const piece of nodeFiles.read(path)) {
        for (let at = 0; at < piece.length; at += bytesMax) yield piece.subarray(at, at + bytesMax);
      }
    },
    async open(path, mode) {
      const file = await nodeFiles.open(path, mode);
      return {
        write: (bytes, position) => file.write(bytes.subarray(0, bytesMax), position),
        truncate: (length) => file.truncate(length),
        sync: () => file.sync(),
        close: () => file.close(),
        ...(file.now === undefined
          ? {}
          : {
              now: {
                ...file.now,
                write: (bytes: Uint8Array, at: number) => file.now?.write(bytes.subarray(0, bytesMax), at) ?? 0,
              },
            }),
      };
    },
  };
}
