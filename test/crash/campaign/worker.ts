/**
 * A worker of the campaign: `worker.js <order>`. It loads everything, says so, and serves when it is told to; SIGTERM drains it,
 * the end of its standard input ends it. What happens to it on the way stands in its order: commits that fail, a clock that
 * jumps, points at which it stops itself. Beside its runs it answers questions that many answer at once.
 */

import { once } from "node:events";
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as wait } from "node:timers/promises";
import { type Backend, Checkpointer, type Commit, isHoldfastError, type Verdict } from "holdfast";
import { createRuntime } from "holdfast/runs";
import { count, counted, type FaultPlan, FaultyBackend, watchFaultPoints } from "holdfast/testing";
import { shiftClock } from "./clock.ts";
import { campaignGraphs, DOUBLE_QUESTION, type Outside } from "./graphs.ts";
import { type LifeCounts, type Line, noCounts, SERVE, type WorkerOrder } from "./lines.ts";
import type { LifePlan } from "./plan.ts";
import { LEASE_MS, openStore } from "./stores.ts";

const WATCH_MS = 40;
const ANSWER_MS = 100;
/** Heartbeats come every third of a lease. */
const STALL_MS = LEASE_MS / 2;
/** How long the outside takes before it acts, and before it answers. */
const OUTSIDE_MS = 30;

const say = (line: Line) => writeSync(1, `${JSON.stringify(line)}\n`);

/** Counts what is refused because another worker has the run. */
class Watched extends FaultyBackend {
  stale = 0;

  override async commit(group: readonly Commit[]): Promise<readonly Verdict[]> {
    const verdicts = await super.commit(group);
    this.stale += verdicts.filter((verdict) => isHoldfastError(verdict, "RUN_LOST")).length;
    return verdicts;
  }
}

const NEVER: FaultPlan = { commit: Number.MAX_SAFE_INTEGER, mode: "before" };

class Faults {
  readonly #watched: Watched;
  readonly #layers: { readonly mode: "before" | "after"; readonly layer: FaultyBackend }[] = [];
  readonly backend: Backend;

  constructor(store: Backend, faults: LifePlan["faults"]) {
    this.#watched = new Watched(store, NEVER);
    let backend: FaultyBackend = this.#watched;
    for (const { commit, mode } of faults) {
      backend = new FaultyBackend(backend, { commit, mode });
      this.#layers.push({ mode, layer: backend });
    }
    this.backend = backend;
  }

  counts(): Pick<LifeCounts, "stale" | "storeErrors" | "lostAnswers"> {
    const of = (wanted: "before" | "after") =>
      this.#layers.reduce((sum, { mode, layer }) => sum + (mode === wanted ? layer.injected : 0), 0);
    return { stale: this.#watched.stale, storeErrors: of("before"), lostAnswers: of("after") };
  }
}

/** The counter, behind a line that takes its time; every stay in a body is told. */
const outside: Outside = {
  act: async (what, idempotencyKey) => {
    say({ say: "in", what });
    await wait(Math.random() * OUTSIDE_MS);
    await reached(() => count(what, { idempotencyKey, idempotent: true }));
    await wait(Math.random() * OUTSIDE_MS);
    say({ say: "out", what });
  },
  acted: async (what, idempotencyKey) => (await reached(() => counted(what, idempotencyKey))) > 0,
};

/** Of a process that stood still the receiver has closed the idle connections. With the same key it may be asked again. */
async function reached<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if ((error as { code?: unknown }).code !== "ECONNRESET") throw error;
    }
  }
}

function stopAtPoints(points: ReadonlySet<string>): void {
  if (points.size === 0) return;
  watchFaultPoints((point) => {
    if (!points.has(point)) return;
    say({ say: "frozen", point });
    process.kill(process.pid, "SIGSTOP");
    say({ say: "thawed" });
  });
}

/** One of several that answer the same question at once. */
async function answerAll(checkpointer: Checkpointer, ended: () => boolean): Promise<void> {
  const value = checkpointer.backend.owner;
  while (!ended()) {
    try {
      for (const { id } of await checkpointer.waits({ status: ["open"], name: DOUBLE_QUESTION })) {
        const { replayed } = await checkpointer.answer(id, { type: "respond", value }, { by: value });
        if (!replayed) say({ say: "answered", wait: id, value });
      }
    } catch (error) {
      // Somebody else was first, the thread is gone, the store fails on purpose: the question is looked at again.
      if (!isHoldfastError(error)) throw error;
    }
    await wait(ANSWER_MS);
  }
}

async function serve({ place, life }: WorkerOrder): Promise<void> {
  let clockShifts = 0;
  let ended = false;
  const faults = new Faults(await openStore(place), life.faults);
  const checkpointer = new Checkpointer(faults.backend, { effectsOnVolatile: true });
  const runtime = createRuntime({
    checkpointer,
    graphs: campaignGraphs(checkpointer, outside),
    onError: (error) => {
      const { code, name, message } = error as { code?: string; name?: string; message?: string };
      say({ say: "error", text: `${code ?? name}: ${message}` });
    },
  });
  const worker = runtime.worker({ pollMs: 150, takeoverMs: 200 });
  if (life.clock !== undefined) {
    const { afterMs, byMs } = life.clock;
    setTimeout(() => {
      shiftClock(byMs);
      clockShifts += 1;
    }, afterMs);
  }
  let said = JSON.stringify(noCounts);
  let lastTold = performance.now();
  const tell = () => {
    const stoodMs = Math.round(performance.now() - lastTold);
    lastTold = performance.now();
    if (stoodMs > STALL_MS) say({ say: "stalled", ms: stoodMs });
    const counts: LifeCounts = { ...worker.counts, ...faults.counts(), clockShifts };
    if (JSON.stringify(counts) === said) return;
    said = JSON.stringify(counts);
    say({ say: "counts", counts });
  };
  const telling = setInterval(tell, WATCH_MS);
  const points = life.freezes.flatMap(({ at }) => ("point" in at ? [at.point] : []));
  stopAtPoints(new Set(points));
  const told = once(process, "SIGTERM");
  worker.start();
  say({ say: "serving", owner: checkpointer.backend.owner });
  const answering = answerAll(checkpointer, () => ended);
  let doing = "serving";
  process.on("SIGUSR2", () => {
    const resources = process.getActiveResourcesInfo().join(" ");
    say({ say: "error", text: `doing: ${doing}, running ${worker.running.join(" ")}; waits for ${resources}` });
  });
  await told;
  doing = "ending its answers";
  ended = true;
  await answering;
  doing = "draining";
  await runtime.close();
  doing = "closing";
  tell();
  clearInterval(telling);
  await checkpointer.close();
  say({ say: "drained" });
}

const order = JSON.parse(process.argv[2] ?? "") as WorkerOrder;
const input = createInterface({ input: process.stdin });
input.on("close", () => process.exit(0));
say({ say: "loaded" });
const [command] = (await once(input, "line")) as [string];
if (command !== SERVE) throw new Error(`unknown command: ${command}`);
await serve(order);
process.exit(0);
