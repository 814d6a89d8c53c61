/** `holdfast/checkpointers/redis`: a checkpointer on Redis or Valkey, by ioredis. */

import { Checkpointer, type CheckpointerOptions } from "holdfast";
import { CHECKPOINTER_OPTIONS } from "../options.ts";
import { redisBackend } from "./backend.ts";
import type { RedisClient } from "./driver.ts";
import { checkNames, type RedisOptions } from "./options.ts";

export { redisBackend } from "./backend.ts";
export type { RedisClient } from "./driver.ts";
export type { RedisOptions } from "./options.ts";

/**
 * A checkpointer on a Redis server (6 or later) or Valkey: `"redis://host:6379/0"`, `"rediss://…"`, the path of a unix
 * socket, or an ioredis client.
 *
 * What an acknowledgement survives is read from the server's settings and said by `checkpointer.backend.capabilities`;
 * where that is nothing, effects are refused, see `effectsOnVolatile`.
 *
 * @throws {HoldfastError} what {@link redisBackend} throws
 */
export async function redis(
  target: string | RedisClient,
  options: RedisOptions & CheckpointerOptions = {},
): Promise<Checkpointer> {
  checkNames(options, CHECKPOINTER_OPTIONS);
  const { prefix, ttl, durability, leaseMs, retryMs, answerTimeoutMs, allowEviction, ...checkpointer } = options;
  const own = { prefix, ttl, durability, leaseMs, retryMs, answerTimeoutMs, allowEviction };
  return new Checkpointer(await redisBackend(target, own), checkpointer);
}
