/** Redis is killed again and again while graphs run. */

import { setTimeout as wait } from "node:timers/promises";
import { Checkpointer } from "holdfast";
import { describe, onTestFinished, test } from "vitest";
import { redisBackend } from "../../checkpointers/redis/backend.ts";
import { ownRedisAvailable, redisClient, startRedis } from "../servers/redis.ts";
import { surviveDisturbance } from "./runs.ts";

const RUNS = 2000;

describe.skipIf(!ownRedisAvailable)("with appendfsync always", () => {
  test("the server is killed and started again: nothing is lost or repeated, and no process dies", async () => {
    const server = await startRedis({ appendonly: "yes", appendfsync: "always" });
    onTestFinished(() => server.remove());
    const saver = new Checkpointer(await redisBackend(server.url, { prefix: "kills", retryMs: 60_000 }));
    await surviveDisturbance(saver, RUNS, {
      everyMs: [5000, 10_000],
      once: async () => {
        await server.kill();
        await wait(Math.random() * 500);
        await server.start();
      },
    });
    await saver.close();
  });

  test("all connections are killed again and again: nothing is lost or repeated", async () => {
    const server = await startRedis({ appendonly: "yes", appendfsync: "always" });
    const operator = redisClient(server.url);
    onTestFinished(async () => {
      operator.disconnect();
      await server.remove();
    });
    const saver = new Checkpointer(await redisBackend(server.url, { prefix: "connections" }));
    await surviveDisturbance(saver, RUNS, {
      everyMs: [200, 600],
      once: async () => {
        await operator.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
      },
    });
    await saver.close();
  });
});
