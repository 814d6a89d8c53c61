/** Messages that tell workers of runs: whatever happens to them, the run's row decides. */

import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { ask, type Checkpointer } from "holdfast";
import { createRuntime, type Delivery, type Handled, type RuntimeOptions, type WorkerOptions } from "holdfast/runs";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { newStore, type Store, sharedStoreNames, storeNames } from "../backends-table.ts";
import { gate } from "../checkpointer/subject.ts";
import { blind } from "./blind.ts";

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

/** Never within a test. */
const RARELY = { pollMs: 3_600_000, takeoverMs: 3_600_000 };
const OFTEN = { ...RARELY, pollMs: 10 };

/** A queue whose messages the test delivers, by hand. */
class Queue implements Delivery {
  readonly sent: string[] = [];
  readonly receivers: { readonly handler: (run: string) => Promise<Handled>; closed: boolean }[] = [];
  onSend: (run: string) => Promise<void> | void = () => {};

  async send(run: string): Promise<void> {
    await this.onSend(run);
    this.sent.push(run);
  }

  async receive(handler: (run: string) => Promise<Handled>) {
    const receiver = { handler, closed: false };
    this.receivers.push(receiver);
    return {
      close: async () => {
        receiver.closed = true;
      },
    };
  }

  /** Hands a message to one of the workers, in the order of their start. */
  async deliver(run: string, receiver = 0): Promise<Handled> {
    await vi.waitFor(() => expect(this.receivers.length).toBeGreaterThan(receiver));
    return this.receivers[receiver]?.handler(run) as Promise<Handled>;
  }
}

interface World {
  readonly begun: string[];
  during?: () => Promise<void>;
}

const graphsOf = (checkpointer: Checkpointer, world: World) => ({
  steps: new StateGraph(State)
    .addNode("first", async ({ log }) => {
      world.begun.push(String(log.at(-1)));
      await world.during?.();
      return { log: ["first"] };
    })
    .addNode("second", () => ({ log: ["second"] }))
    .addEdge(START, "first")
    .addEdge("first", "second")
    .compile({ checkpointer }),
  asks: new StateGraph(State)
    .addNode("ask", async () => ({ log: [(await ask("Pay?")).decision] }))
    .addEdge(START, "ask")
    .compile({ checkpointer }),
});

interface Opened {
  readonly queue?: Queue;
  readonly world?: World;
  readonly worker?: WorkerOptions;
  readonly sees?: boolean;
  readonly onError?: RuntimeOptions["onError"];
}

/** A process as far as the store knows: it starts runs, and its worker finds nothing by itself unless it `sees`. */
async function processOn(store: Store, { queue, world = { begun: [] }, worker, sees = false, onError }: Opened) {
  const checkpointer = await store.open({}, sees ? undefined : blind);
  const graphs = graphsOf(checkpointer, world);
  const runtime = createRuntime({ checkpointer, graphs, delivery: queue, onError: onError ?? (() => {}) });
  onTestFinished(() => runtime.close());
  const begin = async (what: string, options: { graph?: string; at?: Date; thread?: string } = {}) => {
    const { graph = "steps", at, thread = "t" } = options;
    return (await runtime.start(graph, { log: [what] }, { threadId: thread, at })).run.id;
  };
  return { checkpointer, runtime, begin, worker: runtime.worker({ ...RARELY, ...worker }).start() };
}

test.each(sharedStoreNames)("on %s the message of a run is sent when every process can read its row", async (name) => {
  const store = await newStore(name);
  const other = createRuntime({ checkpointer: await store.open(), graphs: {} });
  const queue = new Queue();
  const seen: unknown[] = [];
  queue.onSend = async (run) => void seen.push(await other.get(run));
  const { begin } = await processOn(store, { queue });
  const id = await begin("a");
  expect(seen).toMatchObject([{ id, status: "queued", input: { log: ["a"] } }]);
});

describe.each(storeNames)("on %s", (name) => {
  test("a run is executed by the worker that is told of it, and its message is acknowledged when it has ended", async () => {
    const queue = new Queue();
    const world: World = { begun: [] };
    const { passed, open } = gate();
    world.during = () => passed;
    const { runtime, begin } = await processOn(await newStore(name), { queue, world });
    const id = await begin("a");
    let handled: Handled | undefined;
    const message = queue.deliver(id).then((how) => {
      handled = how;
    });
    await vi.waitFor(() => expect(world.begun).toEqual(["a"]));
    expect([handled, (await runtime.get(id)).status]).toEqual([undefined, "running"]);
    open();
    await message;
    expect([handled, (await runtime.get(id)).status]).toEqual(["done", "succeeded"]);
  });

  test("a message that comes twice at once, and again afterwards, executes nothing twice", async () => {
    const queue = new Queue();
    const world: World = { begun: [] };
    const { runtime, begin } = await processOn(await newStore(name), { queue, world });
    const id = await begin("a");
    expect(await Promise.all([queue.deliver(id), queue.deliver(id)])).toContain("done");
    expect(await queue.deliver(id)).toBe("done");
    expect(await runtime.get(id)).toMatchObject({ status: "succeeded", epoch: 1 });
    expect(world.begun).toEqual(["a"]);
  });

  test("a run whose message is lost, or could not be sent, is found by the look of a worker", async () => {
    const queue = new Queue();
    queue.onSend = () => Promise.reject(new Error("the queue is gone"));
    const errors: unknown[] = [];
    const options = { queue, sees: true, worker: OFTEN, onError: (error: unknown) => void errors.push(error) };
    const { runtime, begin } = await processOn(await newStore(name), options);
    const id = await begin("a");
    expect((await runtime.wait(id)).status).toBe("succeeded");
    expect(errors).toMatchObject([{ message: "the queue is gone" }]);
  });

  test("a message that comes before the run is due claims nothing and comes again", async () => {
    const queue = new Queue();
    const { runtime, begin } = await processOn(await newStore(name), { queue });
    const id = await begin("a", { at: new Date(Date.now() + 3_600_000) });
    expect(await queue.deliver(id)).toBe("later");
    expect(await runtime.get(id)).toMatchObject({ status: "queued", epoch: 0 });
  });

  test("messages in another order than the runs of a thread change nothing of their order", async () => {
    const queue = new Queue();
    const world: World = { begun: [] };
    const { begin } = await processOn(await newStore(name), { queue, world });
    const [a, b] = [await begin("a"), await begin("b")];
    expect(await queue.deliver(b)).toBe("later");
    expect(await queue.deliver(a)).toBe("done");
    expect(await queue.deliver(b)).toBe("done");
    expect(world.begun).toEqual(["a", "b"]);
  });

  test("a message for a run that has ended, was deleted or never was is acknowledged", async () => {
    const queue = new Queue();
    const { runtime, checkpointer, begin } = await processOn(await newStore(name), { queue });
    const ended = await begin("a");
    await runtime.cancel(ended, { by: "ana" });
    const deleted = await begin("b", { thread: "u" });
    await checkpointer.deleteThread("u");
    for (const id of [ended, deleted, "never was"]) expect(await queue.deliver(id)).toBe("done");
  });

  test("the message of a run that waits is acknowledged, and who goes on with it after the answer sends another", async () => {
    const queue = new Queue();
    const store = await newStore(name);
    const { runtime, checkpointer, begin, worker } = await processOn(store, { queue });
    const id = await begin("a", { graph: "asks" });
    expect(await queue.deliver(id)).toBe("done");
    const { waits, code } = await runtime.why(id);
    expect(code).toBe("waits");
    expect(await queue.deliver(id)).toBe("done");
    await worker.drain();
    await checkpointer.answer(String(waits[0]?.id), { type: "approve" }, { by: "ana" });
    expect(queue.sent).toEqual([id]);
    const seeing = createRuntime({ checkpointer, graphs: graphsOf(checkpointer, { begun: [] }), delivery: queue });
    onTestFinished(() => seeing.close());
    // It finds nothing either, but is told.
    seeing.worker(OFTEN).start();
    expect(await queue.deliver(id, 1)).toBe("done");
    expect((await runtime.get(id)).status).toBe("succeeded");
  });

  test("a worker that claims by itself what was claimed before sends a message, so that the queue sees it die", async () => {
    const queue = new Queue();
    const { runtime, checkpointer, begin } = await processOn(await newStore(name), {
      queue,
      sees: true,
      worker: OFTEN,
    });
    const id = await begin("a", { graph: "asks" });
    await vi.waitFor(async () => expect((await runtime.get(id)).status).toBe("waiting"));
    expect(queue.sent).toEqual([id]);
    const [wait] = await checkpointer.waits({ thread: "t" });
    await checkpointer.answer(String(wait?.id), { type: "approve" }, { by: "ana" });
    await vi.waitFor(async () => expect((await runtime.get(id)).status).toBe("succeeded"));
    expect(queue.sent).toEqual([id, id]);
  });

  test("a message behind a run that waits is acknowledged, and who claims the run after it sends another", async () => {
    const queue = new Queue();
    const options = { queue, sees: true, worker: { ...OFTEN, takeoverMs: 1 } };
    const { runtime, checkpointer, begin } = await processOn(await newStore(name), options);
    const first = await begin("a", { graph: "asks" });
    await vi.waitFor(async () => expect((await runtime.get(first)).status).toBe("waiting"));
    const second = await begin("b");
    expect(await queue.deliver(second)).toBe("done");
    expect((await runtime.get(second)).status).toBe("queued");
    const [wait] = await checkpointer.waits({ thread: "t" });
    await checkpointer.answer(String(wait?.id), { type: "approve" }, { by: "ana" });
    expect((await runtime.wait(second)).status).toBe("succeeded");
    expect(queue.sent.filter((id) => id === second)).toHaveLength(2);
  });

  test("drain takes no message any more before it ends the supersteps; what is in hand comes again", async () => {
    const queue = new Queue();
    const world: World = { begun: [] };
    const { passed, open } = gate();
    world.during = () => passed;
    const { runtime, begin, worker } = await processOn(await newStore(name), { queue, world });
    const [id, other] = [await begin("a"), await begin("b", { thread: "u" })];
    const message = queue.deliver(id);
    await vi.waitFor(() => expect(world.begun).toEqual(["a"]));
    const drained = worker.drain();
    await vi.waitFor(() => expect(queue.receivers[0]?.closed).toBe(true));
    expect(await queue.deliver(other)).toBe("later");
    open();
    expect(await message).toBe("later");
    await drained;
    expect([await runtime.get(id), await runtime.get(other)]).toMatchObject([
      { status: "queued", epoch: 1, failures: 0 },
      { status: "queued", epoch: 0 },
    ]);
  });

  test("a worker without a free place claims nothing for a message, which comes again", async () => {
    const queue = new Queue();
    const world: World = { begun: [] };
    const { passed, open } = gate();
    world.during = () => passed;
    const { begin } = await processOn(await newStore(name), { queue, world, worker: { concurrency: 1 } });
    const [a, b] = [await begin("a"), await begin("b", { thread: "u" })];
    const first = queue.deliver(a);
    await vi.waitFor(() => expect(world.begun).toEqual(["a"]));
    expect(await queue.deliver(b)).toBe("later");
    open();
    expect(await first).toBe("done");
    expect(await queue.deliver(b)).toBe("done");
  });
});

test.each(sharedStoreNames)("on %s a message for a run that a living worker has comes again", async (name) => {
  const store = await newStore(name);
  const queue = new Queue();
  const world: World = { begun: [] };
  const { passed, open } = gate();
  world.during = () => passed;
  const { runtime, begin } = await processOn(store, { queue, world });
  const id = await begin("a");
  const message = queue.deliver(id);
  await vi.waitFor(() => expect(world.begun).toEqual(["a"]));
  const other = await processOn(store, { queue, world });
  expect(await queue.deliver(id, 1)).toBe("later");
  open();
  expect(await message).toBe("done");
  expect(await queue.deliver(id, 1)).toBe("done");
  expect(await runtime.get(id)).toMatchObject({ status: "succeeded", epoch: 1 });
  expect(other.worker.counts).toEqual({ claimed: 0, takenOver: 0, lost: 0 });
});

test("what is no delivery is refused", async () => {
  const checkpointer = await (await newStore("memory")).open();
  const delivery = { send: () => {} } as unknown as Delivery;
  expect(() => createRuntime({ checkpointer, graphs: {}, delivery })).toThrow(/methods send and receive/);
});
