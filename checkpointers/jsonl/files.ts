/** The few things the log needs of a file system, so that tests can let each of them fail. */

import { createReadStream, fdatasyncSync, writeSync } from "node:fs";
import { type FileHandle, mkdir, open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";

export interface Files {
  /** Creates the directory and those above it, durably; existing ones are fine. */
  makeDirectory(path: string): Promise<void>;
  /** Bytes of a file; undefined where there is none. */
  size(path: string): Promise<number | undefined>;
  /** The file's bytes, piece by piece. */
  read(path: string): AsyncIterable<Uint8Array>;
  /** For writing: an existing file, or an empty one in place of whatever was there. */
  open(path: string, mode: "existing" | "empty"): Promise<OpenFile>;
  /** Replaces `to`. */
  rename(from: string, to: string): Promise<void>;
  /** No error where there is no such file. */
  remove(path: string): Promise<void>;
  /** Makes names in the directory durable: creations, renames, removals. */
  syncDirectory(path: string): Promise<void>;
}

export interface OpenFile {
  /** Writes at a position; resolves with how many bytes were written, possibly fewer than given. */
  write(bytes: Uint8Array, position: number): Promise<number>;
  truncate(length: number): Promise<void>;
  /** Makes the file's contents and length durable. */
  sync(): Promise<void>;
  close(): Promise<void>;
  /**
   * The same, done when it returns. An append uses these where they are there: LangGraph may give the event loop no turn
   * for a whole run, and a write that waits for one would leave all of the run volatile.
   */
  readonly now?: {
    write(bytes: Uint8Array, position: number): number;
    sync(): void;
  };
}

/** Read in pieces of this size. */
const pieceBytes = 1 << 20;

export const nodeFiles: Files = {
  makeDirectory,
  async size(path) {
    try {
      return (await stat(path)).size;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  },
  read: (path) => createReadStream(path, { highWaterMark: pieceBytes }),
  async open(path, mode) {
    return new NodeFile(await open(path, mode === "existing" ? "r+" : "w"));
  },
  rename,
  async remove(path) {
    await rm(path, { force: true });
  },
  syncDirectory,
};

/** Not `mkdir` with `recursive`: that goes round for ever where a directory refuses children with ENOENT, as /proc does. */
async function makeDirectory(path: string): Promise<void> {
  if (await createDirectory(path)) return;
  await makeDirectory(dirname(path));
  if (!(await createDirectory(path)))
    throw Object.assign(new Error(`ENOENT: no directory can be created at ${path}`), { code: "ENOENT" });
}

/** False where the directory above is missing. */
async function createDirectory(path: string): Promise<boolean> {
  try {
    await mkdir(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST" && (await stat(path)).isDirectory()) return true;
    if (code === "ENOENT" && dirname(path) !== path) return false;
    throw error;
  }
  await syncDirectory(dirname(path));
  return true;
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

class NodeFile implements OpenFile {
  readonly #handle: FileHandle;
  readonly now: NonNullable<OpenFile["now"]>;

  constructor(handle: FileHandle) {
    this.#handle = handle;
    this.now = {
      write: (bytes, position) => writeSync(handle.fd, bytes, 0, bytes.length, position),
      sync: () => fdatasyncSync(handle.fd),
    };
  }

  async write(bytes: Uint8Array, position: number): Promise<number> {
    return (await this.#handle.write(bytes, 0, bytes.length, position)).bytesWritten;
  }

  truncate(length: number): Promise<void> {
    return this.#handle.truncate(length);
  }

  sync(): Promise<void> {
    return this.#handle.datasync();
  }

  close(): Promise<void> {
    return this.#handle.close();
  }
}
