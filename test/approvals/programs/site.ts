/**
 * The endpoints over an SQLite file, in a process of their own: `site.js <file> [sweep]`. Prints its address and ends with
 * its standard input. With `sweep` it looks every 50 ms for threads that nobody goes on with. Whoever sends a request
 * says who they are in the header `x-user`.
 */

import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { createApprovals } from "holdfast/approvals";
import { sqlite } from "holdfast/checkpointers/sqlite";
import { notice } from "./notice.ts";

const [file = "", sweep] = process.argv.slice(2);
const checkpointer = await sqlite(file);
const approvals = createApprovals({
  checkpointer,
  graphs: { notice: notice(checkpointer) },
  authenticate: ({ headers }) => ({ user: headers.get("x-user") ?? "nobody" }),
  intervalMs: 50,
});
if (sweep === "sweep") approvals.start();
const server = serve({ fetch: approvals.fetch, port: 0, hostname: "127.0.0.1" });
await once(server, "listening");
process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
process.stdin.on("end", () => process.exit(0)).resume();
