import type { Backend } from "holdfast";
import { describeBackend } from "holdfast/testing";
import { redisBackend } from "../../checkpointers/redis/backend.ts";
import { redisAvailable, removeRedisStore, sharedRedis } from "../servers/redis.ts";
import { describe } from "vitest";

if (redisAvailable) {
  await describeBackend("redisBackend(url)", async () => {
    const { url, prefix } = await sharedRedis();
    const opened: Backend[] = [];
    const open = async () => {
      const backend = await redisBackend(url, { prefix });
      opened.push(backend);
      return backend;
    };
    return {
      backend: await open(),
      second: open,
      reopen: open,
      destroy: async () => {
        for (const backend of opened) await backend.close();
        await removeRedisStore(url, prefix);
      },
    };
  });
} else {
  describe.skip("Redis: no server", () => {});
}
