/** What an effect costs a superstep, and what going on after a process was opened again costs. */

import { effect } from "holdfast";
import { z } from "zod";
import { type Body, configOf, counterLoop } from "../graphs.ts";
import { openSaver, type SaverName } from "../savers.ts";
import { median } from "../statistics.ts";

/** `bare`: the same node without an effect; `settle`: intent and outcome; `rerun`: outcome only. */
export type EffectMode = "bare" | "settle" | "rerun";

export interface EffectJob {
  readonly kind: "effect";
  readonly saver: SaverName;
  readonly mode: EffectMode;
  readonly warmup: number;
  readonly steps: number;
  readonly repeats: number;
}

export interface ResumeJob {
  readonly kind: "resume";
  readonly saver: SaverName;
  readonly repeats: number;
}

export function bodyOf(mode: EffectMode): Body {
  if (mode === "bare") return async () => {};
  const act = effect("act", {
    input: z.number(),
    run: async (n: number) => ({ receipt: `receipt-${n}` }),
    onUnknown: mode,
  });
  return async (n) => {
    await act(n);
  };
}

/** `us`: µs a superstep in sync durability, median of the repeats. */
export async function measureEffect(job: EffectJob, dir: string): Promise<Record<string, number>> {
  const open = await openSaver(job.saver, dir, "effect");
  const loop = counterLoop(open.saver, bodyOf(job.mode));
  await loop.run("warm-up", job.warmup, "sync");
  const times: number[] = [];
  for (let i = 0; i < job.repeats; i += 1) {
    const start = performance.now();
    await loop.run(`run-${i}`, job.steps, "sync");
    times.push(((performance.now() - start) * 1000) / job.steps);
  }
  await open.close();
  return { us: median(times) };
}

/**
 * A graph that stops before every superstep. `reopened`: ms to open the file and run one superstep with `invoke(null)`;
 * `resumed`: ms of one more such call on the open file. Medians; the first half warms up.
 */
export async function measureResume(job: ResumeJob, dir: string): Promise<Record<string, number>> {
  const config = configOf("t", 1, "sync");
  const reopened: number[] = [];
  const resumed: number[] = [];
  for (let i = 0; i < 2 * job.repeats; i += 1) {
    const start = performance.now();
    const open = await openSaver(job.saver, dir, "resume");
    const { app } = counterLoop(open.saver, undefined, true);
    await app.invoke(i === 0 ? { n: 0 } : null, config);
    const between = performance.now();
    await app.invoke(null, config);
    const end = performance.now();
    await open.close();
    if (i < job.repeats) continue;
    reopened.push(between - start);
    resumed.push(end - between);
  }
  return { reopened: median(reopened), resumed: median(resumed) };
}
