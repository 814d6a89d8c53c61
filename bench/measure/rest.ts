/** A worker that has nothing to do beside many runs that wait, and how soon one of them goes on when it is answered. */

import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { ask, type Checkpointer } from "holdfast";
import { postgres } from "holdfast/checkpointers/postgres";
import { redis } from "holdfast/checkpointers/redis";
import { sqlite } from "holdfast/checkpointers/sqlite";
import { createRuntime } from "holdfast/runs";
import { Redis } from "ioredis";
import pg from "pg";

export interface RestJob {
  readonly kind: "rest";
  readonly backend: "sqlite" | "postgres" | "redis";
  /** Runs that wait for an answer. */
  readonly waiting: number;
  /** How long the worker is looked at while nothing happens. */
  readonly restMs: number;
  /** Answers, one after another. */
  readonly answers: number;
}

const State = Annotation.Root({ decision: Annotation<string> });
const going = new EventTarget();

const build = (checkpointer: Checkpointer) =>
  new StateGraph(State)
    .addNode("ask", async () => {
      const { decision } = await ask("Pay?", { deadline: "30 days" });
      going.dispatchEvent(new Event("on"));
      return { decision };
    })
    .addEdge(START, "ask")
    .compile({ checkpointer });

interface Store {
  open(): Promise<Checkpointer>;
  /** Statements that the server has been sent so far, this one and those by it not among them; undefined where none counts them. */
  statements(): Promise<number | undefined>;
  close(): Promise<void>;
}

/**
 * `cpuPercent`: of one core, by the whole process · `statementsPerS`: by the server's own count; 0 on SQLite, where nothing is
 * sent · `answerP50Ms`, `answerP99Ms`, `answerMaxMs`: from the call of `answer`, on a connection that the worker knows nothing of,
 * to the node that goes on.
 */
export async function measureRest(job: RestJob, dir: string): Promise<Record<string, number>> {
  const store = await storeOf(job.backend, dir);
  const checkpointer = await store.open();
  const graphs = { ask: build(checkpointer) };
  const runtime = createRuntime({ checkpointer, graphs });
  for (let from = 0; from < job.waiting; from += 64) {
    const ids = Array.from({ length: Math.min(64, job.waiting - from) }, (_, i) => `thread ${from + i}`);
    await Promise.all(ids.map((threadId) => runtime.start("ask", { decision: "" }, { threadId })));
  }
  const worker = runtime.worker({ concurrency: 64 }).start();
  while ((await runtime.list({ status: ["queued", "running"], limit: 1 })).length > 0) await wait(200);
  // What the filling has left to be collected and written; Postgres adds up what idle sessions did within ten seconds.
  await wait(12_000);
  const before = { cpu: process.cpuUsage(), statements: await store.statements(), at: performance.now() };
  await wait(job.restMs);
  const cpu = process.cpuUsage(before.cpu);
  const seconds = (performance.now() - before.at) / 1000;
  const sent = ((await store.statements()) ?? 0) - (before.statements ?? 0);

  const elsewhere = await store.open();
  const times: number[] = [];
  for (const { id } of await elsewhere.waits({ status: ["open"], limit: job.answers })) {
    const begun = once(going, "on");
    const start = performance.now();
    await elsewhere.answer(id, { type: "approve" }, { by: "bench" });
    await begun;
    times.push(performance.now() - start);
  }
  times.sort((a, b) => a - b);
  const at = (part: number) => times[Math.min(times.length - 1, Math.floor(times.length * part))] ?? 0;
  await worker.drain();
  await elsewhere.close();
  await checkpointer.close();
  await store.close();
  return {
    cpuPercent: (cpu.user + cpu.system) / 1e4 / seconds,
    statementsPerS: sent / seconds,
    answerP50Ms: at(0.5),
    answerP99Ms: at(0.99),
    answerMaxMs: at(1),
  };
}

async function storeOf(backend: RestJob["backend"], dir: string): Promise<Store> {
  const own = `rest_${process.pid}_${Date.now()}`;
  switch (backend) {
    case "sqlite":
      return {
        open: () => sqlite(join(dir, "rest.db")),
        statements: async () => undefined,
        close: async () => {},
      };
    case "postgres":
      return postgresStore(process.env["HOLDFAST_BENCH_POSTGRES"] as string, own);
    case "redis":
      return redisStore(process.env["HOLDFAST_BENCH_REDIS"] as string, own);
    default: {
      const never: never = backend;
      return never;
    }
  }
}

/** In a database of its own: Postgres counts transactions by database, and each statement at rest is one. */
async function postgresStore(server: string, database: string): Promise<Store> {
  const admin = new pg.Client({ connectionString: server });
  await admin.connect();
  await admin.query(`create database ${database}`);
  const url = new URL(server);
  url.pathname = `/${database}`;
  return {
    open: () => postgres(url.href),
    statements: async () => {
      const { rows } = await admin.query<{ n: string }>(
        "select xact_commit + xact_rollback as n from pg_stat_database where datname = $1",
        [database],
      );
      return Number(rows[0]?.n);
    },
    close: async () => {
      await admin.query(`drop database ${database} with (force)`);
      await admin.end();
    },
  };
}

async function redisStore(url: string, prefix: string): Promise<Store> {
  const admin = new Redis(url);
  return {
    open: () => redis(url, { prefix }),
    // Scripts, and what a thread sends beside them; a `set` inside a script counts as well, at rest once for a script at most.
    statements: async () => {
      const stats = await admin.info("commandstats");
      const calls = stats.matchAll(/^cmdstat_(?:evalsha|eval|set|ping|time):calls=(\d+)/gm);
      return [...calls].reduce((sum, [, n]) => sum + Number(n), 0);
    },
    close: async () => {
      for await (const keys of admin.scanStream({ match: `{${prefix}}:*`, count: 1000 }))
        if ((keys as string[]).length > 0) await admin.unlink(keys as string[]);
      await admin.quit();
    },
  };
}
