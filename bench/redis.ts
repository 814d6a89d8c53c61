/** `redis`: plain Redis with an append-only file that is flushed once a second. The published RedisSaver needs modules that plain Redis lacks. */

import { type Line, lineOf, ratioOf } from "./line.ts";
import { type Bench, runRounds } from "./rounds.ts";
import type { SaverName } from "./savers.ts";

export async function redisSupersteps(bench: Bench): Promise<Line[]> {
  if (!(await bench.servers.redis())) {
    bench.progress("Redis is left out: no redis-server on the PATH");
    return [];
  }
  const job = (saver: SaverName) =>
    ({
      kind: "superstep",
      saver,
      durability: "sync",
      yields: false,
      warmup: 500,
      steps: bench.quick ? 200 : 500,
      repeats: 3,
    }) as const;
  const rounds = await runRounds(bench, "Redis, superstep, sync", {
    engine: job("engine"),
    "holdfast-redis": job("holdfast-redis"),
  });
  return [
    lineOf(rounds, {
      bench: "redis",
      unit: "µs a superstep",
      compares:
        "counter graph, appendfsync everysec, sync durability: holdfast against the same graph without a checkpointer",
      name: "sync, holdfast ÷ engine",
      ...ratioOf("us", "holdfast-redis", "engine"),
      bar: 2.2,
      aim: 2,
    }),
  ];
}
