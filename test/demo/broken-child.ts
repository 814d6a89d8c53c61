/**
 * The demo's program, broken on purpose as HOLDFAST_TEST_BREAK says: `effects` calls the outside world without effects;
 * `state` forgets after a kill what was there before.
 */

import { randomUUID } from "node:crypto";
import { basename } from "node:path";
import { type Job, runJob } from "../../examples/demo/program.ts";

const job = JSON.parse(process.argv[2] ?? "") as Job;
const broken = process.env.HOLDFAST_TEST_BREAK;
const forgets = broken === "state" && job.variant.saver === "holdfast" && basename(process.cwd()) !== "unbroken";
const answer = await runJob({
  ...job,
  thread: forgets ? randomUUID() : job.thread,
  variant: { ...job.variant, calls: broken === "effects" ? "plain" : job.variant.calls },
});
console.log(JSON.stringify(answer));
