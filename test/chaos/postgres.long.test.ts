/** Postgres goes away again and again while graphs run. */

import pg from "pg";
import { Checkpointer } from "holdfast";
import { postgresBackend } from "../../checkpointers/postgres/backend.ts";
import { afterAll, beforeAll, test } from "vitest";
import { type EmbeddedServer, embeddedPostgres } from "../servers/postgres.ts";
import { proxyTo } from "../servers/proxy.ts";
import { surviveDisturbance } from "./runs.ts";

const RUNS = 2000;
let server: EmbeddedServer;

beforeAll(async () => {
  server = await embeddedPostgres();
});
afterAll(() => server.stop());

async function open(url: string, schema: string): Promise<Checkpointer> {
  const options = { schema, answerTimeoutMs: 2000, retryForMs: 60_000 };
  return new Checkpointer(await postgresBackend(url, options));
}

test("the server is stopped at once and started again: nothing is lost or repeated, and no process dies", async () => {
  const saver = await open(server.url, "restarts");
  await surviveDisturbance(saver, RUNS, {
    everyMs: [5000, 10_000],
    once: async () => {
      await server.crash();
      await server.start();
    },
  });
  await saver.close();
});

test("all sessions are killed again and again: nothing is lost or repeated", async () => {
  const saver = await open(server.url, "sessions");
  await surviveDisturbance(saver, RUNS, {
    everyMs: [300, 1000],
    once: async () => {
      const client = new pg.Client(server.url);
      await client.connect();
      await client.query("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'holdfast'");
      await client.end();
    },
  });
  await saver.close();
});

test("a network cuts connections before and after commits, falls silent, and brings messages late: nothing is lost or repeated", async () => {
  let commits = 0;
  const fates = ["cut before", "cut after", "half open", "keep"] as const;
  const proxy = await proxyTo(server.port, (message) => {
    if (!message.includes("holdfast_commit_1")) return "pass";
    commits += 1;
    return commits % 150 === 0 ? (fates[(commits / 150) % fates.length] ?? "pass") : "pass";
  });
  const url = new URL(server.url);
  url.port = String(proxy.port);
  const saver = await open(url.href, "network");
  await surviveDisturbance(saver, RUNS / 2, { everyMs: [500, 1500], once: () => proxy.release() });
  await saver.close();
  await proxy.close();
});
