/** The demo: unbroken runs, kills, resumes, and what is left of the work, for each variant and each graph. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { startWorld } from "../world/process.ts";
import { type CaseName, cases } from "./cases.ts";
import { inParallel } from "./children.ts";
import { makeInbox } from "./inbox.ts";
import { type KilledRun, killedRun, type Setting, unbrokenRun } from "./killed-run.ts";
import type { DemoOptions } from "./options.ts";
import { samePlaces, spread } from "./points.ts";
import type { Progress } from "./progress.ts";
import { type Row, rowOf } from "./summary.ts";
import { variants } from "./variants.ts";

/** Processes that run at once. */
const width = 2;

export interface DemoResult {
  readonly rows: readonly Row[];
  /** What Holdfast has done wrong; empty = nothing. */
  readonly violations: readonly string[];
  readonly seconds: number;
  /** Where everything was left, with `keep`. */
  readonly kept: string | undefined;
}

export interface DemoContext {
  readonly progress: Progress;
  /** Ends everything: children die, files are removed, `demo` rejects. */
  readonly abort: AbortSignal;
  /** The programs to start. */
  readonly program: string;
  readonly operator: string;
}

export async function demo(options: DemoOptions, context: DemoContext): Promise<DemoResult> {
  const started = performance.now();
  const root = await mkdtemp(join(tmpdir(), "holdfast-demo-"));
  const world = await startWorld();
  try {
    const inbox = options.inbox ?? (await makeInbox(join(root, "inbox")));
    const rows: Row[] = [];
    const chosen = new Map<CaseName, readonly string[]>();
    const choose = (graph: CaseName, reachable: readonly string[]) => {
      const first = chosen.get(graph);
      const points = first === undefined ? spread(reachable, options.kills) : samePlaces(first, reachable);
      if (first === undefined) chosen.set(graph, points);
      return points;
    };
    for (const variant of variants(options.backend)) {
      for (const graph of Object.keys(cases) as CaseName[]) {
        const directory = join(root, variant.name, graph);
        const { program, operator, abort } = context;
        const setting: Setting = {
          variant,
          graph,
          backend: options.backend,
          directory,
          inbox,
          world: world.url,
          program,
          operator,
          abort,
        };
        rows.push(await measure(setting, (reachable) => choose(graph, reachable), context.progress));
      }
    }
    const violations = rows.filter((row) => row.variant === "holdfast").flatMap((row) => row.complaints);
    const seconds = Math.round((performance.now() - started) / 100) / 10;
    return { rows, violations, seconds, kept: options.keep ? root : undefined };
  } finally {
    context.progress.end();
    await world.stop();
    if (!options.keep) await rm(root, { recursive: true, force: true });
  }
}

/** Kills one graph in one variant at the points that are chosen of those it can reach. */
async function measure(
  setting: Setting,
  choose: (reachable: readonly string[]) => readonly string[],
  progress: Progress,
): Promise<Row> {
  const { variant, graph } = setting;
  const title = `${variant.label}, ${graph}`;
  const started = performance.now();
  progress.show(`${title}: unbroken run`);
  const unbroken = await unbrokenRun(setting);
  const points = choose(unbroken.points);
  const runs: KilledRun[] = [];
  await inParallel(points, width, async (point) => {
    runs.push(await killedRun(setting, point, unbroken));
    progress.show(
      `${title}: ${runs.length} of ${points.length} kills, at ${points.length} of ${unbroken.points.length} points: ${point}`,
    );
  });
  return rowOf(variant, graph, runs, unbroken.points.length, (performance.now() - started) / 1000);
}
