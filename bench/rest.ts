/** `rest`: a worker with 10,000 runs that wait, beside one with none, on SQLite, Postgres and Redis. */

import { figureOf, type Line, lineOf, ratioOf } from "./line.ts";
import type { RestJob } from "./measure/rest.ts";
import { type Bench, runRounds } from "./rounds.ts";

export async function rest(bench: Bench): Promise<Line[]> {
  await bench.servers.postgres();
  const backends: readonly RestJob["backend"][] = (await bench.servers.redis())
    ? ["sqlite", "postgres", "redis"]
    : ["sqlite", "postgres"];
  const lines: Line[] = [];
  for (const backend of backends) lines.push(...(await restOn(bench, backend)));
  return lines;
}

async function restOn(bench: Bench, backend: RestJob["backend"]): Promise<Line[]> {
  const waiting = bench.quick ? 200 : 10_000;
  const job = (runs: number): RestJob => ({
    kind: "rest",
    backend,
    waiting: runs,
    restMs: bench.quick ? 20_000 : 60_000,
    answers: bench.quick ? 50 : 200,
  });
  // One answer is measured for each run that waits: the empty side has a few.
  const rounds = await runRounds(
    bench,
    `rest, ${backend}`,
    { many: job(waiting), none: { ...job(0), answers: 0 } },
    { rounds: bench.quick ? 1 : Math.min(bench.rounds, 3) },
  );
  const compares = `a worker at rest on ${backend}, ${waiting} runs that wait, against none`;
  const about = { bench: "rest", compares, judged: !bench.quick };
  return [
    lineOf(rounds, {
      ...about,
      name: `${backend}: processor time of a worker at rest`,
      unit: "% of a core",
      bar: 0.2,
      ...figureOf("cpuPercent", "many", ["none"]),
    }),
    lineOf(rounds, {
      ...about,
      name: `${backend}: processor time at rest, many waiting ÷ none`,
      unit: "% of a core",
      bar: 1.1,
      ...ratioOf("cpuPercent", "many", "none"),
    }),
    ...(backend === "sqlite"
      ? []
      : [
          lineOf(rounds, {
            ...about,
            name: `${backend}: statements of a worker at rest`,
            unit: "statements/s",
            bar: 1,
            ...figureOf("statementsPerS", "many", ["none"]),
          }),
        ]),
    lineOf(rounds, {
      ...about,
      name: `${backend}: answer → running, 99 of 100`,
      unit: "ms",
      bar: 1000,
      ...figureOf("answerP99Ms", "many", []),
    }),
  ];
}
