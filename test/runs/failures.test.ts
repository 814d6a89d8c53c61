/** What becomes of a run when several of its tasks fail in the same superstep. */

import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { HoldfastError } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { createRuntime } from "holdfast/runs";
import { expect, onTestFinished, test } from "vitest";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

/** Two nodes side by side, each of which fails the first time with what it is given; resolves with the status after the first try. */
async function afterFirstTry(left: Error, right: Error) {
  const checkpointer = memory();
  const failed = new Set<Error>();
  const failing = (error: Error) => () => {
    if (failed.has(error)) return { log: [error.message] };
    failed.add(error);
    throw error;
  };
  const graph = new StateGraph(State)
    .addNode("left", failing(left))
    .addNode("right", failing(right))
    .addEdge(START, "left")
    .addEdge(START, "right")
    .compile({ checkpointer });
  let tell: (text: string) => void = () => {};
  const told = new Promise<string>((resolve) => {
    tell = resolve;
  });
  const runtime = createRuntime({
    checkpointer,
    graphs: { graph },
    onError: () => {},
    onRun: ({ status, error }) => tell(`${status}: ${error?.message}`),
  });
  onTestFinished(() => runtime.close());
  const { run } = await runtime.start("graph", { log: [] }, { threadId: "t" });
  runtime.worker({ pollMs: 20 }).start();
  return { told: await told, runtime, graph, id: run.id };
}

const storeFailed = (where: string) => new HoldfastError("STORAGE_FAILED", `no answer ${where}`);

test("a run of which several tasks failed for what may be better later is tried again, and ends", async () => {
  const { told, runtime, graph, id } = await afterFirstTry(storeFailed("left"), storeFailed("right"));
  expect(told).toMatch(/^retrying: no answer left/);
  expect((await runtime.wait(id)).status).toBe("succeeded");
  const { values } = await graph.getState({ configurable: { thread_id: "t" } });
  expect((values as { log: string[] }).log).toHaveLength(2);
});

test("where one of them failed for another reason the run has failed, with that reason", async () => {
  const { told } = await afterFirstTry(storeFailed("left"), new Error("no such customer"));
  expect(told).toBe("failed: no such customer");
});
