/**
 * Signs of life of owners of a database file: a file beside an owner's lock that says until when it is alive at least, by the
 * monotonic clock, which all processes of a machine share, which nobody sets, and which stands still while the machine sleeps.
 *
 * The lock says that a process exists; it says the same of one that is stopped. An owner without such a file has given no sign
 * of life and needs none.
 */

import { readFileSync, rmSync } from "node:fs";
import { type Heartbeat, startHeartbeat } from "../heartbeat-thread.ts";

export const BEAT_SUFFIX = ".beat";

/** Written over in place, always the same length: a reader finds the old moment or the new one. */
const PROGRAM = /* js */ `
const { openSync, writeSync } = require("node:fs");
const { parentPort, workerData } = require("node:worker_threads");
const { file, leaseMs } = workerData;
const fd = openSync(file, "w");
const beat = () => writeSync(fd, String(process.hrtime.bigint() / 1000000n + BigInt(leaseMs)).padStart(20), 0);
beat();
setInterval(beat, leaseMs / 3);
parentPort.once("message", () => process.exit());
parentPort.postMessage("beating");
`;

/** Where the signs of life end by themselves the lock alone counts from then on. */
export async function beatInto(file: string, leaseMs: number): Promise<Heartbeat> {
  const forget = () => rmSync(file, { force: true });
  const thread = await startHeartbeat(PROGRAM, { file, leaseMs }, { lost: forget });
  return {
    stop: async () => {
      await thread.stop();
      forget();
    },
  };
}

/** Whether there is a sign of life, and its time has passed. */
export function hasExpired(file: string): boolean {
  let text: string;
  try {
    text = readFileSync(file, "latin1");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
  // Just made, and still empty.
  return /^ *\d+$/.test(text) && process.hrtime.bigint() / 1_000_000n > BigInt(text.trim());
}
