/** The program `holdfast` as a process, and what it prints, line by line. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import { manifest, root } from "../repository/source-tree.ts";

export type Line = Readonly<Record<string, unknown>>;

export interface Program {
  readonly pid: number;
  /** The next line of JSON with these fields; those in between are passed over. Rejects where the program has ended. */
  line(fields: Line): Promise<Line>;
  signal(name: "SIGTERM" | "SIGINT" | "SIGUSR2" | "SIGKILL"): void;
  /** Exit code (or signal) and what went to stderr. */
  readonly ended: Promise<{ readonly code: number | string; readonly stderr: string }>;
}

/** `holdfast` of this repository. Killed at the latest when the test is over. */
export function start(args: readonly string[], nodeArgs: readonly string[] = []): Program {
  const program = join(root, manifest.bin["holdfast"] as string);
  return startProgram(process.execPath, [...nodeArgs, program, ...args]);
}

interface Surroundings {
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
}

/** Any program. Killed at the latest when the test is over. */
export function startProgram(file: string, args: readonly string[], surroundings: Surroundings = {}): Program {
  const child = spawn(file, args, { ...surroundings, stdio: ["ignore", "pipe", "pipe"] });
  const closed = once(child, "close") as Promise<[number | null, string | null]>;
  const errors = text(child.stderr);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await closed;
  });
  return {
    pid: child.pid as number,
    async line(fields) {
      const passed: string[] = [];
      for (;;) {
        const { value, done } = await lines.next();
        if (done === true) throw new Error(`it ended without the line; it printed ${passed.join(" ")}${await errors}`);
        passed.push(value);
        const line = JSON.parse(value) as Line;
        if (Object.entries(fields).every(([name, wanted]) => line[name] === wanted)) return line;
      }
    },
    signal: (name) => void child.kill(name),
    ended: closed.then(async ([code, signal]) => ({ code: code ?? String(signal), stderr: await errors })),
  };
}
