/** `superstep`: one superstep of a counter graph, in sync and in async durability. */

import type { Durability } from "./graphs.ts";
import { figureOf, type Line, lineOf, ratioOf } from "./line.ts";
import type { SuperstepJob } from "./measure/superstep.ts";
import { type Bench, runRounds } from "./rounds.ts";
import type { SaverName } from "./savers.ts";

/** Commits that may be lost to a kill in async durability. */
export const LAG_MAX = 32;

function job(bench: Bench, saver: SaverName, durability: Durability): SuperstepJob {
  const steps = bench.quick ? 300 : 500;
  return { kind: "superstep", saver, durability, yields: durability === "async", warmup: 1500, steps, repeats: 3 };
}

export async function superstepInSync(bench: Bench): Promise<Line[]> {
  const sync = (saver: SaverName) => job(bench, saver, "sync");
  const rounds = await runRounds(bench, "superstep, sync", {
    engine: sync("engine"),
    "holdfast-full": sync("holdfast-full"),
    "holdfast-normal": sync("holdfast-normal"),
    "holdfast-memory": sync("holdfast-memory"),
    "holdfast-jsonl": sync("holdfast-jsonl"),
    "official-full": sync("official-full"),
    "official-normal": sync("official-normal"),
  });
  const about = (compares: string) => ({
    bench: "superstep",
    unit: "µs a superstep",
    compares: `counter graph, sync durability: ${compares}`,
  });
  return [
    lineOf(rounds, {
      ...about("holdfast on SQLite (FULL) against the published SqliteSaver with synchronous=FULL"),
      name: "sync, FULL ÷ official FULL",
      ...ratioOf("us", "holdfast-full", "official-full"),
      bar: 0.8,
      aim: 0.7,
    }),
    lineOf(rounds, {
      ...about("holdfast on SQLite (FULL) against the same graph without a checkpointer"),
      name: "sync, FULL ÷ engine",
      ...ratioOf("us", "holdfast-full", "engine"),
      bar: 2.5,
      aim: 2.2,
    }),
    lineOf(rounds, {
      ...about("holdfast on SQLite (NORMAL) against the same graph without a checkpointer"),
      name: "sync, NORMAL ÷ engine",
      ...ratioOf("us", "holdfast-normal", "engine"),
      bar: 1.5,
    }),
    lineOf(rounds, {
      ...about("holdfast on SQLite (NORMAL) against the published SqliteSaver as it ships (NORMAL)"),
      name: "sync, NORMAL ÷ official NORMAL",
      ...ratioOf("us", "holdfast-normal", "official-normal"),
    }),
    ...(["official-full", "official-normal", "holdfast-memory", "holdfast-jsonl"] as const).map((saver) =>
      lineOf(rounds, {
        ...about(`${saver} against the same graph without a checkpointer`),
        name: `sync, ${saver} ÷ engine`,
        ...ratioOf("us", saver, "engine"),
      }),
    ),
  ];
}

export async function superstepInAsync(bench: Bench): Promise<Line[]> {
  const async = (saver: SaverName) => job(bench, saver, "async");
  const rounds = await runRounds(bench, "superstep, async", {
    engine: async("engine"),
    "holdfast-full": async("holdfast-full"),
    "official-full": async("official-full"),
  });
  const about = (compares: string) => ({
    bench: "superstep",
    compares: `counter graph, async durability, the node yields once: ${compares}`,
  });
  return [
    lineOf(rounds, {
      ...about("holdfast on SQLite (FULL) against the same graph without a checkpointer"),
      name: "async, FULL ÷ engine",
      unit: "µs a superstep",
      ...ratioOf("us", "holdfast-full", "engine"),
      bar: 1.45,
    }),
    lineOf(rounds, {
      ...about("the published SqliteSaver with synchronous=FULL against the same graph without a checkpointer"),
      name: "async, official FULL ÷ engine",
      unit: "µs a superstep",
      ...ratioOf("us", "official-full", "engine"),
    }),
    lineOf(rounds, {
      ...about("the most commits that were handed over and not yet durable at any moment"),
      name: "async, FULL, commits not yet durable",
      unit: "commits",
      ...figureOf("lag", "holdfast-full", ["official-full"]),
      bar: LAG_MAX,
    }),
  ];
}
