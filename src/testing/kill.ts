/**
 * `node --import holdfast/testing/kill program.js`: a process that kills itself.
 *
 * - `HOLDFAST_KILL_AT=<fault point>`: SIGKILL at that point, at the instruction where it is reached: no handler, no
 *   `finally` and no exit hook runs. The names are those of `fault-points.ts`, for example `commit:3:inside` or
 *   `effect:charge-card:1:after`. A point that is never reached kills nothing.
 * - `HOLDFAST_KILL_RECORD=<file>`: appends the name of every point that is reached, a line each, before acting on it.
 *
 * Without either variable it subscribes to nothing. The program needs no change, and the library has no hooks for this:
 * it only publishes events. Points of worker threads are not counted.
 */

import { appendFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";
import { HoldfastError } from "../errors.ts";
import { isFaultPoint, watchFaultPoints } from "./fault-points.ts";

const killAt = process.env.HOLDFAST_KILL_AT || undefined;
const recordFile = process.env.HOLDFAST_KILL_RECORD || undefined;

function killSelf(): never {
  process.kill(process.pid, "SIGKILL");
  // The signal is on its way; until it is here, this thread executes nothing more.
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

if (isMainThread && (killAt !== undefined || recordFile !== undefined)) {
  if (killAt !== undefined && !isFaultPoint(killAt)) {
    throw new HoldfastError(
      "INVALID_ARGUMENT",
      `HOLDFAST_KILL_AT is ${JSON.stringify(killAt)}, which is no fault point. ` +
        'Examples: "commit:3:before", "commit:3:inside", "effect:charge-card:1:after", "point:after-report:1".',
    );
  }
  watchFaultPoints((point) => {
    if (recordFile !== undefined) appendFileSync(recordFile, `${point}\n`);
    if (point === killAt) killSelf();
  });
}
