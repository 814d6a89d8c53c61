/** `effect`: what a call of an effect adds to a superstep; `resume`: going on in a file that was just opened. */

import { type Line, lineOf, ratioOf } from "./line.ts";
import type { EffectJob, EffectMode } from "./measure/effects.ts";
import { type Bench, runRounds } from "./rounds.ts";

export async function effects(bench: Bench): Promise<Line[]> {
  const lines: Line[] = [];
  for (const [saver, level] of [
    ["holdfast-full", "FULL"],
    ["holdfast-normal", "NORMAL"],
  ] as const) {
    const job = (mode: EffectMode): EffectJob => ({
      kind: "effect",
      saver,
      mode,
      warmup: 1500,
      steps: bench.quick ? 200 : 400,
      repeats: 3,
    });
    const rounds = await runRounds(bench, `effect, ${level}`, {
      bare: job("bare"),
      settle: job("settle"),
      rerun: job("rerun"),
    });
    for (const mode of ["settle", "rerun"] as const) {
      lines.push(
        lineOf(rounds, {
          bench: "effect",
          name: `${level}, ${mode === "rerun" ? "rerun (outcome only)" : "intent and outcome"}, added a call`,
          unit: "µs",
          compares: `SQLite ${level}, sync: a superstep with one effect less the same superstep without`,
          figures: (each) => ({ bare: each.bare.values["us"] as number, [mode]: each[mode].values["us"] as number }),
          result: (each) => (each[mode].values["us"] as number) - (each.bare.values["us"] as number),
        }),
      );
    }
  }
  return lines;
}

export async function resume(bench: Bench): Promise<Line[]> {
  const repeats = bench.quick ? 20 : 40;
  const rounds = await runRounds(bench, "resume", {
    "holdfast-full": { kind: "resume", saver: "holdfast-full", repeats },
    "official-full": { kind: "resume", saver: "official-full", repeats },
  });
  const about = { bench: "resume", unit: "ms", compares: "counter state, SQLite FULL: invoke(null) for one superstep" };
  return [
    lineOf(rounds, {
      ...about,
      name: "open the file and run one superstep ÷ official",
      ...ratioOf("reopened", "holdfast-full", "official-full"),
    }),
    lineOf(rounds, {
      ...about,
      name: "one superstep on the open file ÷ official",
      ...ratioOf("resumed", "holdfast-full", "official-full"),
    }),
  ];
}
