/** What a run asks of its store; on a server each call is a statement, those of runs at once sharing the commits. */

import { Annotation, START, StateGraph } from "@langchain/langgraph";
import type { Backend, WaitQuery } from "holdfast";
import { createRuntime } from "holdfast/runs";
import { expect, onTestFinished, test } from "vitest";
import { NextMoment } from "../../src/runs/next-moment.ts";
import { newStore, storeNames } from "../backends-table.ts";

/** Calls by name, without those that a worker makes whether there is a run or not. */
function counting(calls: Map<string, number>): (backend: Backend) => Backend {
  const idle = ["dueRuns", "watch", "heartbeat", "close"];
  return (backend) =>
    new Proxy(backend, {
      get: (target, name) => {
        const value = Reflect.get(target, name, target) as unknown;
        if (typeof value !== "function" || idle.includes(String(name))) {
          return typeof value === "function" ? value.bind(target) : value;
        }
        return (...args: readonly unknown[]) => {
          const isPoll = name === "waits" && (args[0] as WaitQuery).thread === undefined;
          const isLook = name === "runs" && (args[0] as { id?: string }).id === undefined;
          const answer = Reflect.apply(value, target, args) as unknown;
          // The clock of this machine costs nothing.
          const isFree = isPoll || isLook || (name === "now" && !(answer instanceof Promise));
          if (!isFree) calls.set(String(name), (calls.get(String(name)) ?? 0) + 1);
          return answer;
        };
      },
    });
}

test.each(storeNames)(
  "on %s a run of one node costs its commits, two loads, one look for waits and one at the clock",
  async (name) => {
    const calls = new Map<string, number>();
    const checkpointer = await (await newStore(name)).open({}, counting(calls));
    const graph = new StateGraph(Annotation.Root({ n: Annotation<number>() }))
      .addNode("only", ({ n }) => ({ n: n + 1 }))
      .addEdge(START, "only")
      .compile({ checkpointer });
    let ended = (): void => {};
    const runtime = createRuntime({ checkpointer, graphs: { graph }, onRun: () => ended() });
    onTestFinished(() => runtime.close());
    const worker = runtime.worker().start();
    // The first one pays for what a process asks once.
    for (const threadId of ["first", "second"]) {
      const end = new Promise<void>((resolve) => {
        ended = resolve;
      });
      while (!worker.ready) await new Promise((resolve) => setImmediate(resolve));
      calls.clear();
      await runtime.start("graph", { n: 1 }, { threadId });
      await end;
    }
    const { commit = 0, ...rest } = Object.fromEntries(calls);
    expect(rest).toEqual({ load: 2, waits: 1, ...(name === "postgres" || name === "redis" ? { now: 1 } : {}) });
    // Start, claim and end; and of the graph the checkpoints of its input and of its node, and the writes between them.
    expect(commit).toBeGreaterThan(3);
    expect(commit).toBeLessThanOrEqual(7);
  },
);

test.each(storeNames)(
  "on %s a run of a thread that was deleted before is accepted, executed and ended",
  async (name) => {
    const store = await newStore(name);
    const checkpointer = await store.open();
    const graph = new StateGraph(Annotation.Root({ n: Annotation<number>() }))
      .addNode("only", ({ n }) => ({ n: n + 1 }))
      .addEdge(START, "only")
      .compile({ checkpointer });
    const runtime = createRuntime({ checkpointer, graphs: { graph } });
    onTestFinished(() => runtime.close());
    for (const n of [1, 2, 3]) {
      await runtime.start("graph", { n: 0 }, { threadId: "t" });
      await checkpointer.deleteThread("t");
      const { run } = await runtime.start("graph", { n }, { threadId: "t" });
      const worker = runtime.worker().start();
      expect(await runtime.wait(run.id)).toMatchObject({ status: "succeeded", epoch: 1 });
      await worker.drain();
      expect((await graph.getState({ configurable: { thread_id: "t" } })).values).toEqual({ n: n + 1 });
    }
  },
);

test("starts at once share a look at the clock, and none gets a moment from before it", async () => {
  const asked: ((now: number) => void)[] = [];
  const moment = new NextMoment({ now: () => new Promise<number>((resolve) => void asked.push(resolve)) } as Backend);
  const first = moment.now();
  await Promise.resolve();
  const later = [moment.now(), moment.now()];
  asked[0]?.(1);
  expect(await first).toBe(1);
  await new Promise((resolve) => setImmediate(resolve));
  expect(asked).toHaveLength(2);
  asked[1]?.(2);
  expect(await Promise.all(later)).toEqual([2, 2]);
});

test("a clock that fails once is asked again", async () => {
  let fails = true;
  const now = async () => {
    if (fails) throw new Error("cut off");
    return 7;
  };
  const moment = new NextMoment({ now } as unknown as Backend);
  await expect(moment.now()).rejects.toThrow("cut off");
  fails = false;
  expect(await moment.now()).toBe(7);
});
