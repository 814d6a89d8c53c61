/** Signs of life of an owner, from a thread with a connection of its own, see `owners.ts`. */

import { type Heartbeat, type HeartbeatEvents, startHeartbeat } from "../heartbeat-thread.ts";

const PROGRAM = /* js */ `
const { createRequire } = require("node:module");
const { parentPort, workerData } = require("node:worker_threads");
const { from, url, key, leaseMs } = workerData;
const { Redis } = createRequire(from)("ioredis");
const client = new Redis(url, {
  maxRetriesPerRequest: 0,
  commandTimeout: leaseMs / 3,
  retryStrategy: (times) => Math.min(10 * 2 ** Math.min(times, 6), leaseMs / 3),
  connectionName: "holdfast-heartbeat",
});
client.on("error", () => {});
let beating = false, ended = false;
async function beat() {
  if (beating) return;
  beating = true;
  try {
    await client.set(key, "1", "PX", leaseMs);
    parentPort.postMessage("beating");
  } catch {}
  beating = false;
  if (ended) process.exit();
}
setInterval(beat, leaseMs / 3);
parentPort.once("message", () => {
  ended = true;
  if (!beating) process.exit();
});
client.once("ready", beat);
`;

export interface Beat {
  readonly url: string;
  /** Of the owner, with the store's prefix. */
  readonly key: string;
  readonly leaseMs: number;
}

export function beatOver(beat: Beat, events: HeartbeatEvents): Promise<Heartbeat> {
  return startHeartbeat(PROGRAM, { ...beat, from: import.meta.url }, events);
}
