/** How many runs a worker has at once, and that two workers of one process do not have the same. */

import { Annotation, START, StateGraph } from "@langchain/langgraph";
import type { Backend, Checkpointer, Op } from "holdfast";
import { createRuntime } from "holdfast/runs";
import { describe, expect, onTestFinished, test } from "vitest";
import { gate } from "../checkpointer/subject.ts";
import { newStore, storeNames } from "../backends-table.ts";

const State = Annotation.Root({ n: Annotation<number>() });
const QUICK = { pollMs: 10, takeoverMs: 10 };

/** Two graphs whose node lasts until `turns` turns of the event loop have passed. */
function world(checkpointer: Checkpointer, turns: number) {
  const inside = { few: 0, many: 0 };
  const most = { few: 0, many: 0 };
  const begun = new Map<string, number>();
  const graph = (name: "few" | "many") =>
    new StateGraph(State)
      .addNode("only", async (_state, { configurable }) => {
        const thread = String(configurable?.["thread_id"]);
        begun.set(thread, (begun.get(thread) ?? 0) + 1);
        inside[name] += 1;
        most[name] = Math.max(most[name], inside[name]);
        for (let i = 0; i < turns; i += 1) await new Promise((resolve) => setImmediate(resolve));
        inside[name] -= 1;
        return {};
      })
      .addEdge(START, "only")
      .compile({ checkpointer });
  return { graphs: { few: graph("few"), many: graph("many") }, most, begun };
}

describe.each(storeNames)("on %s", (name) => {
  test("a worker has no more runs of a graph at once than it is told, however many are due", async () => {
    const checkpointer = await (await newStore(name)).open();
    const { graphs, most } = world(checkpointer, 20);
    const runtime = createRuntime({ checkpointer, graphs });
    onTestFinished(() => runtime.close());
    const ids: string[] = [];
    for (let i = 0; i < 6; i += 1)
      for (const graph of ["few", "many"] as const)
        ids.push((await runtime.start(graph, { n: i }, { threadId: `${graph} ${i}` })).run.id);
    runtime.worker({ ...QUICK, concurrency: 5, graphConcurrency: { few: 1 } }).start();
    for (const id of ids) expect((await runtime.wait(id)).status).toBe("succeeded");
    expect(most.few).toBe(1);
    expect(most.many).toBeLessThanOrEqual(5);
  });

  test("of two workers of one process that find the same runs one has each, and the other does not take it for left", async () => {
    const checkpointer = await (await newStore(name)).open();
    const { graphs, begun } = world(checkpointer, 200);
    const runtime = createRuntime({ checkpointer, graphs });
    onTestFinished(() => runtime.close());
    const ids: string[] = [];
    for (let i = 0; i < 8; i += 1) ids.push((await runtime.start("many", { n: i }, { threadId: `${i}` })).run.id);
    const workers = [runtime.worker(QUICK).start(), runtime.worker(QUICK).start()];
    for (const id of ids) expect(await runtime.wait(id)).toMatchObject({ status: "succeeded", epoch: 1, deaths: 0 });
    expect([...begun.values()]).toEqual(ids.map(() => 1));
    expect(workers.map(({ counts }) => [counts.takenOver, counts.lost])).toEqual([
      [0, 0],
      [0, 0],
    ]);
  });
});

test("a run that was being claimed when the worker was told to end is handed back, and not executed to its end", async () => {
  const [claiming, drained] = [gate(), gate()];
  const slow = (backend: Backend): Backend =>
    new Proxy(backend, {
      get: (target, name) => {
        const value = Reflect.get(target, name, target) as unknown;
        if (typeof value !== "function") return value;
        if (name !== "commit") return value.bind(target);
        return async (commits: readonly (readonly Op[])[]) => {
          const isClaim = (op: Op) => op.kind === "run" && op.row.status === "running";
          if (commits.flat().some(isClaim)) {
            claiming.open();
            await drained.passed;
          }
          return target.commit(commits);
        };
      },
    });
  const checkpointer = await (await newStore("memory")).open({}, slow);
  const graph = new StateGraph(State)
    .addNode("first", () => ({ n: 1 }))
    .addNode("second", () => ({ n: 2 }))
    .addEdge(START, "first")
    .addEdge("first", "second")
    .compile({ checkpointer });
  const runtime = createRuntime({ checkpointer, graphs: { graph } });
  onTestFinished(() => runtime.close());
  const { run } = await runtime.start("graph", { n: 0 }, { threadId: "t" });
  const worker = runtime.worker(QUICK).start();
  await claiming.passed;
  const ended = worker.drain();
  drained.open();
  await ended;
  expect(await runtime.get(run.id)).toMatchObject({ status: "queued", epoch: 1, failures: 0 });
  expect((await graph.getState({ configurable: { thread_id: "t" } })).values).not.toMatchObject({ n: 2 });
});
