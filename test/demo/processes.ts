/** The demo's programs as children of a test. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach } from "vitest";
import type { KilledRun } from "../../examples/demo/killed-run.ts";

const dist = (path: string) => fileURLToPath(new URL(`../../dist/${path}`, import.meta.url));

/** Temporary files of the programs under test go here, so that what they leave behind is seen. */
export let temporary: string;

beforeEach(async () => {
  temporary = await mkdtemp(join(tmpdir(), "holdfast-test-"));
});

afterEach(() => rm(temporary, { recursive: true, force: true }));

export function start(program: string, args: readonly string[], env: Record<string, string> = {}) {
  return spawn(process.execPath, [dist(program), ...args], {
    env: { ...process.env, TMPDIR: temporary, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

export async function finish(child: ReturnType<typeof start>) {
  const [[code], stdout, stderr] = await Promise.all([once(child, "close"), text(child.stdout), text(child.stderr)]);
  return { code: code as number | null, stdout, stderr };
}

export const demo = (args: readonly string[]) => finish(start("examples/demo/main.js", args));

/** One run of the order, killed when the mail has gone out; `broken` as `broken-child.ts` says. */
export async function oneKill(backend: string, broken: string): Promise<KilledRun> {
  const args = [backend, "effect:send-mail:1:after", temporary];
  const { stdout, stderr } = await finish(start("test/demo/one-kill.js", args, { HOLDFAST_TEST_BREAK: broken }));
  if (stderr !== "") throw new Error(stderr);
  return JSON.parse(stdout) as KilledRun;
}
