/** A node that blocks the event loop of its worker for longer than its lease, while another worker looks for dead ones. */

import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import type { Checkpointer } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { createRuntime } from "holdfast/runs";
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from "vitest";
import { kitFile, type ServingChild, serve } from "../../src/testing/child.ts";
import type { CounterReport } from "../../src/testing/counter-server.ts";
import { compiled, scratchDirectory } from "../backends/scratch.ts";
import { redisAvailable, removeRedisStore, sharedRedis } from "../servers/redis.ts";
import { newSchema } from "../servers/schemas.ts";
import { type BlockingStore, openBlocking } from "./blocking-store.ts";
import { blocking } from "./programs/blocking.ts";

let counter: ServingChild;
beforeAll(async () => {
  counter = await serve(kitFile("counter-server"));
});
afterAll(() => counter.stop());

const stores = {
  async postgres(): Promise<BlockingStore> {
    return { kind: "postgres", url: inject("postgresUrl"), schema: await newSchema() };
  },
  async redis(): Promise<BlockingStore> {
    const { url, prefix } = await sharedRedis();
    onTestFinished(() => removeRedisStore(url, prefix));
    return { kind: "redis", url, prefix };
  },
};

/** Every checkpoint of the thread, newest first, by the step that made it; each must follow the one after it. */
async function steps(checkpointer: Checkpointer): Promise<readonly unknown[]> {
  const tuples: CheckpointTuple[] = [];
  for await (const tuple of checkpointer.list({ configurable: { thread_id: "t" } })) tuples.push(tuple);
  const parents = tuples.map(({ parentConfig }) => parentConfig?.configurable?.["checkpoint_id"]);
  expect(parents).toEqual([...tuples.slice(1).map(({ checkpoint }) => checkpoint.id), undefined]);
  return tuples.map(({ metadata }) => metadata?.step);
}

/** Starts a run, which waits until the test lets somebody execute it. */
async function begin(checkpointer: Checkpointer): Promise<string> {
  const { run } = await createRuntime({ checkpointer, graphs: {} }).start("blocking", { log: [] }, { threadId: "t" });
  return run.id;
}

/** The steps of the same run where nothing comes in between. */
async function unbroken(): Promise<readonly unknown[]> {
  process.env["HOLDFAST_COUNTER_URL"] = `${counter.line}/unbroken`;
  const checkpointer = memory();
  const runtime = createRuntime({ checkpointer, graphs: { blocking: blocking(checkpointer, () => {}) } });
  onTestFinished(() => runtime.close());
  const id = await begin(checkpointer);
  runtime.worker().start();
  await runtime.wait(id);
  return steps(checkpointer);
}

test.each(["postgres", ...(redisAvailable ? (["redis"] as const) : [])] as const)(
  "on %s a run that blocks its worker's event loop for longer than the lease stores each superstep once, and each effect happens once",
  async (name) => {
    const expected = await unbroken();
    const store = await stores[name]();
    const file = join(await scratchDirectory(), "taken-over");
    const url = `${counter.line}/${name}`;
    process.env["HOLDFAST_COUNTER_URL"] = url;
    const checkpointer = await openBlocking(store);
    onTestFinished(() => checkpointer.close());
    const id = await begin(checkpointer);
    const child = spawn(process.execPath, [compiled("test/runs/programs/blocking-worker.ts"), file], {
      env: { ...process.env, HOLDFAST_TEST_STORE: JSON.stringify(store) },
      stdio: ["pipe", "pipe", "inherit"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    expect((await lines.next()).value).toBe("blocking");
    // Whether it is taken over is a matter of who gives its signs of life; what is stored must be the same.
    const graph = blocking(checkpointer, () => writeFileSync(file, ""));
    const runtime = createRuntime({ checkpointer, graphs: { blocking: graph }, onError: () => {} });
    onTestFinished(() => runtime.close());
    const second = runtime.worker({ pollMs: 100, takeoverMs: 100 }).start();
    expect((await runtime.wait(id)).status).toBe("succeeded");
    child.stdin.end();
    const first = JSON.parse(String((await lines.next()).value)) as { readonly claimed: number; readonly lost: number };
    await second.drain();
    expect(first.lost).toBe(second.counts.takenOver);
    const { counts } = (await (await fetch(`${url}/report`, { method: "POST" })).json()) as CounterReport;
    expect(counts).toMatchObject({ first: { times: 1 }, second: { times: 1 } });
    expect(await steps(checkpointer)).toEqual(expected);
    expect((await graph.getState({ configurable: { thread_id: "t" } })).values).toEqual({ log: ["first", "second"] });
  },
);
