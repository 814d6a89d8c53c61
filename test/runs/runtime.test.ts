/** Runs: what is accepted, in which order it is executed, and how it ends. */

import { Annotation, interrupt, START, StateGraph } from "@langchain/langgraph";
import { ask, type Checkpointer, effect, isHoldfastError } from "holdfast";
import { createRuntime, type Runtime, type RuntimeOptions, type WorkerOptions } from "holdfast/runs";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { gate } from "../checkpointer/subject.ts";
import { newStore, type Store, storeNames } from "../backends-table.ts";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

interface World {
  /** What nodes do, by the first word of the thread's log. */
  readonly executed: string[];
  during?: (thread: string, signal: AbortSignal | undefined) => Promise<void> | void;
}

function graphOf(checkpointer: Checkpointer, world: World) {
  const act = effect("act", {
    input: z.string(),
    run: async (what) => {
      world.executed.push(what);
      return `did ${what}`;
    },
    verify: (what) => (world.executed.includes(what) ? `did ${what}` : undefined),
  });
  return new StateGraph(State)
    .addNode("first", async ({ log }, { configurable, signal }) => {
      await world.during?.(String(configurable?.["thread_id"]), signal);
      return { log: [`saw ${log.at(-1)}`] };
    })
    .addNode("second", async ({ log }) => ({ log: [await act(String(log.at(-2)))] }))
    .addEdge(START, "first")
    .addEdge("first", "second")
    .compile({ checkpointer });
}

function asking(checkpointer: Checkpointer) {
  return new StateGraph(State)
    .addNode("ask", async () => {
      const { decision } = await ask("Pay?", { name: "pay" });
      return { log: [`answer ${decision}`] };
    })
    .addEdge(START, "ask")
    .compile({ checkpointer });
}

/** A runtime on the store, closed with the test; failures of runs go to `failures`. */
async function runtimeOn(store: Store, world: World, graphs?: (saver: Checkpointer) => RuntimeOptions["graphs"]) {
  const checkpointer = await store.open();
  const failures: unknown[] = [];
  const runtime = createRuntime({
    checkpointer,
    graphs: graphs?.(checkpointer) ?? { act: graphOf(checkpointer, world) },
    onError: (error) => void failures.push(error),
  });
  onTestFinished(() => runtime.close());
  return { checkpointer, runtime, failures };
}

const QUICK: WorkerOptions = { pollMs: 20, takeoverMs: 20 };
const quick = (runtime: Runtime, options: WorkerOptions = {}) => runtime.worker({ ...QUICK, ...options }).start();
const input = (what: string) => ({ log: [what] });

describe.each(storeNames)("on %s", (name) => {
  test("a run that was accepted is executed by a worker that starts later, in another process", async () => {
    const store = await newStore(name);
    const starter = await store.open();
    const { run } = await createRuntime({ checkpointer: starter, graphs: {} }).start("act", input("a"), {
      threadId: "t",
    });
    expect(run).toMatchObject({ status: "queued", input: input("a"), epoch: 0 });
    await starter.close();
    const world: World = { executed: [] };
    const { runtime, checkpointer } = await runtimeOn(store, world);
    quick(runtime);
    expect(await runtime.wait(run.id)).toMatchObject({ status: "succeeded", epoch: 1, worker: undefined });
    expect(world.executed).toEqual(["a"]);
    const { values } = await graphOf(checkpointer, world).getState({ configurable: { thread_id: "t" } });
    expect(values).toEqual({ log: ["a", "saw a", "did a"] });
  });

  test("the same key is the same run, and with another input it is refused", async () => {
    const { runtime } = await runtimeOn(await newStore(name), { executed: [] });
    const first = await runtime.start("act", input("a"), { threadId: "t", key: "order 1" });
    const again = await runtime.start("act", input("a"), { threadId: "t", key: "order 1" });
    expect([first.replayed, again.replayed, again.run.id]).toEqual([false, true, first.run.id]);
    const other = await runtime.start("act", input("b"), { threadId: "t", key: "order 1" }).catch((error) => error);
    expect(isHoldfastError(other, "RUN_KEY_REUSED")).toBe(true);
    expect(await runtime.list({ thread: "t" })).toHaveLength(1);
  });

  test("runs of one thread are executed one after another in the order of their start", async () => {
    const world: World = { executed: [] };
    let atOnce = 0;
    let most = 0;
    world.during = async () => {
      atOnce += 1;
      most = Math.max(most, atOnce);
      await new Promise((resolve) => setImmediate(resolve));
      atOnce -= 1;
    };
    const { runtime } = await runtimeOn(await newStore(name), world);
    const runs = [];
    for (const what of ["a", "b", "c", "d"])
      runs.push((await runtime.start("act", input(what), { threadId: "t" })).run);
    quick(runtime);
    for (const { id } of runs) expect((await runtime.wait(id)).status).toBe("succeeded");
    expect(world.executed).toEqual(["a", "b", "c", "d"]);
    expect(most).toBe(1);
  });

  test("higher priority is claimed first, and a run that is due later waits for its time", async () => {
    const world: World = { executed: [] };
    const { runtime } = await runtimeOn(await newStore(name), world);
    const later = await runtime.start("act", input("later"), {
      threadId: "later",
      at: new Date(Date.now() + 3_600_000),
    });
    const low = await runtime.start("act", input("low"), { threadId: "low" });
    const high = await runtime.start("act", input("high"), { threadId: "high", priority: 5 });
    quick(runtime, { concurrency: 1 });
    await runtime.wait(low.run.id);
    await runtime.wait(high.run.id);
    expect(world.executed).toEqual(["high", "low"]);
    expect(await runtime.why(later.run.id)).toMatchObject({ code: "due-later" });
  });

  test("a run that asks waits without a worker, and an answer from anywhere queues it", async () => {
    const store = await newStore(name);
    const { runtime, checkpointer } = await runtimeOn(store, { executed: [] }, (saver) => ({ ask: asking(saver) }));
    const worker = quick(runtime);
    const { run } = await runtime.start("ask", input("a"), { threadId: "t" });
    expect((await runtime.wait(run.id)).status).toBe("waiting");
    const why = await runtime.why(run.id);
    expect(why).toMatchObject({ code: "waits", waits: [{ name: "pay" }] });
    await worker.drain();
    await checkpointer.answer(String(why.waits[0]?.id), { type: "approve" }, { by: "ana" });
    expect(await runtime.get(run.id)).toMatchObject({ status: "queued", worker: undefined });
    quick(runtime);
    expect((await runtime.wait(run.id)).status).toBe("succeeded");
  });

  test("a run that fails says why, and the next run of its thread is executed", async () => {
    const world: World = { executed: [] };
    world.during = () => {
      if (world.executed.length === 0) {
        world.executed.push("failed once");
        throw new TypeError("no such card");
      }
    };
    const { runtime, failures } = await runtimeOn(await newStore(name), world);
    quick(runtime);
    const failed = await runtime.start("act", input("a"), { threadId: "t" });
    expect(await runtime.wait(failed.run.id)).toMatchObject({
      status: "failed",
      failures: 1,
      error: { name: "TypeError", message: "no such card" },
    });
    expect(failures).toMatchObject([{ message: "no such card" }]);
    expect((await runtime.why(failed.run.id)).text).toContain("no such card");
    const next = await runtime.start("act", input("b"), { threadId: "t" });
    expect((await runtime.wait(next.run.id)).status).toBe("succeeded");
  });

  test("a cancel ends a queued run at once, and an executed one by aborting it; nothing of it is stored after", async () => {
    const world: World = { executed: [] };
    const { passed, open } = gate();
    world.during = (_thread, signal) =>
      new Promise((_resolve, reject) => {
        open();
        signal?.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
      });
    const { runtime } = await runtimeOn(await newStore(name), world);
    const first = await runtime.start("act", input("a"), { threadId: "t" });
    const second = await runtime.start("act", input("b"), { threadId: "t" });
    expect((await runtime.cancel(second.run.id, { by: "ana" })).status).toBe("cancelled");
    quick(runtime);
    await passed;
    await runtime.cancel(first.run.id, { by: "ana", reason: "wrong card" });
    expect(await runtime.wait(first.run.id)).toMatchObject({
      status: "cancelled",
      cancellation: { by: "ana", reason: "wrong card" },
    });
    expect(world.executed).toEqual([]);
    const done = await runtime.start("act", input("c"), { threadId: "u" });
    world.during = () => {};
    void done;
  });

  test("a run that has ended is not cancelled, and a cancelled one is cancelled only once", async () => {
    const { runtime } = await runtimeOn(await newStore(name), { executed: [] });
    const { run } = await runtime.start("act", input("a"), { threadId: "t" });
    const first = await runtime.cancel(run.id, { by: "ana" });
    const again = await runtime.cancel(run.id, { by: "bob" });
    expect(again.cancellation).toEqual(first.cancellation);
    quick(runtime);
    const other = await runtime.start("act", input("b"), { threadId: "t" });
    await runtime.wait(other.run.id);
    const refused = await runtime.cancel(other.run.id, { by: "ana" }).catch((error) => error);
    expect(isHoldfastError(refused, "RUN_ENDED")).toBe(true);
  });

  test("drain ends the superstep and hands the run back; the next worker goes on from there", async () => {
    const world: World = { executed: [] };
    const { passed, open } = gate();
    const leave = gate();
    let visits = 0;
    world.during = async () => {
      visits += 1;
      open();
      await leave.passed;
    };
    const { runtime } = await runtimeOn(await newStore(name), world);
    const { run } = await runtime.start("act", input("a"), { threadId: "t" });
    const worker = quick(runtime);
    await passed;
    const drained = worker.drain();
    leave.open();
    await drained;
    expect(await runtime.get(run.id)).toMatchObject({ status: "queued", failures: 0, deaths: 0 });
    expect(world.executed).toEqual([]);
    quick(runtime);
    expect((await runtime.wait(run.id)).status).toBe("succeeded");
    expect([visits, world.executed]).toEqual([1, ["a"]]);
  });

  test("multitask: reject refuses, interrupt cancels what runs, rollback goes back to before it", async () => {
    const world: World = { executed: [] };
    const { runtime, checkpointer } = await runtimeOn(await newStore(name), world);
    quick(runtime);
    await runtime.wait((await runtime.start("act", input("a"), { threadId: "t" })).run.id);
    let arrived = gate();
    world.during = async (_thread, signal) => {
      arrived.open();
      await new Promise((_resolve, reject) => {
        signal?.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
      });
    };
    const held = await runtime.start("act", input("b"), { threadId: "t" });
    await arrived.passed;
    const refused = await runtime.start("act", input("c"), { threadId: "t", multitask: "reject" }).catch((e) => e);
    expect(isHoldfastError(refused, "THREAD_HAS_RUN")).toBe(true);
    arrived = gate();
    const heldToo = await runtime.start("act", input("c"), { threadId: "t", multitask: "interrupt" });
    expect((await runtime.get(held.run.id)).status).toBe("cancelled");
    await arrived.passed;
    world.during = () => {};
    const last = await runtime.start("act", input("d"), { threadId: "t", multitask: "rollback" });
    expect((await runtime.get(heldToo.run.id)).status).toBe("cancelled");
    expect((await runtime.wait(last.run.id)).status).toBe("succeeded");
    const { values } = await graphOf(checkpointer, world).getState({ configurable: { thread_id: "t" } });
    expect(values).toEqual({ log: ["a", "saw a", "did a", "b", "d", "saw d", "did d"] });
  });

  test("debounced starts become one run with the last input", async () => {
    const world: World = { executed: [] };
    const { runtime } = await runtimeOn(await newStore(name), world);
    const first = await runtime.start("act", input("a"), { threadId: "t", debounceMs: 60_000 });
    const second = await runtime.start("act", input("b"), { threadId: "t", debounceMs: 50 });
    expect(second.run).toMatchObject({ id: first.run.id, input: input("b") });
    quick(runtime);
    expect((await runtime.wait(first.run.id)).status).toBe("succeeded");
    expect(world.executed).toEqual(["b"]);
  });

  test("a deadline that passes cancels the run, queued or executed", async () => {
    const world: World = { executed: [] };
    world.during = (_thread, signal) =>
      new Promise((_resolve, reject) => {
        signal?.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
      });
    const { runtime } = await runtimeOn(await newStore(name), world);
    const late = await runtime.start("act", input("a"), { threadId: "t", deadline: new Date(Date.now() - 1) });
    const soon = await runtime.start("act", input("b"), { threadId: "u", deadline: new Date(Date.now() + 300) });
    quick(runtime);
    for (const { run } of [late, soon])
      expect(await runtime.wait(run.id)).toMatchObject({ status: "cancelled", cancellation: { by: "deadline" } });
  });

  test("a plain interrupt of a run is answered like any, and the run goes on", async () => {
    const { runtime, checkpointer } = await runtimeOn(await newStore(name), { executed: [] }, (saver) => ({
      plain: new StateGraph(State)
        .addNode("stop", () => ({ log: [`went on with ${JSON.stringify(interrupt("?"))}`] }))
        .addEdge(START, "stop")
        .compile({ checkpointer: saver }),
    }));
    quick(runtime);
    const { run } = await runtime.start("plain", input("a"), { threadId: "t" });
    expect((await runtime.wait(run.id)).status).toBe("waiting");
    const [wait] = await checkpointer.waits({ thread: "t", status: ["open"] });
    await checkpointer.answer(String(wait?.id), { type: "respond", value: 7 } as never, { by: "ana" });
    for (let record = await runtime.get(run.id); record.status !== "succeeded"; record = await runtime.get(run.id)) {
      expect(["queued", "running", "waiting"]).toContain(record.status);
      await new Promise((resolve) => setImmediate(resolve));
    }
  });
});
