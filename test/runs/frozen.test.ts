/** A worker that is stopped inside an effect, taken for dead, and goes on when another one has the run. */

import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type Checkpointer, isHoldfastError } from "holdfast";
import { postgres } from "holdfast/checkpointers/postgres";
import { sqlite } from "holdfast/checkpointers/sqlite";
import { createRuntime } from "holdfast/runs";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from "vitest";
import { kitFile, type ServingChild, serve } from "../../src/testing/child.ts";
import type { CounterReport } from "../../src/testing/counter-server.ts";
import { compiled, scratchDirectory } from "../backends/scratch.ts";
import { newSchema } from "../servers/schemas.ts";
import { charging } from "./programs/charging.ts";

const LEASE_MS = 1000;

let counter: ServingChild;
let counters = 0;
beforeAll(async () => {
  counter = await serve(kitFile("counter-server"));
});
afterAll(() => counter.stop());

const stores = {
  async Postgres() {
    const place = await newSchema();
    return { place, checkpointer: await postgres(inject("postgresUrl"), { schema: place, leaseMs: LEASE_MS }) };
  },
  async SQLite() {
    const place = join(await scratchDirectory(), "frozen.db");
    return { place, checkpointer: await sqlite(place, { leaseMs: LEASE_MS }) };
  },
};

interface Frozen {
  readonly checkpointer: Checkpointer;
  readonly run: string;
  counts(): Promise<Record<string, number>>;
  /** Lets it go on, its body return, and resolves with what it says at its end. */
  thaw(): Promise<{ readonly lost: number }>;
}

/** A run whose worker, a process of its own, stands still in the body of its effect. */
async function frozen(store: keyof typeof stores, ...args: string[]): Promise<Frozen> {
  const { place, checkpointer } = await stores[store]();
  const url = `${counter.line}/frozen-${++counters}`;
  process.env["HOLDFAST_COUNTER_URL"] = url;
  onTestFinished(() => checkpointer.close());
  const { run } = await createRuntime({ checkpointer, graphs: {} }).start("charge", { receipt: "" }, { threadId: "t" });
  const child = spawn(process.execPath, [compiled("test/runs/programs/worker.ts"), place, `${LEASE_MS}`, ...args], {
    env: { ...process.env, HOLDFAST_TEST_POSTGRES: inject("postgresUrl") },
    stdio: ["pipe", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines = linesOf(child);
  expect(await lines.next()).toBe("inside");
  child.kill("SIGSTOP");
  return {
    checkpointer,
    run: run.id,
    counts: async () => {
      const { counts } = (await (await fetch(`${url}/report`, { method: "POST" })).json()) as CounterReport;
      return Object.fromEntries(Object.entries(counts).map(([identity, { times }]) => [identity, times]));
    },
    thaw: async () => {
      child.kill("SIGCONT");
      child.stdin?.end("go on\n");
      return JSON.parse(await lines.next()) as { lost: number };
    },
  };
}

function linesOf(child: ChildProcess): { next(): Promise<string> } {
  const iterator = createInterface({ input: child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]();
  return { next: async () => String((await iterator.next()).value) };
}

/** Another process's worker, as far as the store knows. */
async function takeOver(checkpointer: Checkpointer, idempotent = false) {
  const runtime = createRuntime({
    checkpointer,
    graphs: { charge: charging(checkpointer, {}, idempotent) },
    onError: () => {},
  });
  onTestFinished(() => runtime.close());
  runtime.worker({ pollMs: 50, takeoverMs: 50 }).start();
  return runtime;
}

describe.each(["Postgres", "SQLite"] as const)("on %s", (store) => {
  test("while a stopped worker may be alive by its lease its effect is not run; after it verify decides, and what the worker then stores is refused", async () => {
    const { checkpointer, run, counts, thaw } = await frozen(store);
    const runtime = await takeOver(checkpointer);
    expect(await runtime.get(run)).toMatchObject({ status: "running", epoch: 1 });
    expect(await runtime.wait(run)).toMatchObject({ status: "succeeded", epoch: 2, deaths: 0 });
    expect(await counts()).toEqual({ "card 1": 1 });
    expect(await thaw()).toMatchObject({ lost: 1 });
    expect(await counts()).toEqual({ "card 1": 1 });
    const [effect] = await checkpointer.effects({ thread: "t" });
    expect(effect).toMatchObject({ status: "done", value: "charged card 1" });
    const { values } = await charging(checkpointer).getState({ configurable: { thread_id: "t" } });
    expect(values).toEqual({ receipt: "charged card 1" });
  });

  test("the one window: a worker stopped before it acted, and thawed after another has acted, acts again, under the same key", async () => {
    const { checkpointer, run, counts, thaw } = await frozen(store, "before");
    const runtime = await takeOver(checkpointer);
    expect((await runtime.wait(run)).status).toBe("succeeded");
    expect(await counts()).toEqual({ "card 1": 1 });
    expect(await thaw()).toMatchObject({ lost: 1 });
    expect(await counts()).toEqual({ "card 1": 2 });
  });

  test("what a run stores under a claim that somebody else has taken over is refused", async () => {
    const { checkpointer, run } = await frozen(store);
    const runtime = await takeOver(checkpointer);
    await runtime.wait(run);
    const fence = { kind: "fence", thread: "t", era: 0, run, epoch: 1 } as const;
    const [verdict] = await checkpointer.backend.commit([[fence]]);
    expect(isHoldfastError(verdict, "RUN_LOST")).toBe(true);
  });
});
