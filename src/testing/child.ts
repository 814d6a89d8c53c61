/**
 * Node processes as children: started with the kit's own files, waited for to the end, and never left behind.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** Kept of each output stream of a child, from its end. */
const OUTPUT_MAX = 256 * 1024;

export interface ChildEnd {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
  /** It did not end within its time and was killed from outside. */
  readonly timedOut: boolean;
}

export interface ChildOptions {
  readonly nodeArgs?: readonly string[];
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string | undefined;
  readonly timeoutMs: number;
}

/**
 * A file of the kit that Node can execute. Where the kit itself runs from its TypeScript source (its own tests do), this
 * is the compiled one.
 */
export function kitFile(name: string): URL {
  const compiled = import.meta.url.endsWith(".ts") ? `../../dist/src/testing/${name}.js` : `./${name}.js`;
  return new URL(compiled, import.meta.url);
}

const children = new Set<ChildProcess>();

function endAll(): void {
  for (const child of children) child.kill("SIGKILL");
}

/** Kills the child should this process exit first; the listener exists only while there are children. */
export function watch(child: ChildProcess): void {
  if (children.size === 0) process.on("exit", endAll);
  children.add(child);
  child.once("close", () => {
    children.delete(child);
    if (children.size === 0) process.off("exit", endAll);
  });
}

/** Runs `node <program>` to its end. */
export async function runChild(program: string, options: ChildOptions): Promise<ChildEnd> {
  const child = spawn(process.execPath, [...(options.nodeArgs ?? []), program, ...options.args], {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  watch(child);
  const stdout = collect(child, "stdout");
  const stderr = collect(child, "stderr");
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    child.kill("SIGKILL");
  }, options.timeoutMs);
  try {
    const [code, signal] = (await once(child, "close")) as [number | null, string | null];
    return { code, signal, stdout: stdout(), stderr: stderr(), timedOut };
  } finally {
    clearTimeout(timer);
  }
}

function collect(child: ChildProcess, stream: "stdout" | "stderr"): () => string {
  let text = "";
  child[stream]?.setEncoding("utf8").on("data", (chunk: string) => {
    text = (text + chunk).slice(-OUTPUT_MAX);
  });
  return () => text;
}

/** A child that serves until it is stopped. */
export interface ServingChild {
  /** The first line it printed. */
  readonly line: string;
  stop(): Promise<void>;
}

/** Starts `node <file>` and waits for its first line. It is stopped by closing its standard input. */
export async function serve(file: URL): Promise<ServingChild> {
  const child = spawn(process.execPath, [fileURLToPath(file)], { stdio: ["pipe", "pipe", "inherit"] });
  watch(child);
  const closed = once(child, "close");
  const line = await new Promise<string>((resolve, reject) => {
    child.stdout.setEncoding("utf8").once("data", (text: string) => resolve(text.trim()));
    child.once("error", reject);
    child.once("close", (code) => reject(new Error(`${fileURLToPath(file)} ended with code ${code} before it served`)));
  });
  return {
    line,
    stop: async () => {
      child.stdin.end();
      await closed;
    },
  };
}
