/** A process asks and dies. Three days later another one, without the graph, takes the answer; any third one finishes. */

import { spawnSync } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { ask, effect } from "holdfast";
import { createApprovals } from "holdfast/approvals";
import { sqlite } from "holdfast/checkpointers/sqlite";
import { z } from "zod";

const MONDAY = Date.parse("2026-03-02T09:00:00Z");
const THURSDAY = MONDAY + 3 * 86_400_000;

async function open(directory: string, now: number) {
  const pay = effect("pay", {
    input: z.object({ to: z.string(), cents: z.number() }),
    run: ({ to, cents }) => appendFileSync(join(directory, "paid.txt"), `${cents} cents to ${to}\n`),
  });
  const State = Annotation.Root({ cents: Annotation<number>(), by: Annotation<string>() });
  const checkpointer = await sqlite(join(directory, "holdfast.db"), { now: () => now });
  const app = new StateGraph(State)
    .addNode("ask", async ({ cents }) => {
      const { approved, value, by } = await ask<{ cents: number }>("Pay the invoice?", {
        details: { to: "ACME", cents },
        deadline: "5 days",
      });
      return { cents: approved ? value.cents : 0, by };
    })
    .addNode("pay", async ({ cents }) => {
      await pay({ to: "ACME", cents });
      return {};
    })
    .addEdge(START, "ask")
    .addConditionalEdges("ask", ({ cents }) => (cents > 0 ? "pay" : END))
    .addEdge("pay", END)
    .compile({ checkpointer });
  return { app, checkpointer };
}

const authenticate = () => ({ user: "ada" });
const die = () => process.kill(process.pid, "SIGKILL");
const config = { configurable: { thread_id: "invoice-17" } };
const [role, directory = mkdtempSync(join(tmpdir(), "holdfast-"))] = process.argv.slice(2);

if (role === "ask") {
  const { app } = await open(directory, MONDAY);
  await app.invoke({ cents: 4200 }, config);
  die();
} else if (role === "approve") {
  // On a real server: serve({ fetch: approvals.fetch }) of @hono/node-server. Without graphs it records decisions only.
  const { checkpointer } = await open(directory, THURSDAY);
  const approvals = createApprovals({ checkpointer, graphs: {}, authenticate });
  const call = async (path: string, body?: unknown) => {
    const headers = { "content-type": "application/json" };
    const init = body === undefined ? {} : { method: "POST", headers, body: JSON.stringify(body) };
    const response = await approvals.fetch(new Request(`http://localhost/${path}`, init));
    return (await response.json()) as Record<string, Record<string, string>> & { waits: Record<string, string>[] };
  };
  for (const { id, question, openedAt } of (await call("approvals")).waits) {
    console.log(`waiting since ${openedAt}: ${question}`);
    const { decision } = await call(`approvals/${id}/edit`, { value: { to: "ACME", cents: 4000 } });
    console.log(`${decision?.["type"]} by ${decision?.["by"]} at ${decision?.["at"]}`);
  }
  die();
} else {
  const start = (name: string) =>
    spawnSync(process.execPath, [fileURLToPath(import.meta.url), name, directory], { stdio: "inherit" }).signal;
  console.log(`asked, and killed with ${start("ask")}`);
  console.log(`approved, and killed with ${start("approve")}`);
  const { app, checkpointer } = await open(directory, THURSDAY);
  const approvals = createApprovals({ checkpointer, graphs: { invoices: app }, authenticate });
  console.log(`resumed: ${(await approvals.resumeDue()).resumed}`);
  console.log(`finished: ${JSON.stringify((await app.getState(config)).values)}`);
  console.log(`paid: ${readFileSync(join(directory, "paid.txt"), "utf8").trim()}`);
  await checkpointer.close();
  rmSync(directory, { recursive: true });
}
