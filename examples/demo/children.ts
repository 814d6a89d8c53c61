import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";

/** How a child ended. */
export interface ChildEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ChildOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Module to load before the program: `--import`. */
  readonly preload?: string;
  /** Ends the child with SIGKILL. */
  readonly abort: AbortSignal;
}

/** Runs a program of Node in a process of its own until it ends, however it ends; rejects when aborted. */
export async function runChild(program: string, args: readonly string[], options: ChildOptions): Promise<ChildEnd> {
  options.abort.throwIfAborted();
  const preload = options.preload === undefined ? [] : ["--import", options.preload];
  const child = spawn(process.execPath, [...preload, program, ...args], {
    cwd: options.cwd,
    env: { ...process.env, HOLDFAST_KILL_AT: "", HOLDFAST_KILL_RECORD: "", ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
    signal: options.abort,
    killSignal: "SIGKILL",
  });
  let failure: Error | undefined;
  child.once("error", (error) => {
    failure = error;
  });
  // Also an aborted child is waited for: nobody writes into a directory that is being removed.
  const closed = new Promise<Pick<ChildEnd, "code" | "signal">>((resolve) => {
    child.once("close", (code, signal) => resolve({ code, signal }));
  });
  const [end, stdout, stderr] = await Promise.all([closed, text(child.stdout), text(child.stderr)]);
  if (failure !== undefined) throw failure;
  return { ...end, stdout, stderr };
}

/** Calls `work` for each item, at most `width` at a time; the first error ends it, once those under way have ended. */
export async function inParallel<T>(
  items: readonly T[],
  width: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const rest = items.values();
  const lane = async () => {
    for (const item of rest) await work(item);
  };
  const lanes = await Promise.allSettled(Array.from({ length: width }, lane));
  for (const end of lanes) if (end.status === "rejected") throw end.reason;
}
