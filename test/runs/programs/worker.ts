/**
 * A worker on Postgres, `worker.js <schema> <leaseMs>`, or on an SQLite file, `worker.js <path> <leaseMs>`. Its effect counts in the outside world, says "inside", and returns
 * when a line comes on standard input; with `before` as third argument it waits before it counts. At the end of its standard
 * input it drains, and prints what it has done.
 */

import { once } from "node:events";
import { createInterface } from "node:readline";
import { postgres } from "holdfast/checkpointers/postgres";
import { sqlite } from "holdfast/checkpointers/sqlite";
import { createRuntime } from "holdfast/runs";
import { charging } from "./charging.ts";

const [place = "", lease = "", before] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin });
const said = once(lines, "line");
const ended = once(lines, "close");
const hold = async () => {
  process.stdout.write("inside\n");
  await said;
};

const leaseMs = Number(lease);
const checkpointer = place.endsWith(".db")
  ? await sqlite(place, { leaseMs })
  : await postgres(process.env["HOLDFAST_TEST_POSTGRES"] ?? "", { schema: place, leaseMs });
const graphs = { charge: charging(checkpointer, before === "before" ? { before: hold } : { after: hold }) };
const runtime = createRuntime({ checkpointer, graphs, onError: () => {} });
const worker = runtime.worker({ pollMs: 50, takeoverMs: 50 }).start();
await ended;
await runtime.close();
await checkpointer.close();
process.stdout.write(`${JSON.stringify(worker.counts)}\n`);
