/**
 * A worker that blocks its event loop inside a node: `blocking-worker.js <file>`, with the store in the environment. It says "blocking", and
 * goes on when the file exists (another worker executes the node), or after 5 s. At the end of its standard input it drains, and
 * prints what it has done.
 */

import { once } from "node:events";
import { existsSync, writeSync } from "node:fs";
import { createRuntime } from "holdfast/runs";
import { openBlocking } from "../blocking-store.ts";
import { blocking } from "./blocking.ts";

const BLOCK_MS = 5000;

const [file = ""] = process.argv.slice(2);
const block = () => {
  writeSync(1, "blocking\n");
  const end = performance.now() + BLOCK_MS;
  while (performance.now() < end && !existsSync(file));
};

const checkpointer = await openBlocking(JSON.parse(process.env["HOLDFAST_TEST_STORE"] ?? "{}"));
const runtime = createRuntime({
  checkpointer,
  graphs: { blocking: blocking(checkpointer, block) },
  onError: () => {},
});
const worker = runtime.worker({ pollMs: 100, takeoverMs: 100 }).start();
await once(process.stdin.resume(), "end");
await runtime.close();
await checkpointer.close();
process.stdout.write(`${JSON.stringify(worker.counts)}\n`);
