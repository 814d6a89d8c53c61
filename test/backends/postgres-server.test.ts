/** What only Postgres has: rights, schemas, settings, poolers, transactions, and what a commit costs. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Annotation, Send, START, StateGraph } from "@langchain/langgraph";
import { Checkpointer, effect, transaction } from "holdfast";
import pg from "pg";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { z } from "zod";
import { postgresBackend } from "../../checkpointers/postgres/backend.ts";
import {
  accept,
  blob,
  checkpoint,
  codes,
  collect,
  dueIds,
  headOf,
  items,
  run,
  runRow,
  writes,
} from "../../src/testing/backend-rows.ts";
import { at } from "../checkpointer/subject.ts";
import { embeddedPostgres } from "../servers/postgres.ts";
import { freePort } from "../servers/ports.ts";
import { newSchema, query, quoted } from "../servers/schemas.ts";
import { runChild, scratchDirectory } from "./scratch.ts";
import { countingStatements } from "./statements.ts";

const url = inject("postgresUrl");

async function fresh(options: Parameters<typeof postgresBackend>[1] = {}) {
  const schema = await newSchema();
  const backend = await postgresBackend(url, { schema, ...options });
  onTestFinished(() => backend.close());
  return { schema, backend };
}

function poolOf(config: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, ...config });
  onTestFinished(() => pool.end());
  return pool;
}

const State = Annotation.Root({
  n: Annotation<number>,
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

function loop(saver: Checkpointer, steps: number, each: (n: number) => unknown = () => {}) {
  return new StateGraph(State)
    .addNode("step", async ({ n }) => {
      await each(n);
      return { n: n + 1, log: [`step ${n}`] };
    })
    .addEdge(START, "step")
    .addConditionalEdges("step", ({ n }) => (n < steps ? "step" : "__end__"))
    .compile({ checkpointer: saver });
}

describe("what a commit costs", () => {
  test("an ordinary superstep is one statement, and an effect adds two", async () => {
    const pool = poolOf({ max: 2 });
    const statements = countingStatements(pool);
    const saver = new Checkpointer(await postgresBackend(pool, { schema: await newSchema() }));
    onTestFinished(() => saver.close());
    const N = 20;
    await loop(saver, N).invoke({ n: 0 }, at("warm", { durability: "sync", recursionLimit: 100 }));
    statements.count = 0;
    await loop(saver, N).invoke({ n: 0 }, at("t", { durability: "sync", recursionLimit: 100 }));
    const plain = statements.count;
    // A load at the start; the input's checkpoint; one for each superstep.
    expect(plain).toBeGreaterThan(N);
    expect(plain).toBeLessThanOrEqual(N + 4);
    const ping = effect("ping", { input: z.number(), run: (n) => n });
    statements.count = 0;
    await loop(saver, N, ping).invoke({ n: 0 }, at("u", { durability: "sync", recursionLimit: 100 }));
    expect(statements.count - plain).toBeLessThanOrEqual(4 * N);
  });

  test("a fan-out of a thousand Sends is at most 25 statements", async () => {
    const pool = poolOf({ max: 2 });
    const statements = countingStatements(pool);
    const saver = new Checkpointer(await postgresBackend(pool, { schema: await newSchema() }));
    onTestFinished(() => saver.close());
    const app = new StateGraph(State)
      .addNode("one", async ({ n }) => ({ log: [`${n}`] }))
      .addConditionalEdges(START, () => Array.from({ length: 1000 }, (_, n) => new Send("one", { n, log: [] })))
      .compile({ checkpointer: saver });
    statements.count = 0;
    const { log } = await app.invoke({ n: 0 }, at("t", { durability: "sync" }));
    expect(log).toHaveLength(1000);
    expect(statements.count).toBeLessThanOrEqual(25);
  });
});

describe("opening", () => {
  test("six processes that open an empty database at once all come up and all store", async () => {
    const schema = await newSchema();
    const children = Array.from({ length: 6 }, (_, n) =>
      runChild(`
        const { postgresBackend } = await import("holdfast/checkpointers/postgres");
        process.stdin.once("data", async () => {
          const backend = await postgresBackend(${JSON.stringify(url)}, { schema: ${JSON.stringify(schema)} });
          const [verdict] = await backend.commit([[{ kind: "blob", thread: "t", era: 0, hash: "${n}", data: "x" }]]);
          console.log(verdict === undefined ? "stored" : String(verdict));
          await backend.close();
          process.exit();
        });
        console.log("ready");`),
    );
    for (const child of children) expect(await child.line()).toBe("ready");
    for (const child of children) child.process.stdin?.write("go\n");
    for (const child of children) expect(await child.line()).toBe("stored");
    const backend = await postgresBackend(url, { schema });
    expect((await backend.blobs("t", ["0", "1", "2", "3", "4", "5"])).size).toBe(6);
    await backend.close();
  });

  test("a schema of a newer release that says that older code must not touch it is refused by name, any other opened", async () => {
    const { schema, backend } = await fresh();
    await accept(backend, checkpoint("1"));
    const meta = `${quoted(schema)}.holdfast_meta`;
    await query(`update ${meta} set value = 99 where key = 'format'`);
    const other = await postgresBackend(url, { schema });
    expect(await headOf(other)).toBe("1");
    await other.close();
    await query(`update ${meta} set value = 98 where key = 'needs'`);
    await expect(postgresBackend(url, { schema })).rejects.toMatchObject({
      code: "UNSUPPORTED_FORMAT",
      message: expect.stringContaining("format 99, which needs 98"),
    });
    expect(await query(`select value from ${meta} order by key`)).toEqual([{ value: 99 }, { value: 98 }]);
  });

  test("a column that somebody has removed is named, and nothing is stored", async () => {
    const { schema, backend } = await fresh();
    await query(`alter table ${quoted(schema)}.holdfast_checkpoints drop column source`);
    await expect(Promise.resolve(backend.commit([[checkpoint("1")]]))).rejects.toMatchObject({
      code: "STORAGE_FAILED",
      message: expect.stringMatching(/column "source".* \(42703\)\. .*changed by hand/),
    });
    expect(await headOf(backend)).toBeUndefined();
  });

  test("a role that may only read and write rows opens a schema that is there, and is told what it lacks where none is", async () => {
    const { schema } = await fresh();
    const role = `app ${schema}`.slice(0, 40);
    const s = quoted(schema);
    await query(`create role ${quoted(role)} login password 'app'`);
    await query(`grant usage on schema ${s} to ${quoted(role)}`);
    await query(`grant select, insert, update, delete on all tables in schema ${s} to ${quoted(role)}`);
    const as = new URL(url);
    as.username = encodeURIComponent(role);
    as.password = "app";
    const backend = await postgresBackend(as.href, { schema });
    await accept(backend, checkpoint("1"), writes([[0, "c", 1]]), blob("h", "x"), items("l", 0, [1]));
    expect(await headOf(backend)).toBe("1");
    await backend.close();
    await expect(postgresBackend(as.href, { schema: await newSchema() })).rejects.toMatchObject({
      code: "CANNOT_OPEN",
      message: expect.stringContaining("the role may not make Holdfast's tables"),
    });
    await query(`drop owned by ${quoted(role)}`);
    await query(`drop role ${quoted(role)}`);
  });

  test.each([
    ["fsync=on", "synchronous_commit=on", "fsync"],
    ["fsync=on", "synchronous_commit=off", "os"],
    ["fsync=off", "synchronous_commit=on", "os"],
  ])("with %s and %s an acknowledgement survives as the capabilities say", async (fsync, synchronous, durability) => {
    const server = await embeddedPostgres([fsync, synchronous]);
    onTestFinished(() => server.stop());
    const backend = await postgresBackend(server.url);
    expect(backend.capabilities.durability).toBe(durability);
    await backend.close();
  });
});

describe("connections", () => {
  test("a pool of one connection is enough: a run with effects, a list read half way, a transaction", async () => {
    const pool = poolOf({ max: 1 });
    const saver = new Checkpointer(await postgresBackend(pool, { schema: await newSchema() }));
    onTestFinished(() => saver.close());
    const book = transaction("book", {
      input: z.number(),
      run: async (tx: pg.PoolClient, n) => (await tx.query("select $1::int as n", [n])).rows[0] as unknown,
    });
    await loop(saver, 20, book).invoke({ n: 0 }, at("t", { recursionLimit: 100 }));
    const history = saver.list(at("t"));
    await history.next();
    await loop(saver, 3).invoke({ n: 0 }, at("u"));
    expect((await collect(history)).length).toBeGreaterThan(15);
  });

  test("every session is killed inside every node: the run finishes, each effect ran once", async () => {
    const schema = await newSchema();
    const saver = new Checkpointer(await postgresBackend(poolOf({ application_name: schema }), { schema }));
    onTestFinished(() => saver.close());
    const runs = new Map<number, number>();
    const ping = effect("ping", {
      input: z.number(),
      run: async (n) => {
        runs.set(n, (runs.get(n) ?? 0) + 1);
        const sessions = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1";
        expect(await query(sessions, [schema])).not.toEqual([]);
        return n;
      },
    });
    const { n } = await loop(saver, 10, ping).invoke({ n: 0 }, at("t", { recursionLimit: 100 }));
    expect(n).toBe(10);
    expect([...runs.values()]).toEqual(new Array(10).fill(1));
  });

  test("through PgBouncer in transaction mode everything works", async (context) => {
    const found = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].map((path) => spawn("test", ["-x", path]));
    const codes = await Promise.all(found.map(async (child) => (await once(child, "exit"))[0] as number));
    const binary = codes[0] === 0 ? "/usr/sbin/pgbouncer" : codes[1] === 0 ? "/usr/bin/pgbouncer" : undefined;
    if (binary === undefined) {
      if (process.env.CI) throw new Error("PgBouncer is missing; CI must have it");
      context.skip("PgBouncer is not installed");
      return;
    }
    const through = await pgbouncer(binary);
    const saver = new Checkpointer(await postgresBackend(through, { schema: await newSchema() }));
    // Nothing can be heard here, and nothing says so: whoever listens looks by itself as well.
    await saver.backend.watch?.(() => {});
    const ping = effect("ping", { input: z.number(), run: (n) => n });
    const threads = Array.from({ length: 8 }, (_, n) =>
      loop(saver, 5, ping).invoke({ n: 0 }, at(`t${n}`, { durability: "sync" })),
    );
    for (const { n } of await Promise.all(threads)) expect(n).toBe(5);
    expect(await codes2(saver)).toEqual(["HEAD_MOVED"]);
    await accept(saver.backend, run(runRow("r", { thread: "t1", due: 5 }), null));
    expect(await dueIds(saver.backend)).toEqual(["r"]);
    await saver.deleteThread("t0");
    expect(await saver.getTuple(at("t0"))).toBeUndefined();
    await saver.close();
  });
});

const codes2 = (saver: Checkpointer) => codes(saver.backend, [[checkpoint("x", { thread: "t1", heads: [null] })]]);

/** PgBouncer with two server connections; resolves with its URL. */
async function pgbouncer(binary: string): Promise<string> {
  const directory = await scratchDirectory();
  await chmod(directory, 0o777);
  const server = new URL(url);
  const port = await freePort();
  await writeFile(join(directory, "users.txt"), `"${server.username}" "${server.password}"\n`);
  await writeFile(
    join(directory, "pgbouncer.ini"),
    `[databases]
postgres = host=127.0.0.1 port=${server.port} dbname=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = plain
auth_file = ${join(directory, "users.txt")}
pool_mode = transaction
default_pool_size = 2
ignore_startup_parameters = extra_float_digits
`,
  );
  const asRoot = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
  const child = spawn(binary, [join(directory, "pgbouncer.ini")], { stdio: ["ignore", "ignore", "pipe"], ...asRoot });
  const ended = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  for await (const line of child.stderr) if (String(line).includes("process up")) break;
  const through = new URL(url);
  through.port = String(port);
  return through.href;
}

describe("transactions", () => {
  const table = async (schema: string) => {
    await query(`create table ${quoted(schema)}.bookings (n integer)`);
    return `${quoted(schema)}.bookings`;
  };

  test("body and outcome commit together: once each, and what the body throws leaves neither", async () => {
    const { schema, backend } = await fresh();
    const bookings = await table(schema);
    const saver = new Checkpointer(backend);
    let fail = true;
    const book = transaction("book", {
      input: z.number(),
      run: async (tx: pg.PoolClient, n) => {
        await tx.query(`insert into ${bookings} values ($1)`, [n]);
        if (n === 2 && fail) throw new Error("no");
        return n;
      },
    });
    const app = loop(saver, 4, book);
    await expect(app.invoke({ n: 0 }, at("t"))).rejects.toThrow("no");
    expect(await query(`select n from ${bookings} order by n`)).toEqual([{ n: 0 }, { n: 1 }]);
    fail = false;
    await app.invoke(null, at("t"));
    expect(await query(`select n from ${bookings} order by n`)).toEqual([0, 1, 2, 3].map((n) => ({ n })));
    expect((await saver.effects({ thread: "t" })).map(({ status }) => status)).toEqual(new Array(4).fill("done"));
  });

  test("a refused operation takes the body's statements back, and a body that ends the transaction is told", async () => {
    const { schema, backend } = await fresh();
    const bookings = await table(schema);
    await accept(backend, checkpoint("1"));
    const insert = (tx: unknown) => (tx as pg.PoolClient).query(`insert into ${bookings} values (1)`);
    const refused = backend.transaction?.(async (tx) => {
      await insert(tx);
      return { ops: [checkpoint("2", { heads: [null] })], value: 1 };
    });
    await expect(refused).rejects.toMatchObject({ code: "HEAD_MOVED" });
    const ended = backend.transaction?.(async (tx) => {
      await (tx as pg.PoolClient).query("rollback");
      return { ops: [checkpoint("2")], value: 1 };
    });
    await expect(ended).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining("ended the transaction itself"),
    });
    expect(await query(`select n from ${bookings}`)).toEqual([]);
    expect(await headOf(backend)).toBe("1");
  });
});

test("an id that no index can hold refuses its commit and no other", async () => {
  const { backend } = await fresh();
  const long = Array.from({ length: 3000 }, (_, n) => String.fromCodePoint(0x4e00 + ((n * 7919) % 20_000))).join("");
  expect(
    await codes(backend, [[checkpoint("1")], [checkpoint(long)], [blob("h", "x")], [checkpoint("\ud800")]]),
  ).toEqual(["accepted", "INVALID_ID", "accepted", "INVALID_ID"]);
  expect(await headOf(backend)).toBe("1");
});
