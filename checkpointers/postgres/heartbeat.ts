/** Signs of life of an owner, from a thread with a connection of its own, see `owners.ts`. */

import { type Heartbeat, type HeartbeatEvents, startHeartbeat } from "../heartbeat-thread.ts";
import type { PgPoolConfig } from "./driver.ts";

/** A connection that is lost, or does not answer, is made anew for the next sign; the server's clock decides on the rest. */
const PROGRAM = /* js */ `
const { createRequire } = require("node:module");
const { parentPort, workerData } = require("node:worker_threads");
const { from, config, text, values, everyMs } = workerData;
const { Client } = createRequire(from)("pg");
let client, ended = false, timer;
async function beat() {
  try {
    if (client === undefined) {
      const made = new Client({ ...config, query_timeout: everyMs });
      made.on("error", () => { if (client === made) client = undefined; });
      await made.connect();
      client = made;
    }
    await client.query(text, values);
    parentPort.postMessage("beating");
  } catch {
    const failed = client;
    client = undefined;
    failed?.end().catch(() => {});
  }
}
async function run() {
  const begun = performance.now();
  await beat();
  if (ended) process.exit();
  timer = setTimeout(() => { timer = undefined; run(); }, Math.max(0, everyMs - (performance.now() - begun)));
}
parentPort.once("message", () => {
  ended = true;
  if (timer !== undefined) process.exit();
});
run();
`;

export interface Beat {
  readonly config: PgPoolConfig;
  readonly text: string;
  readonly values: readonly unknown[];
  readonly everyMs: number;
}

export function beatOver(beat: Beat, events: HeartbeatEvents): Promise<Heartbeat> {
  return startHeartbeat(PROGRAM, { ...beat, from: import.meta.url }, events);
}
