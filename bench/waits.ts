/** `waits`: an inbox of 10,000 waiting threads in one SQLite file, beside an empty one. */

import { figureOf, type Line, lineOf, ratioOf } from "./line.ts";
import type { WaitsJob } from "./measure/waits.ts";
import { type Bench, runRounds } from "./rounds.ts";

export async function waits(bench: Bench): Promise<Line[]> {
  const many = bench.quick ? 1000 : 10_000;
  const job = (threads: number): WaitsJob => ({ kind: "waits", threads, repeats: bench.quick ? 20 : 50 });
  const rounds = await runRounds(bench, "waits", { many: job(many), empty: job(0) });
  const compares = `SQLite FULL, ${many} threads that wait for an answer, against a file without any`;
  const judged = !bench.quick;
  const about = { bench: "waits", compares, judged };
  return [
    lineOf(rounds, {
      ...about,
      name: "first page of 50 open waits",
      unit: "ms",
      bar: 20,
      ...figureOf("pageMs", "many", ["empty"]),
    }),
    lineOf(rounds, {
      ...about,
      name: "answer and go on, many ÷ empty",
      unit: "ms",
      bar: 1.3,
      ...ratioOf("resumeMs", "many", "empty"),
    }),
    lineOf(rounds, {
      ...about,
      name: "timers of a process with so many waiting threads",
      unit: "timers",
      bar: 0,
      ...figureOf("timers", "many", ["empty"]),
    }),
  ];
}
