/** Real processes that serve the endpoints, the independent counter, and what a death at a point must leave. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Checkpointer } from "holdfast";
import { sqlite } from "holdfast/checkpointers/sqlite";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { kitFile, type ServingChild, serve as serveFile } from "../../src/testing/child.ts";
import type { CounterReport } from "../../src/testing/counter-server.ts";
import { compiled, scratchDirectory } from "../backends/scratch.ts";
import { notice } from "./programs/notice.ts";
import { type Body, serve, thread } from "./served.ts";

let counter: ServingChild;
let runs = 0;

beforeAll(async () => {
  counter = await serveFile(kitFile("counter-server"));
});
afterAll(() => counter.stop());

export interface Site {
  readonly url: string;
  /** Ends it and waits for that; resolves with the signal that it died of. */
  readonly ended: Promise<string | null>;
  stop(): Promise<void>;
}

/** Starts the program `site`; killed at the latest when the test is over. */
export async function site(file: string, env: Readonly<Record<string, string>>, ...args: string[]): Promise<Site> {
  const child = spawn(
    process.execPath,
    ["--import", kitFile("kill").href, compiled("test/approvals/programs/site.ts"), file, ...args],
    { stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, ...env } },
  );
  const ended = once(child, "exit").then(([, signal]) => signal as string | null);
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  const url = await Promise.race([
    once(createInterface({ input: child.stdout }), "line").then(([line]) => String(line)),
    ended.then((signal) => Promise.reject(new Error(`the site ended before it served (${signal})`))),
  ]);
  return {
    url,
    ended,
    stop: async () => {
      child.stdin.end();
      await ended;
    },
  };
}

export async function post(
  url: string,
  path: string,
  body: unknown,
  user = "ada",
): Promise<{ status: number; body: Body }> {
  const response = await fetch(`${url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-user": user },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: (await response.json()) as Body };
}

export async function get(url: string, path: string): Promise<Body> {
  return (await (await fetch(`${url}${path}`)).json()) as Body;
}

export async function stateOf({ url }: Pick<Site, "url">) {
  return (await get(url, "/threads/t/state")) as unknown as { next: string[]; values: Record<string, string> };
}

/** A run of the counter, as an environment for processes and this one, and what was counted in it. */
export function counting(): {
  readonly env: Readonly<Record<string, string>>;
  counts(): Promise<Record<string, number>>;
} {
  const url = `${counter.line}/run-${++runs}`;
  process.env["HOLDFAST_COUNTER_URL"] = url;
  return {
    env: { HOLDFAST_COUNTER_URL: url },
    counts: async () => {
      const { counts } = (await (await fetch(`${url}/report`, { method: "POST" })).json()) as CounterReport;
      return Object.fromEntries(Object.entries(counts).map(([identity, { times }]) => [identity, times]));
    },
  };
}

async function opened(file: string): Promise<Checkpointer> {
  const checkpointer = await sqlite(file);
  onTestFinished(() => checkpointer.close());
  return checkpointer;
}

/** Every point that a process reaches between the request to approve and the end of the thread. */
export async function pointsOf(template: string): Promise<string[]> {
  const { env } = counting();
  const directory = await scratchDirectory();
  const file = join(directory, "holdfast.db");
  await copyFile(template, file);
  const record = join(directory, "points.txt");
  const { url, stop } = await site(file, { ...env, HOLDFAST_KILL_RECORD: record });
  const [wait] = (await get(url, "/approvals")).waits;
  await post(url, `/approvals/${wait?.id}/approve`, {});
  while ((await stateOf({ url })).next.length > 0);
  await stop();
  return (await readFile(record, "utf8")).trimEnd().split("\n");
}

/** A file with one open question. */
export async function template(): Promise<string> {
  const file = join(await scratchDirectory(), "template.db");
  const checkpointer = await sqlite(file);
  await notice(checkpointer).invoke({ subject: "fire drill" }, thread("t", { graph_id: "notice" }));
  await checkpointer.close();
  return file;
}

/** Dies at the point while approving; then another process finishes the thread, with one effect. */
export async function killedAt(point: string, template: string): Promise<void> {
  const { env, counts } = counting();
  const file = join(await scratchDirectory(), "holdfast.db");
  await copyFile(template, file);
  const { url, ended } = await site(file, { ...env, HOLDFAST_KILL_AT: point });
  const [wait] = (await get(url, "/approvals")).waits;
  const answered = await post(url, `/approvals/${wait?.id}/approve`, {}).then(
    ({ status }) => status,
    () => undefined,
  );
  expect({ point, signal: await ended }).toEqual({ point, signal: "SIGKILL" });

  const checkpointer = await opened(file);
  const graph = notice(checkpointer);
  const { approvals, failures, post: again } = serve(checkpointer, { notice: graph });
  const [before] = await checkpointer.waits({});
  // What was answered with 200 is recorded. Where no answer came, whoever asked asks again.
  if (answered === 200) expect({ point, status: before?.status }).not.toEqual({ point, status: "open" });
  if (before?.status === "open") {
    expect((await again(`/approvals/${before.id}/approve`)).status).toBe(200);
    await approvals.idle();
  }
  await approvals.resumeDue();
  const { next, values } = await graph.getState(thread("t"));
  // Once the wait is consumed and the process dies later, whoever watches the thread goes on with it.
  if (next.length > 0) {
    expect({ point, status: (await checkpointer.waits({}))[0]?.status }).toEqual({ point, status: "consumed" });
    await again("/threads/t/runs", { assistant_id: "notice", input: null });
    await approvals.idle();
  }
  expect({ point, values: (await graph.getState(thread("t"))).values, failures }).toMatchObject({
    point,
    values: { ...values, sent: "sent fire drill" },
    failures: [],
  });
  expect({ point, counts: await counts() }).toEqual({ point, counts: { "fire drill": 1 } });
  const { checked, broken } = await checkpointer.verifyDecisions();
  expect({ point, checked, broken }).toEqual({ point, checked: 1, broken: [] });
}
