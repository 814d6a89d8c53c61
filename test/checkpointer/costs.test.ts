/** What is written: commits, bytes, what may not yet be durable. Counted, never timed. */

import { randomBytes } from "node:crypto";
import { HumanMessage } from "@langchain/core/messages";
import { Annotation, DeltaChannel, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { type Backend, type CommitEvent, channels, effect } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { newStore, sharedStoreNames, storeNames } from "../backends-table.ts";
import { State } from "./shapes.ts";
import { at } from "./subject.ts";

/** Commit events from now to the end of the test. */
function commitEvents(): CommitEvent[] {
  const events: CommitEvent[] = [];
  const listen = (event: unknown) => events.push(event as CommitEvent);
  channels.commitAfter.subscribe(listen);
  onTestFinished(() => void channels.commitAfter.unsubscribe(listen));
  return events;
}

/** START → step, again and again, until it has run `steps` times. */
function loop(
  saver: ReturnType<typeof memory>,
  steps: number,
  body: (n: number) => Promise<unknown> = async () => undefined,
) {
  return new StateGraph(State)
    .addNode("step", async ({ n }) => {
      await body(n);
      return { n: n + 1 };
    })
    .addEdge(START, "step")
    .addConditionalEdges("step", ({ n }) => (n < steps ? "step" : "__end__"))
    .compile({ checkpointer: saver });
}

const N = 20;
const config = (durability: "sync" | "async") => at("t", { durability, recursionLimit: 1000 });

describe.each(storeNames)("on %s", (name) => {
  test("N supersteps of one task take at most N + 2 commits in sync durability", async () => {
    const saver = await (await newStore(name)).open();
    const events = commitEvents();
    await loop(saver, N).invoke({ n: 0 }, config("sync"));
    expect(events.length).toBeLessThanOrEqual(N + 2);
  });

  test("with a DeltaChannel they take at most 2N + 2", async () => {
    const saver = await (await newStore(name)).open();
    const items = () => new DeltaChannel<string[], string[]>((state, updates) => (state ?? []).concat(...updates));
    const graph = new StateGraph(
      Annotation.Root({ n: Annotation<number>(), items: items as never }) as unknown as typeof State,
    )
      .addNode("step", ({ n }) => ({ n: n + 1, items: [String(n)] }) as never)
      .addEdge(START, "step")
      .addConditionalEdges("step", ({ n }) => (n < N ? "step" : "__end__"))
      .compile({ checkpointer: saver });
    const events = commitEvents();
    await graph.invoke({ n: 0 }, config("sync"));
    expect(events.length).toBeLessThanOrEqual(2 * N + 2);
  });

  test.each([
    ["an effect adds exactly two commits, intent and outcome", {}, 2],
    ["a rerun effect adds exactly one", { onUnknown: "rerun" as const }, 1],
  ])("%s", async (_, options, added) => {
    const saver = await (await newStore(name)).open();
    const ping = effect("ping", { input: z.number(), run: (n) => n, ...options });
    const events = commitEvents();
    await loop(saver, N).invoke({ n: 0 }, config("sync"));
    const without = events.length;
    await loop(saver, N, ping).invoke({ n: 0 }, { ...config("sync"), configurable: { thread_id: "u" } });
    expect(events.length - without - without).toBe(added * N);
  });
});

test.each(sharedStoreNames)(
  "in async durability at most 32 commits of a run are not yet durable at any moment, on %s",
  async (name) => {
    const store = await newStore(name);
    let [durable, behind, begun] = [0, 0, 0];
    const counting = (backend: Backend): Backend =>
      new Proxy(backend, {
        get(target, property) {
          if (property !== "commit") {
            const value: unknown = Reflect.get(target, property, target);
            return typeof value === "function" ? (value.bind(target) as unknown) : value;
          }
          return async (group: Parameters<Backend["commit"]>[0]) => {
            const verdicts = await target.commit(group);
            for (const ops of group)
              durable += ops.filter((op) => op.kind === "checkpoint" || op.kind === "writes").length;
            return verdicts;
          };
        },
      });
    const saver = await store.open({}, counting);
    // The engine gives the event loop no turn here. Each step before this one has handed over its writes and a checkpoint.
    await loop(saver, 300, async () => {
      behind = Math.max(behind, 2 * begun - durable);
      begun += 1;
    }).invoke({ n: 0 }, config("async"));
    expect(behind).toBeGreaterThan(2);
    expect(behind).toBeLessThanOrEqual(32);
  },
);

/** Incompressible text. */
const text = (chars: number) => randomBytes(chars).toString("base64").slice(0, chars);

/** Bytes committed by each superstep of a graph that runs `steps` of them. */
async function bytesPerStep(
  steps: number,
  build: (saver: ReturnType<typeof memory>) => { invoke(input: never, config: never): Promise<unknown> },
  input: unknown,
) {
  const saver = memory();
  const events = commitEvents();
  await build(saver).invoke(input as never, config("sync") as never);
  // The first two commits are the input's.
  const bytes = events.slice(2).map((event) => event.bytes);
  expect(bytes.length).toBeGreaterThanOrEqual(steps - 2);
  return { bytes, total: bytes.reduce((a, b) => a + b, 0) };
}

const STEPS = 400;
const Counted = { count: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 }) };
const again = ({ count }: { count: number }) => (count < STEPS ? "step" : "__end__");

describe("the bytes of a superstep do not grow with what the thread holds", () => {
  const growing: readonly [
    string,
    (saver: ReturnType<typeof memory>) => { invoke(input: never, config: never): Promise<unknown> },
    unknown,
  ][] = [
    [
      "a list with a reducer",
      (checkpointer) =>
        new StateGraph(
          Annotation.Root({
            ...Counted,
            list: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
          }),
        )
          .addNode("step", () => ({ count: 1, list: [text(500), text(200)] }))
          .addEdge(START, "step")
          .addConditionalEdges("step", again)
          .compile({ checkpointer }) as never,
      { count: 0 },
    ],
    [
      "MessagesAnnotation",
      (checkpointer) =>
        new StateGraph(Annotation.Root({ ...Counted, ...MessagesAnnotation.spec }))
          .addNode("step", () => ({ count: 1, messages: [new HumanMessage(text(500)), new HumanMessage(text(200))] }))
          .addEdge(START, "step")
          .addConditionalEdges("step", again)
          .compile({ checkpointer }) as never,
      { count: 0 },
    ],
    [
      "a list that a node writes back whole",
      (checkpointer) =>
        new StateGraph(Annotation.Root({ ...Counted, list: Annotation<string[]>() }))
          .addNode("step", ({ list }) => ({ count: 1, list: [...list, text(500), text(200)] }))
          .addEdge(START, "step")
          .addConditionalEdges("step", again)
          .compile({ checkpointer }) as never,
      { count: 0, list: [] },
    ],
  ];
  test.each(growing)("%s", async (_, build, input) => {
    const { bytes, total } = await bytesPerStep(STEPS, build, input);
    const around = (step: number) => bytes.slice(step - 5, step).reduce((a, b) => a + b, 0);
    expect(around(398)).toBeLessThanOrEqual(1.2 * around(50));
    // Each item once, with what stands around it.
    expect(total).toBeLessThanOrEqual(STEPS * 700 * 3.5);
  });
});

test("one large value in twenty checkpoints is stored once", async () => {
  const saver = memory();
  const document = text(1_000_000);
  const events = commitEvents();
  const Live = Annotation.Root({ ...Counted, document: Annotation<string>(), nested: Annotation<{ inner: string }>() });
  const app = new StateGraph(Live)
    .addNode("step", () => ({ count: 1, nested: { inner: document } }))
    .addEdge(START, "step")
    .addConditionalEdges("step", ({ count }) => (count < 20 ? "step" : "__end__"))
    .compile({ checkpointer: saver });
  await app.invoke({ count: 0, document }, config("sync"));
  const stored = await saver.backend.blobs("t", []);
  expect(stored.size).toBe(0);
  let size = 0;
  for await (const row of saver.backend.checkpoints({ thread: "t" }))
    size += row.body.length + row.writes.reduce((sum, write) => sum + write.body.length, 0);
  expect(size).toBeLessThan(100_000);
  expect(events.length).toBeGreaterThan(20);
  expect((await app.getState(at("t"))).values.nested.inner).toBe(document);
});
