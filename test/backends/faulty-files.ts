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
    };
  }

  async #change<T>(what: string, whole: () => Promise<T>, part?: () => Promise<unknown>): Promise<T> {
    this.asked.push(what);
    this.#changes += 1;
    const { at, code, how, times } = this.#plan;
    if (this.#changes < at || this.#changes >= at + times) return whole();
    if (this.#changes === at) {
      if (how === "after") await whole();
      if (how === "partly") await part?.();
    }
    throw Object.assign(new Error(`${code}: injected into change ${this.#changes} (${what})`), { code });
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
      };
    },
  };
}
