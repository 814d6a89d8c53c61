/** Directories and child processes of the backend tests. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

/** A directory that is removed when the test is over. */
export async function scratchDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "holdfast-"));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/** Where the compiled file of a source file is: child processes run what `npm run build` has made. */
export const compiled = (source: string): string => {
  return fileURLToPath(new URL(`../../dist/${source.replace(/\.ts$/, ".js")}`, import.meta.url));
};

export interface Child {
  readonly process: ChildProcess;
  /** The next line of its output; rejects where it has ended. */
  line(): Promise<string>;
  /** Sends the signal; for SIGKILL waits until it is dead. */
  signal(name: "SIGKILL" | "SIGSTOP" | "SIGCONT"): Promise<void>;
}

/** Runs a module given as text in a process of its own, killed at the latest when the test is over. */
export function runChild(source: string): Child {
  const child = spawn(process.execPath, ["--input-type=module", "--eval", source], {
    stdio: ["pipe", "pipe", "inherit"],
    // Names in `source` are resolved from here.
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
  });
  const ended = once(child, "exit");
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  return {
    process: child,
    async line() {
      const { value, done } = await lines.next();
      if (done) throw new Error("the child ended without another line");
      return value;
    },
    async signal(name) {
      child.kill(name);
      if (name === "SIGKILL") await ended;
    },
  };
}
