/** What comes between a run and its end: an edit of its thread, a lost claim, an answer at the wrong moment. */

import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { ask, type Checkpointer, isHoldfastError } from "holdfast";
import { createRuntime } from "holdfast/runs";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { CLAIM_KEY } from "../../src/run-state.ts";
import { newStore, storeNames } from "../backends-table.ts";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

const thread = { configurable: { thread_id: "t" } };

function asking(checkpointer: Checkpointer, before: () => Promise<void> = async () => {}) {
  return new StateGraph(State)
    .addNode("think", async () => {
      await before();
      return { log: ["thought"] };
    })
    .addNode("ask", async () => ({ log: [(await ask("Pay?")).decision] }))
    .addEdge(START, "think")
    .addEdge("think", "ask")
    .compile({ checkpointer });
}

async function runtimeOf(checkpointer: Checkpointer, graph: ReturnType<typeof asking>) {
  const runtime = createRuntime({ checkpointer, graphs: { asking: graph }, onError: () => {} });
  onTestFinished(() => runtime.close());
  const { run } = await runtime.start("asking", { log: ["input"] }, { threadId: "t" });
  return { runtime, id: run.id };
}

describe.each(storeNames)("on %s", (name) => {
  test("an edit of the thread while its run is executed neither loses the run nor gives it its input twice", async () => {
    const checkpointer = await (await newStore(name)).open();
    let visits = 0;
    const graph: ReturnType<typeof asking> = asking(checkpointer, async () => {
      visits += 1;
      if (visits === 1) await graph.updateState(thread, { log: ["edited"] }, "__start__");
    });
    const { runtime, id } = await runtimeOf(checkpointer, graph);
    runtime.worker({ pollMs: 20 }).start();
    expect(await runtime.wait(id)).toMatchObject({ status: "waiting", epoch: 2, error: undefined });
    const { values } = await graph.getState(thread);
    expect(values).toEqual({ log: ["input", "edited", "thought"] });
  });

  test("an answer that was recorded while the run was on its way to waiting is found at the next look", async () => {
    const checkpointer = await (await newStore(name)).open();
    const { runtime, id } = await runtimeOf(checkpointer, asking(checkpointer));
    const worker = runtime.worker({ pollMs: 20, takeoverMs: 20 }).start();
    expect((await runtime.wait(id)).status).toBe("waiting");
    await worker.drain();
    // As an answer would leave it that did not see the run waiting yet.
    const { waitLedger } = checkpointer;
    const [row] = await waitLedger.rows({ thread: "t", status: ["open"] });
    if (row === undefined) throw new Error("nothing waits");
    const { ops } = waitLedger.decide(row, { type: "approve", by: "ana" }, await waitLedger.chainEnd("t"), 0);
    await waitLedger.commit(ops);
    expect((await runtime.get(id)).status).toBe("waiting");
    runtime.worker({ pollMs: 20, takeoverMs: 20 }).start();
    await vi.waitFor(async () => expect((await runtime.get(id)).status).toBe("succeeded"));
    expect((await runtime.get(id)).epoch).toBe(2);
  });

  test("under a claim that is not the run's last one nothing is stored: no checkpoint, no write, no question", async () => {
    const checkpointer = await (await newStore(name)).open();
    const graph = asking(checkpointer);
    const { runtime, id } = await runtimeOf(checkpointer, graph);
    runtime.worker({ pollMs: 20 }).start();
    await runtime.wait(id);
    const stale = { ...thread.configurable, [CLAIM_KEY]: { run: id, thread: "t", epoch: 1 } };
    const before = await graph.getState(thread);
    const error = await graph
      .invoke(null, { configurable: stale, durability: "sync" })
      .catch((thrown: unknown) => thrown);
    // It waits, so a worker has it no more.
    expect(isHoldfastError(error, "RUN_LOST")).toBe(true);
    expect(await graph.getState(thread)).toEqual(before);
    expect(await checkpointer.waits({ thread: "t" })).toHaveLength(1);
  });
});
