import { createHash } from "node:crypto";
import { mkdir, open, rename } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** What was written. */
export interface WrittenFile {
  readonly path: string;
  /** Length in UTF-8 bytes. */
  readonly bytes: number;
  /** 64 hex digits. */
  readonly sha256: string;
}

/**
 * Writes `path` so that a reader sees the old content or the whole new one, never a part: temporary file, fsync,
 * rename, fsync of the directory. Missing directories are made.
 *
 * Doing it twice gives the same file. The temporary file has a fixed name beside `path`, so that an attempt that was
 * killed leaves at most one, which the next attempt overwrites; two processes must not write one path at once.
 */
export async function writeFileAtomic(path: string, content: string): Promise<WrittenFile> {
  const directory = dirname(path);
  await mkdir(directory, { recursive: true });
  const temporary = join(directory, `.${basename(path)}.tmp`);
  const file = await open(temporary, "w");
  try {
    await file.writeFile(content, "utf8");
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, path);
  await syncDirectory(directory);
  const bytes = Buffer.from(content, "utf8");
  return { path, bytes: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") };
}

/** Makes a rename survive a loss of power; without it only the death of the process is survived. */
async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
