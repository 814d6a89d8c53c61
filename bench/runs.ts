/** `runs`: one-node runs with their worker, against DBOS workflows of one step and bare jobs of pg-boss, on the same Postgres. */

import { type Line, lineOf, ratioOf } from "./line.ts";
import type { RunsJob } from "./measure/runs.ts";
import { type Bench, runRounds } from "./rounds.ts";

export async function runs(bench: Bench): Promise<Line[]> {
  await bench.servers.postgres();
  const job = (peer: RunsJob["peer"]): RunsJob => ({
    kind: "runs",
    peer,
    runs: bench.quick ? 320 : 640,
    atOnce: 64,
    repeats: 3,
  });
  const rounds = await runRounds(bench, "Postgres, 64 runs at once", {
    holdfast: job("holdfast"),
    dbos: job("dbos"),
    "pg-boss": job("pg-boss"),
  });
  const about = {
    bench: "runs",
    unit: "µs a run",
    compares:
      "graphs of one node, started and executed by one process, 64 at once, against DBOS workflows of one step and against jobs of pg-boss that are sent, fetched and completed",
  };
  // The bar is about throughput, the inverse of the time.
  return [
    lineOf(rounds, { ...about, name: "run ÷ DBOS workflow", ...ratioOf("us", "holdfast", "dbos"), bar: 1 / 0.6 }),
    lineOf(rounds, { ...about, name: "run ÷ pg-boss job", ...ratioOf("us", "holdfast", "pg-boss") }),
  ];
}
