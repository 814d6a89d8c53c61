/** What becomes of commits when connections break and servers die. Every test has a server of its own. */

import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { Checkpointer, effect, type CheckpointerOptions } from "holdfast";
import { describeBackend } from "holdfast/testing";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { Cluster } from "ioredis";
import { z } from "zod";
import { redisBackend } from "../../checkpointers/redis/backend.ts";
import type { RedisOptions } from "../../checkpointers/redis/index.ts";
import {
  accept,
  checkpoint,
  codes,
  effectRow,
  headOf,
  ids,
  items,
  effect as effectOp,
  run,
  runRow,
} from "../../src/testing/backend-rows.ts";
import { freePort, ownRedisAvailable, type RedisSettings, redisClient, startRedis } from "../servers/redis.ts";
import { sharedStore } from "./opened.ts";
import { watching } from "./wakes.ts";

async function started(settings: RedisSettings = {}, tcp = false) {
  const server = await startRedis(settings, tcp);
  onTestFinished(() => server.remove());
  const client = redisClient(server.url);
  onTestFinished(() => client.disconnect());
  const open = async (options: RedisOptions = {}, url = server.url) => {
    const backend = await redisBackend(url, options);
    onTestFinished(() => backend.close());
    return backend;
  };
  return { server, client, open };
}

/** Hands bytes on between clients and the server, until it is told to keep the answers to itself. */
async function proxyOf(port: number) {
  let silent = false;
  const sockets = new Set<Socket>();
  const proxy = createServer((down) => {
    const up = connect(port, "127.0.0.1");
    for (const socket of [down, up]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        down.destroy();
        up.destroy();
      });
    }
    down.pipe(up);
    up.on("data", (bytes) => {
      if (!silent) down.write(bytes);
    });
  }).listen({ port: 0, host: "127.0.0.1" });
  await once(proxy, "listening");
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  onTestFinished(() => {
    cut();
    proxy.close();
  });
  return {
    url: `redis://127.0.0.1:${(proxy.address() as { port: number }).port}`,
    cut,
    /** From now on the server's answers are lost. */
    silence: (on: boolean) => {
      silent = on;
    },
  };
}

const portOf = (url: string) => Number(new URL(url).port);

/** A graph of one node with one effect. */
async function runEffect(backend: Awaited<ReturnType<typeof redisBackend>>, options: CheckpointerOptions = {}) {
  let ran = 0;
  const charge = effect("charge", { input: z.number(), run: () => (ran += 1) });
  const State = Annotation.Root({ n: Annotation<number> });
  const app = new StateGraph(State)
    .addNode("pay", async () => ({ n: await charge(1) }))
    .addEdge(START, "pay")
    .compile({ checkpointer: new Checkpointer(backend, options) });
  const outcome = await app
    .invoke({ n: 0 }, { configurable: { thread_id: "t" } })
    .then(() => "done")
    .catch((error: { code?: string }) => error.code);
  return { outcome, ran };
}

describe.skipIf(!ownRedisAvailable)("a Redis server", () => {
  test.each([
    [{ appendonly: "yes", appendfsync: "always" }, "fsync"],
    [{ appendonly: "yes", appendfsync: "always", "no-appendfsync-on-rewrite": "yes" }, "os"],
    [{ appendonly: "yes", appendfsync: "everysec" }, "os"],
    [{ appendonly: "yes", appendfsync: "no" }, "os"],
    [{ appendonly: "no", save: "60 1" }, "none"],
    [{ appendonly: "no" }, "none"],
  ])("with %j keeps what it acknowledges as it is stated: %s", async (settings, durability) => {
    const { open } = await started(settings as RedisSettings);
    expect((await open()).capabilities).toEqual({ processes: "many", durability, transactions: false });
    expect((await open({ durability: "fsync" })).capabilities.durability).toBe("fsync");
  });

  test("that does not tell its settings is believed no more than what it tells", async () => {
    const { client, open } = await started({ appendonly: "yes", appendfsync: "always" }, true);
    await client.acl("SETUSER", "app", "on", ">pass", "~*", "+@all", "-config");
    await client.acl("SETUSER", "blind", "on", ">pass", "~*", "+@all", "-config", "-info");
    const as = (user: string) => `redis://${user}:pass@127.0.0.1:${client.options.port}`;
    expect((await open({}, as("app"))).capabilities.durability).toBe("os");
    const blind = await open({}, as("blind"));
    expect(blind.capabilities.durability).toBe("none");
    expect((await open({ durability: "fsync" }, as("blind"))).capabilities.durability).toBe("fsync");
    expect(blind.name).not.toContain("pass");
    await expect(open({}, as("app").replace("pass", "word"))).rejects.toMatchObject({ code: "CANNOT_OPEN" });
  });

  test("that forgets gets no effect, unless the loss is accepted", async () => {
    const { open } = await started();
    expect(await runEffect(await open({ prefix: "a" }))).toEqual({ outcome: "EFFECT_NOT_DURABLE", ran: 0 });
    expect(await runEffect(await open({ prefix: "b" }), { effectsOnVolatile: true })).toEqual({
      outcome: "done",
      ran: 1,
    });
    expect(await runEffect(await open({ prefix: "c", durability: "os" }))).toEqual({ outcome: "done", ran: 1 });
  });

  test("that may evict keys is refused, unless that is accepted", async () => {
    const { client, open } = await started({ maxmemory: "100mb", "maxmemory-policy": "allkeys-lru" });
    await expect(open()).rejects.toMatchObject({
      code: "CANNOT_OPEN",
      message: expect.stringContaining("allkeys-lru"),
    });
    await open({ allowEviction: true });
    await client.config("SET", "maxmemory-policy", "volatile-ttl");
    await expect(open()).rejects.toMatchObject({ code: "CANNOT_OPEN" });
    await client.config("SET", "maxmemory-policy", "noeviction");
    await open();
  });

  test("that is full fails the commit whole and takes commits again when there is room", async () => {
    const { client, open } = await started();
    const backend = await open();
    await accept(backend, checkpoint("1"));
    await client.config("SET", "maxmemory", "1mb");
    await expect(accept(backend, items("l", 0, [1]), checkpoint("2"))).rejects.toMatchObject({
      code: "STORAGE_FAILED",
      message: expect.stringContaining("maxmemory"),
    });
    await client.config("SET", "maxmemory", "0");
    expect(await headOf(backend)).toBe("1");
    await accept(backend, items("l", 0, [1]), checkpoint("2"));
  });

  test("that is killed and started again with an append-only file has everything that was acknowledged", async () => {
    const { server, open } = await started({ appendonly: "yes", appendfsync: "everysec" });
    const backend = await open();
    for (let at = 0; at < 50; at++) await accept(backend, checkpoint(`${100 + at}`), items("l", at, [at]));
    await server.kill();
    const waiting = accept(backend, checkpoint("200"));
    await server.start();
    await waiting;
    expect((await ids(backend.checkpoints({ thread: "t" }))).length).toBe(51);
    expect((await backend.items("t", "l", 50)).rows.length).toBe(50);
  });

  test("that comes back without what it had acknowledged is noticed by the next commit", async () => {
    const { server, open } = await started();
    const backend = await open();
    await accept(backend, checkpoint("1"));
    await server.kill();
    await server.start();
    await expect(accept(backend, checkpoint("2"))).rejects.toMatchObject({
      code: "STORAGE_FAILED",
      message: expect.stringContaining("has lost commits"),
    });
    expect(await headOf(backend)).toBeUndefined();
    await accept(backend, checkpoint("2"));
  });

  test("that kills the connection, again and again, costs a retry and nothing twice", async () => {
    const { client, open } = await started();
    const backend = await open();
    for (let at = 0; at < 100; at++) {
      const ops = [
        checkpoint(`${at}`, { heads: [at === 0 ? null : `${at - 1}`] }),
        effectOp(effectRow("k", { rev: at }), at === 0 ? null : at - 1),
        items("l", at, [at]),
      ];
      // Both are on their way at once: before the script, or between it and its answer.
      const kill = () => client.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
      await (at % 2 === 0
        ? Promise.all([accept(backend, ...ops), kill()])
        : Promise.all([kill(), accept(backend, ...ops)]));
    }
    expect(await headOf(backend)).toBe("99");
    expect((await backend.effects({ key: "k" }))[0]?.rev).toBe(99);
  });

  test("whose answer is lost has its commit looked up before it is repeated", async () => {
    const { server, client, open } = await started({}, true);
    const proxy = await proxyOf(portOf(server.url));
    const backend = await open({}, proxy.url);
    await accept(backend, checkpoint("1"));
    proxy.silence(true);
    const commit = codes(backend, [[items("l", 0, ["once"])], [checkpoint("2", { heads: ["x"] })]]);
    while ((await client.zcard("{holdfast}:t")) === 0 || !(await stored(client))) await new Promise(setImmediate);
    proxy.silence(false);
    proxy.cut();
    // Judged anew, the first would be refused: its place in the list is taken.
    expect(await commit).toEqual(["accepted", "HEAD_MOVED"]);
    expect((await backend.items("t", "l", 9)).rows.length).toBe(1);
  });

  test("that falls silent with a connection open is found out", async () => {
    const { server, open } = await started({}, true);
    const proxy = await proxyOf(portOf(server.url));
    const backend = await open({ answerTimeoutMs: 200 }, proxy.url);
    await accept(backend, checkpoint("1"));
    proxy.silence(true);
    const commit = accept(backend, items("l", 0, ["once"]));
    const load = backend.load("t", "", undefined);
    setTimeout(() => proxy.silence(false), 500);
    await commit;
    expect((await load).head).toBe("1");
  });

  test("is asked for signs of life by whoever listens, who goes elsewhere when there is none", async () => {
    const { server, client, open } = await started({}, true);
    const proxy = await proxyOf(portOf(server.url));
    const backend = await open({ answerTimeoutMs: 100 }, proxy.url);
    const heard = await watching(backend);
    const subscriber = async () =>
      / *id=(\d+) .* sub=1 /.exec(String(await client.client("LIST", "TYPE", "PUBSUB")))?.[1];
    const first = await subscriber();
    expect(first).toBeDefined();
    const pings = async () => Number(/cmdstat_ping:calls=(\d+)/.exec(await client.info("commandstats"))?.[1] ?? 0);
    while ((await pings()) < 3);
    expect([await subscriber(), heard.count]).toEqual([first, 0]);
    proxy.silence(true);
    while ((await subscriber()) !== undefined);
    await heard.after(async () => proxy.silence(false));
    await heard.after(() => accept(backend, run(runRow("r", { due: 5 }), null)));
  });

  test("that stays away fails calls with STORAGE_FAILED after retryMs, and the process lives on", async () => {
    const { server, open } = await started({ appendonly: "yes" });
    const backend = await open({ retryMs: 100 });
    await accept(backend, checkpoint("1"));
    await server.kill();
    await expect(accept(backend, checkpoint("2"))).rejects.toMatchObject({ code: "STORAGE_FAILED", retryable: true });
    await expect(backend.load("t", "", undefined)).rejects.toMatchObject({ code: "STORAGE_FAILED" });
    await server.start();
    let head: string | undefined;
    while (head === undefined) head = await headOf(backend).catch(() => undefined);
    expect(head).toBe("1");
    await accept(backend, checkpoint("3"));
  });

  test("that is a replica is no place for commits", async () => {
    const { client, open } = await started();
    await client.replicaof("127.0.0.1", "1");
    await expect(open({ retryMs: 50 })).rejects.toMatchObject({ code: "CANNOT_OPEN" });
  });
});

/** Whether the list has its item. */
async function stored(client: ReturnType<typeof redisClient>): Promise<boolean> {
  for (const key of await client.keys("{holdfast}:z:*".replace(/[{}]/g, "?")))
    if ((await client.zrange(key, "0", "-1")).some((member) => member.startsWith("i"))) return true;
  return false;
}

describe.skipIf(!ownRedisAvailable)("a node of a cluster", async () => {
  const SETTINGS = { "cluster-enabled": "yes", "cluster-announce-ip": "127.0.0.1" };
  // With all slots on one node only the rule of a cluster is left: the keys of a script lie in one slot.
  const clustered = async () => {
    const server = await startRedis({ ...SETTINGS, "cluster-port": `${await freePort()}` }, true);
    const client = redisClient(server.url);
    await client.cluster("ADDSLOTSRANGE", "0", "16383");
    while (!String(await client.cluster("INFO")).includes("cluster_state:ok")) await new Promise(setImmediate);
    client.disconnect();
    return server;
  };

  test("is also served through a client for clusters", async () => {
    const server = await clustered();
    onTestFinished(() => server.remove());
    const cluster = new Cluster([{ host: "127.0.0.1", port: portOf(server.url) }]);
    onTestFinished(() => cluster.disconnect());
    const backend = await redisBackend(cluster);
    await accept(backend, checkpoint("1"));
    expect(await headOf(backend)).toBe("1");
    const heard = await watching(backend);
    await heard.after(() => accept(backend, run(runRow("r", { due: 5 }), null)));
    await heard.close();
    await backend.close();
  });

  let shared: ReturnType<typeof clustered> | undefined;
  let stores = 0;
  afterAll(async () => (await shared)?.remove());
  await describeBackend("redisBackend(url)", async () => {
    shared ??= clustered();
    const { url } = await shared;
    stores += 1;
    const prefix = `store${stores}`;
    return sharedStore(() => redisBackend(url, { prefix }));
  });
});
