/** An effect never waits for a checkpoint that will not come. */

import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { type Checkpointer, effect } from "holdfast";
import { expect, test } from "vitest";
import { z } from "zod";
import { newStore } from "../backends-table.ts";
import { chain } from "../checkpointer/guarantees.ts";
import { State } from "../checkpointer/shapes.ts";
import { at, errorOf } from "../checkpointer/subject.ts";

const Any = Annotation.Root({ value: Annotation<unknown>(), n: Annotation<number>() });

/** a writes what cannot be kept, b calls an effect. */
function bad(pay: (input: string) => Promise<number>) {
  return new StateGraph(Any)
    .addNode("a", () => ({ value: () => 1 }))
    .addNode("b", async () => ({ n: await pay("x") }))
    .addEdge(START, "a")
    .addEdge("a", "b");
}

function counted() {
  const seen = { bodies: 0 };
  return { seen, pay: effect("pay", { input: z.string(), run: () => ++seen.bodies }) };
}

test("after a state that could not be kept, in async durability, the next effect is refused instead of waiting for ever", async () => {
  const { seen, pay } = counted();
  const saver = await (await newStore("memory")).open();
  const error = await errorOf(
    bad(pay)
      .compile({ checkpointer: saver })
      .invoke({ n: 0 }, at("t", { durability: "async" })),
  );
  expect(error?.code).toMatch(/^(UNSERIALIZABLE_VALUE|RUN_REFUSED)$/);
  expect(error?.message).toContain("value");
  expect(seen.bodies).toBe(0);
}, 20_000);

test("the same in a subgraph ends the subgraph; a node that catches it goes on, with effects of its own", async () => {
  const { seen, pay } = counted();
  const saver = await (await newStore("memory")).open();
  const sub = bad(pay).compile();
  let inner: Awaited<ReturnType<typeof errorOf>>;
  const app = chain(saver, {
    a: async () => {
      inner = await errorOf(sub.invoke({ n: 0 }));
      return { log: [`paid ${await pay("instead")}`] };
    },
    b: () => ({ log: ["b"] }),
  });
  expect((await app.invoke({ n: 1 }, at("t", { durability: "async" }))).log).toEqual(["paid 1", "b"]);
  expect(inner?.code).toMatch(/^(UNSERIALIZABLE_VALUE|RUN_REFUSED)$/);
  expect(seen.bodies).toBe(1);
}, 20_000);

test("a journal that cannot be written ends the run in every durability, and no effect begins", async () => {
  for (const durability of ["sync", "async"] as const) {
    const { seen, pay } = counted();
    const saver: Checkpointer = await (await newStore("memory")).open({
      journal: "/nonexistent/directory/actions.jsonl",
    });
    const app = new StateGraph(State)
      .addNode("a", async () => ({ n: await pay("x") }))
      .addEdge(START, "a")
      .compile({ checkpointer: saver });
    const error = await errorOf(app.invoke({ n: 1 }, at("t", { durability })));
    expect(error?.message).toContain("/nonexistent/directory/actions.jsonl");
    expect(seen.bodies).toBe(0);
  }
}, 20_000);

test("a backend that fails a commit ends the run, and the effect that waited is told so", async () => {
  const { seen, pay } = counted();
  let fail = true;
  const saver = await (await newStore("memory")).open(
    {},
    (backend) =>
      new Proxy(backend, {
        get(target, property) {
          if (property === "commit" && fail) return async () => Promise.reject(new Error("disk full"));
          const value: unknown = Reflect.get(target, property, target);
          return typeof value === "function" ? (value.bind(target) as unknown) : value;
        },
      }),
  );
  const app = chain(saver, { a: () => ({}), b: async () => ({ n: await pay("x") }) });
  const error = await errorOf(app.invoke({ n: 1 }, at("t", { durability: "async" })));
  expect(error?.message).toContain("disk full");
  expect(seen.bodies).toBe(0);
  fail = false;
  await app.invoke({ n: 1 }, at("t", { durability: "async" }));
  expect(seen.bodies).toBe(1);
}, 20_000);
