/** Random groups of commits on Redis and in memory: the judging in Lua answers and stores as the contract's own judges do. */

import fc from "fast-check";
import { memoryBackend } from "holdfast/checkpointers/memory";
import { expect, test } from "vitest";
import { redisBackend } from "../../checkpointers/redis/backend.ts";
import { redisAvailable, removeRedisStore, sharedRedis } from "../servers/redis.ts";
import { play, randomDeletion, randomOp, runs } from "./random-commits.ts";
import { runScripts } from "./run-scripts.ts";

const op = fc.oneof(
  { arbitrary: randomOp(fc.constantFrom(0, 0, 0, 0, 1, 2), { odd: true }), weight: 8 },
  { arbitrary: randomDeletion, weight: 1 },
);
const groups = fc.oneof(
  fc.array(fc.array(fc.array(op, { maxLength: 5 }), { minLength: 1, maxLength: 4 }), { maxLength: 12 }),
  runScripts(op),
);

test.skipIf(!redisAvailable)(
  "whatever is committed, Redis answers in the words of the contract and keeps the same rows",
  async () => {
    await fc.assert(
      fc.asyncProperty(groups, async (script) => {
        const { url, prefix } = await sharedRedis();
        const [redis, memory] = [await redisBackend(url, { prefix }), memoryBackend()];
        try {
          expect(await play(redis, script)).toEqual(await play(memory, script));
        } finally {
          await redis.close();
          await removeRedisStore(url, prefix);
        }
      }),
      runs,
    );
  },
);
