import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** The running world. */
export interface WorldProcess {
  /** Base address, without a shop: `http://127.0.0.1:<port>`. */
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts the world as a process of its own and waits for its address. */
export async function startWorld(): Promise<WorldProcess> {
  const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
  const program = fileURLToPath(new URL(`./main.${extension}`, import.meta.url));
  const child = spawn(process.execPath, [program], { stdio: ["pipe", "pipe", "inherit"] });
  const exited = once(child, "exit");
  const line = await Promise.race([
    once(createInterface(child.stdout), "line").then(([text]) => String(text)),
    exited.then(([code]) => Promise.reject(new Error(`The outside world ended at once, with exit code ${code}.`))),
  ]);
  return {
    url: (JSON.parse(line) as { url: string }).url,
    stop: async () => {
      child.stdin.end();
      await exited;
    },
  };
}
