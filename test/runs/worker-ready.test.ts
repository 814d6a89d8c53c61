/** Whether a worker claims: what a supervisor asks it. */

import { Annotation, START, StateGraph } from "@langchain/langgraph";
import type { Backend } from "holdfast";
import { createRuntime, type RunRecord } from "holdfast/runs";
import { expect, onTestFinished, test } from "vitest";
import { newStore } from "../backends-table.ts";

/** A backend some of whose methods fail while they are named in `failing`. */
function failable(failing: Set<string>): (backend: Backend) => Backend {
  return (backend) =>
    new Proxy(backend, {
      get: (target, name) => {
        const value = Reflect.get(target, name, target) as unknown;
        if (typeof value !== "function") return value;
        if (failing.has(String(name))) return () => Promise.reject(new Error(`${String(name)} is cut off`));
        return value.bind(target);
      },
    });
}

async function opened(...failing: readonly string[]) {
  const cut = new Set(failing);
  const checkpointer = await (await newStore("memory")).open({}, failable(cut));
  const graph = new StateGraph(Annotation.Root({}))
    .addNode("a", () => ({}))
    .addEdge(START, "a")
    .compile({ checkpointer });
  const errors: string[] = [];
  const told: RunRecord[] = [];
  const runtime = createRuntime({
    checkpointer,
    graphs: { a: graph },
    onError: (error) => void errors.push((error as Error).message),
    onRun: (run) => void told.push(run),
  });
  onTestFinished(() => runtime.close());
  const worker = runtime.worker({ pollMs: 10, takeoverMs: 10 });
  const until = async (condition: () => boolean) => {
    while (!condition()) await new Promise((resolve) => setImmediate(resolve));
  };
  return { cut, runtime, worker, errors, told, until };
}

test("a worker is ready after its first look, not while the store fails, again when it is back, and not once it drains", async () => {
  const { cut, runtime, worker, errors, told, until } = await opened();
  expect(worker.ready).toBe(false);
  worker.start();
  await until(() => worker.ready);
  cut.add("dueRuns");
  await until(() => !worker.ready);
  await until(() => errors.includes("dueRuns is cut off"));
  cut.clear();
  await until(() => worker.ready);
  const { run } = await runtime.start("a", null, { threadId: "t" });
  await until(() => told.length > 0);
  expect(told).toMatchObject([{ id: run.id, epoch: 1 }]);
  const drained = worker.drain();
  expect(worker.ready).toBe(false);
  await drained;
});

test("a store that cannot be watched at first is asked again", async () => {
  const { cut, worker, errors, until } = await opened("watch");
  worker.start();
  await until(() => errors.includes("watch is cut off"));
  expect(worker.ready).toBe(false);
  cut.clear();
  await until(() => worker.ready);
});
