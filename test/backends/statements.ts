/** Counts the statements that go through a pool. */

import type pg from "pg";

export function countingStatements(pool: pg.Pool): { count: number } {
  const counter = { count: 0 };
  const seen = new WeakSet<pg.PoolClient>();
  pool.on("acquire", (client) => {
    if (seen.has(client)) return;
    seen.add(client);
    const sent = client.query.bind(client) as (...args: unknown[]) => unknown;
    Object.assign(client, {
      query: (...args: unknown[]) => {
        counter.count += 1;
        return sent(...args);
      },
    });
  });
  return counter;
}
