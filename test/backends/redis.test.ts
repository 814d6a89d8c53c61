import { randomUUID } from "node:crypto";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { Checkpointer } from "holdfast";
import { describeBackend } from "holdfast/testing";
import type { Redis } from "ioredis";
import { describe, expect, onTestFinished, test } from "vitest";
import { redisBackend } from "../../checkpointers/redis/backend.ts";
import type { RedisOptions } from "../../checkpointers/redis/index.ts";
import {
  accept,
  blob,
  checkpoint,
  codes,
  collect,
  decision,
  decisionRow,
  deleteThread,
  effect,
  effectRow,
  endWait,
  fence,
  headOf,
  ids,
  items,
  run,
  runRow,
  wait,
  waitRow,
  writes,
  writesOf,
} from "../../src/testing/backend-rows.ts";
import { redisAvailable, redisClient, redisContents, removeRedisStore, sharedRedis } from "../servers/redis.ts";
import { sharedStore } from "./opened.ts";

describe.skipIf(!redisAvailable)("Redis", async () => {
  await describeBackend("redisBackend(url)", async () => {
    const { url, prefix } = await sharedRedis();
    return sharedStore(
      () => redisBackend(url, { prefix }),
      () => removeRedisStore(url, prefix),
    );
  });

  /** A store of its own, and a client to look behind it. */
  async function fresh(options: RedisOptions = {}) {
    const { url, prefix } = await sharedRedis();
    const client = redisClient(url);
    onTestFinished(() => client.disconnect());
    const open = async (more: RedisOptions = {}) => {
      const backend = await redisBackend(url, { prefix, ...options, ...more });
      onTestFinished(() => backend.close());
      return backend;
    };
    onTestFinished(() => removeRedisStore(url, prefix));
    return { url, prefix, client, open, backend: await open(), key: (name: string) => `{${prefix}}:${name}` };
  }

  /** How often scripts were called while `body` ran: each is a round trip. */
  async function calls(client: Redis, body: () => Promise<unknown>): Promise<number> {
    await client.config("RESETSTAT");
    await body();
    const stats = await client.info("commandstats");
    return [...stats.matchAll(/cmdstat_(?:evalsha|eval):calls=(\d+)/g)].reduce((sum, [, n]) => sum + Number(n), 0);
  }

  test("a group is one round trip, whatever it holds and whatever is refused in it; so is a load", async () => {
    const { client, backend } = await fresh();
    await accept(backend, checkpoint("1"), blob("h", "data"));
    await headOf(backend);
    const group = [
      [checkpoint("2", { parent: "1", heads: ["1"] }), blob("h2", "x"), items("l", 0, [1]), writes([[0, "c", 1]])],
      [checkpoint("3", { heads: ["1"] })],
      [checkpoint("1", { thread: "u" }), effect(effectRow("k", { thread: "u" }), null)],
      [wait(waitRow("w"), null), decision(decisionRow(1))],
      [deleteThread("v"), endWait("w")],
      [run(runRow("r", { thread: "u", status: "running", epoch: 1 }), null), fence("r", 1, { thread: "u" })],
      [fence("r", 2, { thread: "u" })],
    ];
    let verdicts: string[] = [];
    const commit = async () => {
      verdicts = await codes(backend, group);
    };
    expect(await calls(client, commit)).toBe(1);
    expect(verdicts).toEqual(["accepted", "HEAD_MOVED", ...new Array(4).fill("accepted"), "RUN_LOST"]);
    expect(await calls(client, () => backend.load("t", "", undefined))).toBe(1);
  });

  test("a superstep in sync durability is one round trip, and a run adds what it loads at its beginning", async () => {
    const { client, backend } = await fresh({ durability: "os" });
    const steps = 20;
    const app = new StateGraph(Annotation.Root({ n: Annotation<number> }))
      .addNode("step", async ({ n }) => ({ n: n + 1 }))
      .addEdge(START, "step")
      .addConditionalEdges("step", ({ n }) => (n < steps ? "step" : "__end__"))
      .compile({ checkpointer: new Checkpointer(backend) });
    const config = { configurable: { thread_id: "t" }, durability: "sync" as const };
    const run = async () => void (await app.invoke({ n: 0 }, config));
    // One to load the thread, two to begin it and to end the run.
    expect(await calls(client, run)).toBeLessThanOrEqual(steps + 3);
  });

  test("the first result of a task after its interrupt is one round trip; one that must be compared is three", async () => {
    const { client, backend } = await fresh();
    await accept(backend, checkpoint("1"), writes([[-3, "__interrupt__", "asked"]], { slot: -3 }));
    const call = () => codes(backend, [[writes([[0, "c", 1]])]]);
    expect(await calls(client, call)).toBe(1);
    expect(await calls(client, call)).toBe(3);
    expect(await writesOf(backend)).toEqual([
      'a -3 run 1 json/1 [[-3,"__interrupt__","asked"]]',
      'a 0 run 1 json/1 [[0,"c",1]]',
    ]);
  });

  test("writes that change between the look at them and the commit are compared anew", async () => {
    const { url, prefix, backend, open } = await fresh();
    const other = await open();
    await accept(backend, checkpoint("1"), writes([[0, "c", 1]]));
    // Another process stores a further result exactly between the two calls.
    const client = redisClient(url);
    onTestFinished(() => client.disconnect());
    let looks = 0;
    const between = new Proxy(client, {
      get(target, property) {
        if (property !== "callBuffer") {
          const value: unknown = Reflect.get(target, property, target);
          return typeof value === "function" ? (value.bind(target) as unknown) : value;
        }
        return async (...args: Parameters<Redis["callBuffer"]>) => {
          const answer = (await target.callBuffer(...args)) as unknown;
          if (Array.isArray(answer) && String(answer[0]?.[0]).length === 40 && looks++ === 0)
            await accept(other, writes([[1, "c", "theirs"]], { run: "run 2" }));
          return answer;
        };
      },
    });
    const ours = await redisBackend(between, { prefix });
    onTestFinished(() => ours.close());
    const late = [[checkpoint("2", { parent: "1" }), writes([[1, "c", "ours"]])], [checkpoint("3")]];
    expect(await codes(ours, late)).toEqual(["WRITE_CONFLICT", "accepted"]);
    expect(looks).toBe(2);
    expect(await ids(backend.checkpoints({}))).toEqual(["3", "1"]);
  });

  test("scripts that the server has forgotten are sent again", async () => {
    const { client, backend } = await fresh();
    await accept(backend, checkpoint("1"));
    await client.script("FLUSH");
    await accept(backend, checkpoint("2"));
    await client.script("FLUSH");
    expect(await headOf(backend)).toBe("2");
  });

  test("an id without UTF-8 refuses its commit and no other; no id is in the name of a key", async () => {
    const { client, backend, key } = await fresh();
    const group = [[checkpoint("1")], [checkpoint("2"), blob("h", "data", { thread: "\ud800" })], [blob("h", "data")]];
    expect(await codes(backend, group)).toEqual(["accepted", "INVALID_ID", "accepted"]);
    for (const thread of ["*", "{a}", "}", "a\0b", "😀"])
      await accept(backend, checkpoint("1", { thread, heads: [null] }));
    const keys = await client.keys(key("*").replace(/[{}]/g, "?"));
    expect(keys.filter((name) => !/^\{[\w-]+\}:(?:[a-z]+|[hz]:[0-9a-f]{64}|[lo]:[0-9a-f-]{36})$/.test(name))).toEqual(
      [],
    );
    await accept(backend, deleteThread("*"));
    expect((await ids(backend.checkpoints({}))).length).toBe(5);
  });

  test("a list that is damaged to a ring is read to an end", async () => {
    const { backend } = await fresh();
    await accept(backend, items("l", 3, [3], { base: { list: "m", length: 3 } }));
    await accept(backend, items("m", 3, [3], { base: { list: "l", length: 3 } }));
    expect((await backend.items("t", "l", 4)).rows.length).toBe(1);
  });

  test("every string and every byte array comes back as it went in", async () => {
    const { backend } = await fresh();
    const values: Record<string, string | Uint8Array> = {
      empty: "",
      nul: "a\0b\0",
      "half a surrogate": "a\ud800b\udfff",
      "looks encoded": 'j"x"',
      bytes: Uint8Array.of(0, 255, 216, 0),
      "no bytes": new Uint8Array(),
      "a part of a buffer": new Uint8Array(Uint8Array.of(9, 1, 2, 9).buffer, 1, 2),
    };
    for (const [name, value] of Object.entries(values)) {
      const body = typeof value === "string" ? `json/1 ${value}` : "json/1 0";
      await accept(backend, blob(name, value), checkpoint(name, { body }), items(name, 0, [1], { body }));
      const found = (await backend.blobs("t", [name])).get(name);
      expect(typeof found === "string" ? found : [...(found ?? [])]).toEqual(
        typeof value === "string" ? value : [...value],
      );
      expect((await backend.load("t", "", name)).checkpoint?.body).toBe(body);
      expect((await backend.items("t", name, 1)).rows[0]?.body).toBe(body);
    }
  });

  test("a deleted thread leaves its id in no key, field, member or value", async () => {
    const { url, prefix, backend } = await fresh();
    const thread = "secret-thread";
    await accept(backend, ...everything(thread), effect(effectRow("given", { thread, ordinal: -1 }), null));
    for (const status of ["queued", "queued", "running"] as const)
      await backend.commit([[run(runRow(`${thread} ${status}`, { ...byThread(thread), key: status, status }), null)]]);
    expect(await redisContents(url, prefix)).toContain(thread);
    await accept(backend, deleteThread(thread));
    expect(await redisContents(url, prefix)).not.toContain(thread);
    expect(await backend.effects({ key: "given" })).toMatchObject([{ thread: "" }]);
  });

  describe("a thread with a ttl", () => {
    /** Lets the moment come at which a thread expires. */
    async function expire(client: Redis, key: (name: string) => string): Promise<void> {
      for (const name of await client.keys("*")) if (name.startsWith(key("h:"))) await client.pexpire(name, 1);
      while ((await client.keys("*")).some((name) => name.startsWith(key("h:"))));
    }

    test("expires whole: nothing of it is found, and a run that loaded it is refused", async () => {
      const { client, backend, key, url, prefix } = await fresh({ ttl: "1 hour" });
      const thread = "secret-thread";
      await accept(backend, ...everything(thread).filter((op) => op.kind !== "wait"), checkpoint("1", { thread: "u" }));
      await accept(backend, effect(effectRow("given", { thread, ordinal: -1 }), null));
      for (const name of await client.keys("*")) {
        if (name.startsWith(key("h:"))) expect(await client.pttl(name)).toBeGreaterThan(3_590_000);
      }
      await expire(client, key);
      expect(await codes(backend, [[blob("h3", "late", { thread })]])).toEqual(["THREAD_DELETED"]);
      expect(await backend.load(thread, "", undefined)).toEqual({
        era: 1,
        head: undefined,
        checkpoint: undefined,
        writes: [],
        waits: [],
      });
      expect(await collect(backend.checkpoints({}))).toEqual([]);
      expect(await backend.effects({ key: `effect of ${thread}` })).toEqual([]);
      expect(await backend.effects({ key: "given" })).toMatchObject([{ thread: "" }]);
      expect(await collect(backend.decisions({}))).toEqual([]);
      await accept(backend, ...everything(thread, 1));
      expect(await headOf(backend, thread)).toBe("1");
      await accept(backend, deleteThread(thread));
      expect(await redisContents(url, prefix)).not.toContain(thread);
    });

    test("is removed from every index by the sign of life of any process", async () => {
      const { client, backend, key, url, prefix, open } = await fresh({ ttl: "1 hour" });
      await accept(backend, ...everything("secret-thread").filter((op) => op.kind !== "wait"));
      await expire(client, key);
      for (const name of await client.keys("*"))
        if (name === key("x")) {
          for (const member of await client.zrange(name, "0", "-1")) await client.zadd(name, "1", member);
        }
      await open();
      expect(await redisContents(url, prefix)).not.toContain("secret-thread");
    });

    test("is kept as long as a wait is open or answered, whoever commits, and counts again from its end", async () => {
      const { client, backend, key, open } = await fresh({ ttl: "1 hour" });
      const plain = await open({ ttl: undefined });
      const pttl = async () => {
        const name = (await client.keys("*")).find((name) => name.startsWith(key("h:")));
        return client.pttl(String(name));
      };
      await accept(backend, checkpoint("1"));
      expect(await pttl()).toBeGreaterThan(3_590_000);
      await accept(plain, wait(waitRow("w"), null), wait(waitRow("v"), null));
      expect(await pttl()).toBe(-1);
      await accept(backend, wait(waitRow("w", { status: "answered", rev: 1 }), 0), endWait("v"));
      await accept(backend, checkpoint("2"));
      expect([await pttl(), await client.zcard(key("x"))]).toEqual([-1, 0]);
      await accept(plain, endWait("w"));
      expect(await pttl()).toBeGreaterThan(3_590_000);
      expect(await client.zcard(key("x"))).toBe(1);
    });

    test("is refreshed by an effect with a given key too, though that outlives it", async () => {
      const { client, backend, key } = await fresh({ ttl: "1 hour" });
      const given = effectRow("given", { ordinal: -1 });
      await accept(backend, effect(given, null));
      const [name] = (await client.keys("*")).filter((name) => name.startsWith(key("h:")));
      await client.pexpire(String(name), 60_000);
      await accept(backend, effect({ ...given, rev: 1, status: "done" }, 0));
      expect(await client.pttl(String(name))).toBeGreaterThan(3_590_000);
      await expire(client, key);
      expect(await backend.effects({ key: "given" })).toMatchObject([{ thread: "", rev: 1 }]);
    });

    test("is refreshed by every commit, also of a process that has no ttl; other threads have none", async () => {
      const { client, backend, key, open } = await fresh({ ttl: "1 hour" });
      const plain = await open({ ttl: undefined });
      await accept(backend, checkpoint("1"));
      const [name] = (await client.keys("*")).filter((name) => name.startsWith(key("h:")));
      await client.pexpire(String(name), 60_000);
      await accept(plain, checkpoint("2"), checkpoint("1", { thread: "u" }));
      expect(await client.pttl(String(name))).toBeGreaterThan(3_590_000);
      const others = (await client.keys("*")).filter((other) => other.startsWith(key("h:")) && other !== name);
      expect(await client.pttl(String(others[0]))).toBe(-1);
    });
  });

  test("an owner that gives no sign of life for its lease is dead, and a commit is one", async () => {
    const { client, backend, key, open } = await fresh();
    const other = await open();
    expect(await client.pttl(key(`o:${other.owner}`))).toBeGreaterThan(5_000);
    await client.del(key(`o:${other.owner}`));
    expect(await backend.ownerAlive(other.owner)).toBe(false);
    await accept(other, checkpoint("1"));
    expect(await backend.ownerAlive(other.owner)).toBe(true);
  });

  test("a store of a newer format that must not be touched is refused by name, one that may be is opened", async () => {
    const { client, backend, key, open, prefix } = await fresh();
    await backend.close();
    await client.hset(key("meta"), { format: "7", needs: "1" });
    await (await open()).close();
    await client.hset(key("meta"), { format: "7", needs: "7" });
    await expect(open()).rejects.toMatchObject({
      code: "UNSUPPORTED_FORMAT",
      message: expect.stringContaining(prefix),
    });
    await client.del(key("meta"));
    await client.set(key("meta"), "another program's");
    await expect(open()).rejects.toMatchObject({ code: "FOREIGN_DATABASE" });
  });

  test("a server that is not there is CANNOT_OPEN; a wrong address, prefix or option is refused at once", async () => {
    const gone = `/tmp/${randomUUID()}.sock`;
    await expect(redisBackend(gone, { retryMs: 0 })).rejects.toMatchObject({ code: "CANNOT_OPEN" });
    const wrong: [string, object][] = [
      ["localhost:6379", {}],
      ["redis:", {}],
      [gone, { prefix: "a{b}" }],
      [gone, { tll: "1 h" }],
      [gone, { ttl: "soon" }],
      [gone, { leaseMs: 1 }],
      [gone, { durability: "disk" }],
    ];
    for (const [url, options] of wrong)
      await expect(redisBackend(url, options)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test("a client that is handed over is used and not ended", async () => {
    const { url, prefix, client } = await fresh();
    const mine = redisClient(url);
    onTestFinished(() => mine.disconnect());
    const backend = await redisBackend(mine, { prefix });
    await accept(backend, checkpoint("1"));
    await backend.close();
    await expect(backend.load("t", "", undefined)).rejects.toMatchObject({ code: "CLOSED" });
    expect(await mine.ping()).toBe("PONG");
    expect(await client.ping()).toBe("PONG");
  });
});

function everything(thread: string, era = 0) {
  const of = { thread, era };
  return [
    checkpoint("1", of),
    checkpoint("2", { ...of, ns: "sub" }),
    writes([[0, "c", thread]], of),
    items("l", 0, [thread], of),
    blob("h", thread, of),
    effect(effectRow(`effect of ${thread}`, { thread }), null, era),
    wait(waitRow(`wait of ${thread}`, { thread, due: 9, owner: thread }), null, era),
    decision(decisionRow(1, { thread }), era),
    run(runRow(`run of ${thread}`, { ...byThread(thread), status: "succeeded" }), null, era),
  ];
}

/** A run that has its thread's id in every field that is looked up. */
const byThread = (thread: string) => ({ thread, key: thread, owner: thread, graph: thread, worker: thread });
