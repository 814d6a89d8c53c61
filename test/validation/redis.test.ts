import { redis } from "holdfast/checkpointers/redis";
import { describe } from "vitest";
import { redisAvailable, sharedRedis } from "../servers/redis.ts";
import { publicSuite } from "./public-suite.ts";

describe.skipIf(!redisAvailable)("with a server", () => {
  publicSuite("redis", async () => {
    const { url, prefix } = await sharedRedis();
    return redis(url, { prefix });
  });
});
