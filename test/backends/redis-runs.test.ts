/** Runs on Redis: what they cost, how long they keep their thread, and how their commits are heard of. */

import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { type Backend, Checkpointer, type Commit } from "holdfast";
import type { Redis } from "ioredis";
import { describe, expect, onTestFinished, test } from "vitest";
import { redisBackend } from "../../checkpointers/redis/backend.ts";
import type { RedisOptions } from "../../checkpointers/redis/index.ts";
import * as rows from "../../src/testing/backend-rows.ts";
import {
  ownRedisAvailable,
  redisAvailable,
  redisClient,
  removeRedisStore,
  sharedRedis,
  startRedis,
} from "../servers/redis.ts";
import { fenced } from "./fenced.ts";
import { watching } from "./wakes.ts";

const { accept, checkpoint, deleteThread, fence, move, moved, run, runRow } = rows;

/** A store of its own, and a client to look behind it. */
async function fresh(options: RedisOptions = {}) {
  const { url, prefix } = await sharedRedis();
  const client = redisClient(url);
  onTestFinished(() => client.disconnect());
  const open = async (more: RedisOptions = {}) => {
    // No sign of life comes in between where calls are counted.
    const backend = await redisBackend(url, { prefix, leaseMs: 3_600_000, ...options, ...more });
    onTestFinished(() => backend.close());
    return backend;
  };
  onTestFinished(() => removeRedisStore(url, prefix));
  return { url, prefix, client, open, backend: await open(), key: (name: string) => `{${prefix}}:${name}` };
}

/** How often a command was called while `body` ran, also by scripts. */
async function calls(client: Redis, body: () => Promise<unknown>, names = /^(?:evalsha|eval)$/): Promise<number> {
  await client.config("RESETSTAT");
  await body();
  const stats = await client.info("commandstats");
  return [...stats.matchAll(/cmdstat_([\w|]+):calls=(\d+)/g)].reduce(
    (sum, [, name, n]) => (names.test(String(name)) ? sum + Number(n) : sum),
    0,
  );
}

const due = (id: string) => run(runRow(id, { thread: id, due: 5 }), null);

describe.skipIf(!redisAvailable)("runs on Redis", () => {
  test("a superstep that is fenced is one round trip, and so are a start, a claim, an end and what is refused of them", async () => {
    const { client, backend } = await fresh({ durability: "os" });
    const own = runRow("r", { key: "k", due: 0 });
    const cost = (...group: Commit[]) => calls(client, async () => backend.commit(group));
    // The server has the scripts from here on.
    await accept(backend, checkpoint("1", { thread: "u" }));
    await backend.load("u", "", undefined);
    expect(await cost([run(own, null)])).toBe(1);
    expect(await cost([move(own, "running")], [run(own, null)], [due("other")])).toBe(1);
    const N = 20;
    const app = new StateGraph(Annotation.Root({ n: Annotation<number> }))
      .addNode("step", async ({ n }) => ({ n: n + 1 }))
      .addEdge(START, "step")
      .addConditionalEdges("step", ({ n }) => (n < N ? "step" : "__end__"))
      .compile({ checkpointer: new Checkpointer(fenced(backend, fence("r", 1))) });
    const config = { configurable: { thread_id: "t" }, durability: "sync" as const, recursionLimit: 100 };
    // One to load the thread, two to begin it and to end the run.
    expect(await calls(client, () => app.invoke({ n: 0 }, config))).toBeLessThanOrEqual(N + 3);
    expect(await cost([fence("r", 1), move(moved(own, "running"), "succeeded")])).toBe(1);
    await expect(app.invoke({ n: 0 }, config)).rejects.toMatchObject({ code: "RUN_LOST" });
  });

  test("a poll beside ten thousand runs that are not to be claimed looks at none of them", async () => {
    const { client, backend } = await fresh();
    const alone = (id: string, fields: Parameters<typeof runRow>[1]) =>
      run(runRow(id, { thread: `thread of ${id}`, createdAt: 5, due: 5000, ...fields }), null);
    for (const status of ["waiting", "parked", "succeeded", "failed", "queued"] as const) {
      const many = Array.from({ length: 2000 }, (_, n) => alone(`${status} ${n}`, { status, graph: `g${n % 3}` }));
      await accept(backend, ...many);
    }
    // Due, and kept back by one that waits.
    const kept = Array.from({ length: 1000 }, (_, n) =>
      runRow(`kept ${n}`, { thread: `thread of waiting ${n}`, due: 1 }),
    );
    await accept(backend, ...kept.map((row) => run(row, null)));
    const poll = (dueBy: number, names: RegExp) => calls(client, () => backend.dueRuns({ dueBy, limit: 10 }), names);
    const [names, all] = [/^zrangebylex$/, /^(?!config|info)/];
    await poll(0, all);
    // Two of each of four graphs, its name and whether anything of it is due; and that there is no fifth.
    expect(await poll(0, names)).toBe(9);
    expect(await poll(0, all)).toBe(10);
    expect(await poll(2, all)).toBe(11);
    expect(await calls(client, () => backend.dueRuns({ dueBy: 0, limit: 10, graphs: ["g1", "x"] }), all)).toBe(3);
    await backend.nextDue({});
    expect(await calls(client, () => backend.nextDue({}), all)).toBe(10);
    // Of a long queue no more than what is handed over: its thread, its row, its body, and whether it is there.
    expect(await poll(5000, all)).toBeLessThanOrEqual(25 + 10 * 5);
    expect((await backend.dueRuns({ dueBy: 5000, limit: 10 })).length).toBe(10);
  });

  test("a page of runs reads its own rows and no other, by thread and by status", async () => {
    const { client, backend } = await fresh();
    const statuses = ["waiting", "parked", "succeeded", "failed"] as const;
    const many = Array.from({ length: 2000 }, (_, n) =>
      runRow(`${n}`, { status: statuses[n % 4] ?? "queued", createdAt: n, thread: n % 2 === 0 ? "t" : "u" }),
    );
    await accept(backend, ...many.map((row) => run(row, null)));
    for (const query of [
      { status: ["failed"] },
      { thread: "t" },
      { thread: "u", status: ["parked", "failed"] },
    ] as const) {
      // Of each its thread, row and body.
      expect(await calls(client, () => backend.runs({ ...query, limit: 10 }), /^hget$/)).toBe(30);
    }
  });

  test("a thread with a ttl is kept while a run of it has not ended, whoever commits, and counts again from its end", async () => {
    const { client, backend, key, open } = await fresh({ ttl: "1 hour" });
    const plain = await open({ ttl: undefined });
    const pttl = async () => {
      const name = (await client.keys("*")).find((name) => name.startsWith(key("h:")));
      return client.pttl(String(name));
    };
    await accept(backend, checkpoint("1"), run(runRow("ended", { status: "failed" }), null));
    expect(await pttl()).toBeGreaterThan(3_590_000);
    const [a, b] = [runRow("a"), runRow("b")];
    await accept(plain, run(a, null), run(b, null));
    expect([await pttl(), await client.zcard(key("x"))]).toEqual([-1, 0]);
    await accept(backend, move(a, "cancelled"), move(b, "running"), fence("b", 1));
    await accept(backend, checkpoint("2"));
    expect(await pttl()).toBe(-1);
    await accept(plain, move(moved(b, "running"), "parked"));
    expect(await pttl()).toBe(-1);
    await accept(plain, run({ ...moved(b, "cancelled"), rev: 3, epoch: 1 }, 2));
    expect(await pttl()).toBeGreaterThan(3_590_000);
    expect(await client.zcard(key("x"))).toBe(1);
    await accept(backend, deleteThread("t"), run(runRow("a"), null, 1));
    expect(await pttl()).toBe(-1);
  });

  test("a run leaves nothing behind in the indexes, however often it is claimed and tried again", async () => {
    const { client, backend, key } = await fresh();
    let row = runRow("r", { owner: "o", key: "k" });
    await accept(backend, run(row, null));
    const sizes = async () => {
      const names = (await client.keys("*")).filter((name) => name.startsWith(key("z:")));
      return Promise.all(
        [key("w"), key("ids"), ...names].map((name) => (name === key("ids") ? client.hlen(name) : client.zcard(name))),
      );
    };
    const before = await sizes();
    for (let n = 1; n <= 20; n++) {
      for (const next of [moved(row, "running"), moved(moved(row, "running"), "retrying", { due: n, priority: n })]) {
        await accept(backend, run(next, row.rev));
        row = next;
      }
    }
    expect(await sizes()).toEqual(before);
  });

  test("what a deletion takes is in the way of no run that begins in the same commit", async () => {
    const { backend } = await fresh();
    await accept(backend, run(runRow("a"), null), run(runRow("b", { key: "k" }), null));
    await accept(backend, move(runRow("a"), "running"));
    const next = runRow("c", { status: "running", epoch: 1, createdAt: 2000, key: "k" });
    await rows.refuse(backend, "RUN_CONFLICT", run({ ...next, key: "l" }, null));
    await accept(backend, deleteThread("t"), run(next, null, 1), fence("c", 1, { era: 1 }));
    expect(await rows.runsOf(backend)).toEqual(["c running 0"]);
    await accept(backend, run(runRow("d", { createdAt: 1, due: 1 }), null, 1));
    expect(await rows.dueIds(backend)).toEqual([]);
    await accept(backend, move(next, "succeeded", {}, 1));
    expect(await rows.dueIds(backend)).toEqual(["d"]);
  });

  test("of runs of one commit that have the same key, or may not run together, the later refuses it", async () => {
    const { backend } = await fresh();
    const [a, b] = [runRow("a", { key: "k", status: "running" }), runRow("b", { key: "l", status: "running" })];
    await rows.refuse(backend, "RUN_CONFLICT", run(a, null), run({ ...b, thread: "u", key: "k" }, null));
    await rows.refuse(backend, "RUN_CONFLICT", run(a, null), run(b, null));
    await accept(backend, run(a, null), run({ ...b, thread: "u" }, null));
  });

  test("runs that have expired with their thread are found no more, and their ids and keys are free", async () => {
    const { client, backend, key } = await fresh({ ttl: "1 hour" });
    const own = runRow("r", { key: "k", owner: "o", status: "succeeded" });
    await accept(backend, run(own, null));
    for (const name of await client.keys("*")) if (name.startsWith(key("h:"))) await client.pexpire(name, 1);
    while ((await client.keys("*")).some((name) => name.startsWith(key("h:"))));
    for (const query of [
      {},
      { id: "r" },
      { key: "k" },
      { thread: "t" },
      { owner: "o" },
      { status: ["succeeded"] },
    ] as const)
      expect(await backend.runs(query)).toEqual([]);
    await accept(backend, run(runRow("r", { thread: "u", key: "k" }), null));
    expect(await rows.dueIds(backend)).toEqual(["r"]);
  });

  test("whoever listens hears again, and is called once, when its connection was lost", async () => {
    const { client, backend } = await fresh();
    const heard = await watching(backend);
    for (let n = 0; n < 3; n++) {
      await heard.after(() => client.call("CLIENT", "KILL", "TYPE", "pubsub"));
      await heard.after(() => accept(backend, due(`${n}`)));
    }
  });

  test("a client that is handed over gets another one beside it to listen, which ends with the watch", async () => {
    const { url, prefix, client } = await fresh();
    const mine = redisClient(url);
    onTestFinished(() => mine.disconnect());
    const backend = await redisBackend(mine, { prefix });
    const heard = await watching(backend);
    await heard.after(() => accept(backend, due("r")));
    const subscribers = async () => [...String(await client.client("LIST")).matchAll(/ sub=1 /g)].length;
    expect(await subscribers()).toBe(1);
    await heard.close();
    while ((await subscribers()) > 0);
    await backend.close();
    expect(await mine.ping()).toBe("PONG");
  });

  test("a client that prefixes keys itself hears too", async () => {
    const { url, prefix } = await fresh();
    const mine = redisClient(url, { keyPrefix: `app-${prefix}:` });
    onTestFinished(() => mine.disconnect());
    const backend = await redisBackend(mine, { prefix });
    onTestFinished(() => backend.close());
    const heard = await watching(backend);
    await heard.after(() => accept(backend, due("r")));
  });
});

describe.skipIf(!ownRedisAvailable)("a Redis server", () => {
  test("whose user may neither publish nor subscribe takes commits all the same, and tells nobody", async () => {
    const server = await startRedis({}, true);
    onTestFinished(() => server.remove());
    const client = redisClient(server.url);
    onTestFinished(() => client.disconnect());
    await client.acl("SETUSER", "app", "on", ">pass", "~*", "resetchannels", "+@all");
    const backend = await redisBackend(`redis://app:pass@127.0.0.1:${client.options.port}`);
    onTestFinished(() => backend.close());
    const heard = await watching(backend);
    await accept(backend, due("r"));
    await accept(backend, checkpoint("1"));
    expect([await rows.dueIds(backend), heard.count]).toEqual([["r"], 0]);
  });

  test("that is away while somebody begins to listen is heard when it is back", async () => {
    const server = await startRedis({ appendonly: "yes" });
    onTestFinished(() => server.remove());
    const backend: Backend = await redisBackend(server.url);
    onTestFinished(() => backend.close());
    await server.kill();
    const heard = await watching(backend);
    await server.start();
    let n = 0;
    while (heard.count === 0) await accept(backend, due(`${n++}`));
  });
});
