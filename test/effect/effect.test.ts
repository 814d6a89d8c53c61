import { Annotation, Command, END, interrupt, Send, START, StateGraph } from "@langchain/langgraph";
import { effect, isHoldfastError, run, stableTaskIds } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { expect, test } from "vitest";
import { z } from "zod";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
  n: Annotation<number>(),
});
const at = (thread_id: string) => ({ configurable: { thread_id } });

test("an outcome that is recorded is returned and the body is not called again when the node runs again", async () => {
  let bodies = 0;
  let fail = true;
  const pay = effect("pay", {
    input: z.object({ cents: z.number() }),
    run: async ({ cents }) => ({ id: ++bodies, cents }),
  });
  const seen: unknown[] = [];
  const app = new StateGraph(State)
    .addNode("pay", async () => {
      const out = await pay.outcome({ cents: 5 });
      seen.push(out);
      if (fail) throw new Error("later");
      return { log: [`paid ${out.value.id}`] };
    })
    .addEdge(START, "pay")
    .compile({ checkpointer: memory() });
  await expect(app.invoke({ n: 1 }, at("t"))).rejects.toThrow("later");
  fail = false;
  const result = await app.invoke(null, at("t"));
  expect(result.log).toEqual(["paid 1"]);
  expect(bodies).toBe(1);
  expect(seen).toMatchObject([{ cached: false }, { cached: true }]);
});

test("equal calls in parallel, Sends and loops are calls of their own", async () => {
  let bodies = 0;
  const ping = effect("ping", { input: z.string(), run: () => ++bodies });
  const app = new StateGraph(State)
    .addNode("fan", async () => ({ log: [(await Promise.all([ping("a"), ping("a")])).join()] }))
    .addNode("w", async () => ({ log: [String(await ping("a"))] }))
    .addEdge(START, "fan")
    .addConditionalEdges("fan", () => [new Send("w", {}), new Send("w", {})])
    .addEdge("w", END)
    .compile({ checkpointer: memory() });
  await app.invoke({ n: 1 }, at("t"));
  expect(bodies).toBe(4);
});

test("an effect whose body threw is unknown, waits for a person, and the first decision wins", async () => {
  const saver = memory();
  let bodies = 0;
  const mail = effect("mail", {
    input: z.string(),
    run: () => {
      bodies += 1;
      throw new Error("socket closed");
    },
  });
  const app = new StateGraph(State)
    .addNode("mail", async () => ({ log: [String(await mail("x"))] }))
    .addEdge(START, "mail")
    .compile({ checkpointer: saver });
  await expect(run(app, { n: 1 }, at("t"))).rejects.toThrow("socket closed");
  const parked = await run(app, null, at("t"));
  expect(parked.status).toBe("parked");
  const state = await app.getState(at("t"));
  const question = state.tasks[0]?.interrupts[0];
  expect(question?.id).toMatch(/^[0-9a-f]{32}$/);
  const { key } = (question?.value ?? {}) as { key: string };
  expect(await saver.settle(key, { done: "sent" }, { by: "eve" })).toMatchObject({ replayed: false });
  expect(await saver.settle(key, { done: "sent" }, { by: "bob" })).toMatchObject({
    replayed: true,
    decision: { by: "eve" },
  });
  await expect(saver.settle(key, { notDone: true }, { by: "bob" })).rejects.toMatchObject({ code: "SETTLE_CONFLICT" });
  const done = await run(app, { n: 1 }, at("t"));
  expect(done).toMatchObject({ status: "finished", values: { log: ["sent"] } });
  expect((await run(app, { n: 1 }, at("t"))).status).toBe("already_done");
  expect(bodies).toBe(1);
});

test("a replay from before a charge does not charge again", async () => {
  let bodies = 0;
  const pay = effect("pay", { input: z.number(), run: () => ++bodies });
  const app = new StateGraph(State)
    .addNode("a", () => ({ log: ["a"] }))
    .addNode("pay", async () => ({ log: [`paid ${await pay(7)}`] }))
    .addEdge(START, "a")
    .addEdge("a", "pay")
    .compile({ checkpointer: memory() });
  await app.invoke({ n: 1 }, at("t"));
  const history = [];
  for await (const s of app.getStateHistory(at("t"))) history.push(s);
  const before = history.find((s) => s.next[0] === "pay");
  expect((await app.invoke(null, before?.config as never)).log).toEqual(["a", "paid 1"]);
  expect(bodies).toBe(1);
});

test("an equal call in the next turn of a conversation is a new one and runs", async () => {
  let bodies = 0;
  const pay = effect("pay", { input: z.number(), run: () => ++bodies });
  const app = new StateGraph(State)
    .addNode("pay", async () => ({ log: [`paid ${await pay(7)}`] }))
    .addEdge(START, "pay")
    .compile({ checkpointer: memory() });
  await app.invoke({ n: 1 }, at("t"));
  expect((await app.invoke({ n: 1 }, at("t"))).log).toEqual(["paid 1", "paid 2"]);
});

test("a subgraph in a node under retryPolicy goes on where it was and its effects are not repeated", async () => {
  let bodies = 0;
  let tries = 0;
  const pay = effect("pay", { input: z.number(), run: () => ++bodies });
  const sub = new StateGraph(State)
    .addNode("s1", async () => ({ log: [`s1 ${await pay(1)}`] }))
    .addNode("s2", () => {
      tries += 1;
      if (tries < 3) throw new Error("again");
      return { log: ["s2"] };
    })
    .addEdge(START, "s1")
    .addEdge("s1", "s2")
    .compile();
  const app = new StateGraph(State)
    .addNode("sub", sub, { retryPolicy: { maxAttempts: 5, initialInterval: 1, jitter: false, logWarning: false } })
    .addEdge(START, "sub")
    .compile({ checkpointer: memory() });
  await app.invoke({ n: 1 }, at("t"));
  expect(bodies).toBe(1);
});

test.each([["exit durability", { durability: "exit" as const }, "EFFECT_NOT_DURABLE"]])(
  "%s is refused with a clear error and the body does not run",
  async (_, options, code) => {
    let bodies = 0;
    const pay = effect("pay", { input: z.number(), run: () => ++bodies });
    const app = new StateGraph(State)
      .addNode("pay", async () => ({ n: await pay(1) }))
      .addEdge(START, "pay")
      .compile({ checkpointer: memory() });
    await expect(app.invoke({ n: 1 }, { ...at("t"), ...options })).rejects.toMatchObject({ code });
    expect(bodies).toBe(0);
  },
);

test("a checkpointer: false subgraph is refused with a clear error", async () => {
  const pay = effect("pay", { input: z.number(), run: () => 1 });
  const sub = new StateGraph(State)
    .addNode("s", async () => ({ n: await pay(1) }))
    .addEdge(START, "s")
    .compile({ checkpointer: false });
  const app = new StateGraph(State).addNode("sub", sub).addEdge(START, "sub").compile({ checkpointer: memory() });
  await expect(app.invoke({ n: 1 }, at("t"))).rejects.toMatchObject({ code: "EFFECT_NOT_DURABLE" });
});

test("an interrupt between two effects resumes and repeats neither", async () => {
  let bodies = 0;
  const pay = effect("pay", { input: z.string(), run: () => ++bodies });
  const app = new StateGraph(State)
    .addNode("ask", async () => {
      const a = await pay("a");
      const ok = interrupt("ok?");
      const b = await pay(`b${ok}`);
      return { log: [`${a}${b}`] };
    })
    .addEdge(START, "ask")
    .compile({ checkpointer: memory() });
  await app.invoke({ n: 1 }, at("t"));
  const out = await app.invoke(new Command({ resume: "!" }), at("t"));
  expect(out.log).toEqual(["12"]);
  expect(bodies).toBe(2);
});

test("an effect outside a graph says so", async () => {
  const pay = effect("pay", { input: z.number(), run: () => 1 });
  const error = await pay(1).catch((e: unknown) => e);
  expect(isHoldfastError(error, "EFFECT_OUTSIDE_GRAPH")).toBe(true);
  expect(() => stableTaskIds()).toThrow("outside");
});
