/** Runs on Postgres: what they cost, and how their commits are heard of. */

import { once } from "node:events";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { type Backend, Checkpointer, type Commit } from "holdfast";
import pg from "pg";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { postgresBackend } from "../../checkpointers/postgres/backend.ts";
import { channelOf } from "../../checkpointers/postgres/listener.ts";
import * as rows from "../../src/testing/backend-rows.ts";
import { at } from "../checkpointer/subject.ts";
import { newSchema, query, quoted } from "../servers/schemas.ts";
import { fenced } from "./fenced.ts";
import { runChild } from "./scratch.ts";
import { countingStatements } from "./statements.ts";
import { watching } from "./wakes.ts";

const url = inject("postgresUrl");
const { accept, fence, move, moved, run, runRow } = rows;

/** A store on a pool of its own. */
async function fresh(config: pg.PoolConfig = {}) {
  const schema = await newSchema();
  const pool = new pg.Pool({ connectionString: url, ...config });
  const backend = await postgresBackend(pool, { schema });
  onTestFinished(async () => {
    await backend.close();
    await pool.end();
  });
  return { schema, pool, backend };
}

function loop(backend: Backend, steps: number) {
  return new StateGraph(Annotation.Root({ n: Annotation<number> }))
    .addNode("step", async ({ n }) => ({ n: n + 1 }))
    .addEdge(START, "step")
    .addConditionalEdges("step", ({ n }) => (n < steps ? "step" : "__end__"))
    .compile({ checkpointer: new Checkpointer(backend) });
}

describe("what a run costs", () => {
  test("a superstep that is fenced is one statement, and so are a start, a claim and an end", async () => {
    const { pool, backend } = await fresh({ max: 2 });
    const statements = countingStatements(pool);
    const own = runRow("r", { key: "k", due: 0 });
    const cost = async (ops: Commit) => {
      const before = statements.count;
      await accept(backend, ...ops);
      return statements.count - before;
    };
    expect(await cost([run(own, null)])).toBe(1);
    expect(await cost([move(own, "running")])).toBe(1);
    const N = 20;
    const app = loop(fenced(backend, fence("r", 1)), N);
    const before = statements.count;
    await app.invoke({ n: 0 }, at("t", { durability: "sync", recursionLimit: 100 }));
    // A load at the start; the input's checkpoint; one for each superstep.
    expect(statements.count - before).toBeGreaterThan(N);
    expect(statements.count - before).toBeLessThanOrEqual(N + 4);
    expect(await cost([fence("r", 1), move(moved(own, "running"), "succeeded")])).toBe(1);
    await expect(app.invoke({ n: 0 }, at("t"))).rejects.toMatchObject({ code: "RUN_LOST" });
  });

  /** Rows of runs that a call has looked at, by the server's own count of the transaction that it is in. */
  async function touched(client: pg.Pool, call: () => Promise<unknown>): Promise<number> {
    await client.query("begin");
    const seen = async () => {
      const { rows: found } = await client.query<{ n: string }>(
        `select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) as n from pg_stat_xact_user_tables
          where relname = 'holdfast_runs'`,
      );
      return Number(found[0]?.n);
    };
    const before = await seen();
    await call();
    const after = await seen();
    await client.query("commit");
    return after - before;
  }

  test.each(["nothing", "analyze", "vacuum analyze"])(
    "a poll beside ten thousand runs that are not to be claimed reads no more than one step to each graph; after %s",
    async (maintenance) => {
      // One connection, so that the calls are inside the transaction that counts.
      const { schema, pool, backend } = await fresh({ max: 1 });
      const statuses = ["waiting", "parked", "succeeded", "failed", "queued"] as const;
      const alone = (id: string, fields: Parameters<typeof runRow>[1]) =>
        run(runRow(id, { thread: `thread of ${id}`, createdAt: 5, due: 5000, ...fields }), null);
      for (const status of statuses) {
        await accept(
          backend,
          ...Array.from({ length: 2000 }, (_, n) => alone(`${status} ${n}`, { status, graph: `g${n % 3}` })),
        );
      }
      // Due, and kept back by one that waits.
      const kept = Array.from({ length: 1000 }, (_, n) =>
        runRow(`kept back ${n}`, { thread: `thread of waiting ${n}`, due: 1 }),
      );
      await accept(backend, ...kept.map((row) => run(row, null)));
      if (maintenance !== "nothing") await query(`${maintenance} ${quoted(schema)}.holdfast_runs`);
      const poll = (dueBy: number) => touched(pool, () => backend.dueRuns({ dueBy, limit: 10 }));
      // Two of each graph: its name, and its earliest moment; and one more where statistics lead the planner to look at the
      // end of an index. Of a long queue no more than what is asked for, of each graph, and then what is handed over.
      const two = { dueBy: 0, limit: 10, graphs: ["g1", "x"] };
      for (const [reads, most] of [
        [await poll(0), 9],
        [await poll(2), 9],
        [await touched(pool, () => backend.dueRuns(two)), 2],
        [await touched(pool, () => backend.nextDue({})), 9],
        [await poll(5000), 72],
      ] as const)
        expect(reads).toBeLessThanOrEqual(most);
      expect((await backend.dueRuns({ dueBy: 5000, limit: 10 })).length).toBe(10);
    },
  );

  test("a page of runs reads its own rows and few more, by thread and by status", async () => {
    const { schema, pool, backend } = await fresh({ max: 1 });
    const statuses = ["waiting", "parked", "succeeded", "failed"] as const;
    const many = Array.from({ length: 4000 }, (_, n) =>
      runRow(`${n}`, { status: statuses[n % 4] ?? "queued", createdAt: n, thread: n % 2 === 0 ? "t" : "u" }),
    );
    await accept(backend, ...many.map((row) => run(row, null)));
    await query(`analyze ${quoted(schema)}.holdfast_runs`);
    const after = { createdAt: 1990, id: "" };
    for (const [page, most] of [
      [{ status: ["failed"] }, 12],
      [{ thread: "t" }, 60],
      [{ thread: "t", status: ["waiting", "succeeded"] }, 30],
      [{ key: "none" }, 0],
      [{ id: "7" }, 1],
    ] as const) {
      expect(await touched(pool, () => backend.runs({ ...page, limit: 10 })), JSON.stringify(page)).toBeLessThanOrEqual(
        most,
      );
      expect(await touched(pool, () => backend.runs({ ...page, after, limit: 10 }))).toBeLessThanOrEqual(most);
    }
  });
});

/** Sessions that listen to a store. */
const listeners = (schema: string) =>
  query("select pid from pg_stat_activity where query = $1", [`listen ${channelOf(schema)}`]);

const due = (id: string) => run(runRow(id, { thread: id, due: 5 }), null);

describe("whoever listens", () => {
  test("is notified once of a commit that answers a wait or leaves a run that is due, and of no other", async () => {
    const { schema, backend } = await fresh();
    const client = new pg.Client(url);
    await client.connect();
    onTestFinished(() => client.end());
    await client.query(`listen ${channelOf(schema)}`);
    let count = 0;
    client.on("notification", () => {
      count += 1;
    });
    // What was committed before it is told before its answer.
    const heard = async (...ops: Commit) => {
      await client.query("select 1");
      count = 0;
      await accept(backend, ...ops);
      await client.query("select 1");
      return count;
    };
    const later = runRow("later", { thread: "later", due: Date.now() + 1e7 });
    expect(await heard(rows.checkpoint("1"), rows.wait(rows.waitRow("w"), null), run(later, null))).toBe(0);
    expect(await heard(rows.wait(rows.waitRow("w", { status: "answered", rev: 1 }), 0), due("a"), due("b"))).toBe(1);
    const held = rows.waitRow("w", { status: "answered", rev: 2, holder: "me" });
    expect(await heard(rows.wait(held, 1), rows.endWait("w"))).toBe(0);
    const [first, second] = ["1", "2"].map((id) => runRow(id, { due: 5 }));
    if (first === undefined || second === undefined) throw new TypeError();
    await accept(backend, run(first, null), run(second, null));
    expect(await heard(move(first, "running"))).toBe(0);
    expect(await heard(fence("1", 1), rows.checkpoint("2"))).toBe(0);
    expect(await heard(move(moved(first, "running"), "waiting"))).toBe(0);
    expect(await heard(move(moved(moved(first, "running"), "waiting"), "cancelled"))).toBe(1);
    // Judged by rows, in several statements of one transaction.
    expect(await heard(rows.deleteThread("gone"), due("c"), rows.deleteThread("gone"), due("d"))).toBe(1);
    const refused = [due("e"), rows.checkpoint("x", { heads: ["none"] })];
    await rows.refuse(backend, "HEAD_MOVED", ...refused);
    expect(await heard(rows.checkpoint("3"))).toBe(0);
  });

  test.each(["a URL", "a pool"])("hears again, and is called once, when its connection by %s was lost", async (by) => {
    const schema = await newSchema();
    const pool = new pg.Pool({ connectionString: url, max: 2 });
    const backend = await postgresBackend(by === "a URL" ? url : pool, { schema });
    onTestFinished(async () => {
      await backend.close();
      await pool.end();
    });
    const heard = await watching(backend);
    for (let n = 0; n < 3; n++) {
      const [session, ...more] = await listeners(schema);
      expect(more).toEqual([]);
      // Before its end is noticed nothing is made again; the call says that it was.
      await heard.after(() => query("select pg_terminate_backend($1)", [session?.["pid"]]));
      await heard.after(() => accept(backend, due(`${n}`)));
    }
    await heard.close();
    while ((await listeners(schema)).length > 0);
    expect(pool.totalCount).toBeLessThanOrEqual(1);
  });

  test("takes nothing from a pool of one connection, and is told nothing", async () => {
    const { schema, backend } = await fresh({ max: 1 });
    const heard = await watching(backend);
    await accept(backend, due("r"));
    expect([await listeners(schema), heard.count]).toEqual([[], 0]);
    await heard.close();
    expect(await rows.dueIds(backend)).toEqual(["r"]);
  });

  test("is no reason for a finished process to go on", async () => {
    const schema = await newSchema();
    const child = runChild(`
      const { postgresBackend } = await import("holdfast/checkpointers/postgres");
      const backend = await postgresBackend(${JSON.stringify(url)}, { schema: ${JSON.stringify(schema)} });
      await backend.watch(() => {});
      console.log("listening");`);
    const ended = once(child.process, "exit");
    expect(await child.line()).toBe("listening");
    expect(await ended).toEqual([0, null]);
  });

  test("that asks while the server is away hears when it is back, without an error", async () => {
    const schema = await newSchema();
    const wide = new pg.Pool({ connectionString: url, max: 3 });
    let away = true;
    const pool = new Proxy(wide, {
      get(target, name) {
        if (name === "connect" && away) return () => Promise.reject(new Error("connection refused"));
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      },
    });
    away = false;
    const backend = await postgresBackend(pool, { schema });
    onTestFinished(async () => {
      await backend.close();
      await wide.end();
    });
    away = true;
    const heard = await watching(backend);
    away = false;
    while ((await listeners(schema)).length === 0);
    await heard.after(() => accept(backend, due("r")));
  });
});
