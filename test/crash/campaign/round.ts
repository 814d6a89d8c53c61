/**
 * One round: a store of its own, threads of every scenario, workers that are disturbed until enough has happened, and then the
 * question whether all is as it must be. All that was planned follows from the round's seed.
 */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { Checkpointer } from "holdfast";
import { createRuntime } from "holdfast/runs";
import type { CounterReport } from "../../../src/testing/counter-server.ts";
import { Attendant } from "./attendant.ts";
import { checkStore, checkThread, type Evidence } from "./checks.ts";
import { type BackendCounts, disturbances, noBackendCounts } from "./counts.ts";
import { campaignGraphs } from "./graphs.ts";
import { Lives } from "./lives.ts";
import { type CampaignBackend, HOUR_MS, type LifePlan, roundPlan, type ThreadPlan } from "./plan.ts";
import { openStore, type StorePlace } from "./stores.ts";
import { type Hands, type Played, playThread } from "./threads.ts";

export interface RoundOptions {
  readonly seed: number;
  readonly backend: CampaignBackend;
  /** Of the servers; SQLite has a directory of its own. */
  readonly url: string;
  /** Of the counter, a process that nobody kills. */
  readonly counterUrl: string;
  /** Deaths and freezes after which it becomes quiet. */
  readonly disturbances: number;
  readonly signal?: AbortSignal | undefined;
  /** Filled as it goes on, for whoever wants to look. */
  readonly counts?: BackendCounts;
}

export interface RoundResult {
  readonly seed: number;
  readonly backend: CampaignBackend;
  readonly counts: BackendCounts;
  readonly problems: readonly string[];
}

/** Threads under way at a time: a death hits many of them. */
const WIDTH = 16;
/** Nobody disturbs any more: by then everything has ended, or is stuck. */
const CALM_MAX_MS = 60_000;
/** A worker of the calm comes so much later that everything is due which a clock set forward has put off. */
const LATER_MS = 3 * HOUR_MS;

const quiet = (clock: LifePlan["clock"]): LifePlan => ({
  faults: [],
  clock,
  freezes: [],
  end: { kind: "drain", afterMs: 0, point: undefined },
});

export async function playRound(options: RoundOptions): Promise<RoundResult> {
  const directory = await mkdtemp(join(tmpdir(), "holdfast-campaign-"));
  const { counts = noBackendCounts() } = options;
  const problems: string[] = [];
  const place = placeOf(options, directory);
  const store = await openStore(place);
  const checkpointer = new Checkpointer(store);
  const run = `${options.backend}-${options.seed}`;
  const counterUrl = `${options.counterUrl}/${run}`;
  const plan = roundPlan(options.seed, options.backend);
  const lives = new Lives({ plan, place, counterUrl, backend: store, counts, problems });
  try {
    const unused = { act: async () => {}, acted: async () => false };
    const graphs = campaignGraphs(checkpointer, unused);
    const runtime = createRuntime({ checkpointer, graphs });
    const plans = new Map<string, ThreadPlan>();
    const attendant = new Attendant(runtime, plans);
    const hands: Hands = { runtime, graphs, attendant };
    attendant.start();
    lives.start();
    const feed = new Feed(hands, plans, (index) => plan.thread(index), problems);
    while (disturbances(counts) < options.disturbances && options.signal?.aborted !== true) await feed.fill();
    await lives.calm();
    const last = [
      await lives.undisturbed(quiet(undefined)),
      await lives.undisturbed(quiet({ afterMs: 0, byMs: LATER_MS })),
    ];
    await feed.end(CALM_MAX_MS);
    for (const worker of last) await lives.drain(worker);
    await attendant.stop();
    const stuck = attendant.open;
    for (const id of stuck) problems.push(`stuck: ${id}: ${await whyOf(hands, id)}`);
    for (const thread of feed.open) counts.scenarios[thread.scenario].stuck += 1;
    problems.push(...attendant.problems);
    const counter = await counterReport(counterUrl);
    const answered = [...attendant.answered, ...lives.answered];
    const evidence: Evidence = {
      checkpointer,
      graphs,
      counter,
      answered,
      stoppedInside: lives.stoppedInside,
      trail: lives.trail,
    };
    counts.rounds = 1;
    counts.crashLoops = attendant.crashLoops;
    counts.questionsAnswered = answered.length;
    for (const played of feed.played) await judge(evidence, played, counts, problems);
    if (stuck.length === 0) problems.push(...(await checkStore(evidence)));
  } catch (error) {
    problems.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
  } finally {
    await lives.killAll();
    await checkpointer.close();
    await rm(directory, { recursive: true, force: true });
  }
  return { seed: options.seed, backend: options.backend, counts, problems };
}

async function whyOf({ runtime }: Hands, id: string): Promise<string> {
  const [record, why] = [await runtime.get(id), await runtime.why(id)];
  return `${record.thread}, ${record.status}, epoch ${record.epoch}: ${why.text}`;
}

async function judge(evidence: Evidence, played: Played, counts: BackendCounts, problems: string[]): Promise<void> {
  const verdict = await checkThread(evidence, played);
  const scenario = counts.scenarios[played.plan.scenario];
  scenario.threads += 1;
  scenario.runs += played.runs.length;
  for (const { record } of played.runs) scenario.claimedAgain += Math.max(0, (record?.epoch ?? 0) - 1);
  scenario.effects += verdict.effects;
  scenario.lost += verdict.lost;
  scenario.repeated += verdict.repeated;
  counts.absorbed += verdict.absorbed;
  problems.push(...verdict.problems);
}

/** Keeps as many threads under way as a death should hit. */
class Feed {
  readonly #hands: Hands;
  readonly #plans: Map<string, ThreadPlan>;
  readonly #planOf: (index: number) => ThreadPlan;
  readonly #problems: string[];
  readonly #open = new Map<ThreadPlan, Promise<void>>();
  readonly played: Played[] = [];
  #next = 0;

  constructor(hands: Hands, plans: Map<string, ThreadPlan>, planOf: (index: number) => ThreadPlan, problems: string[]) {
    this.#hands = hands;
    this.#plans = plans;
    this.#planOf = planOf;
    this.#problems = problems;
  }

  get open(): readonly ThreadPlan[] {
    return [...this.#open.keys()];
  }

  async fill(): Promise<void> {
    while (this.#open.size < WIDTH) this.#begin(this.#planOf(this.#next++));
    await wait(30);
  }

  #begin(plan: ThreadPlan): void {
    this.#plans.set(plan.thread, plan);
    const playing = playThread(this.#hands, plan).then(
      (played) => void this.played.push(played),
      (error: unknown) => void this.#problems.push(`${plan.thread}: ${String(error)}`),
    );
    this.#open.set(
      plan,
      playing.finally(() => this.#open.delete(plan)),
    );
  }

  /** Waits for the threads that are under way. */
  async end(withinMs: number): Promise<void> {
    const late = new AbortController();
    const ended = Promise.all(this.#open.values()).finally(() => late.abort());
    await Promise.race([ended, wait(withinMs, undefined, { signal: late.signal }).catch(() => {})]);
  }
}

function placeOf({ backend, url, seed }: RoundOptions, directory: string): StorePlace {
  const name = `campaign-${seed}-${process.pid}-${Date.now()}`;
  switch (backend) {
    case "sqlite":
      return { backend, file: join(directory, "state.db") };
    case "postgres":
      return { backend, url, schema: name };
    case "redis":
      return { backend, url, prefix: name };
    default: {
      const never: never = backend;
      return never;
    }
  }
}

async function counterReport(url: string): Promise<CounterReport> {
  const response = await fetch(`${url}/report`, { method: "POST", body: "{}" });
  return (await response.json()) as CounterReport;
}
