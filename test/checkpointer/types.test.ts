/** Classes of the application, and live objects that are not state (F8, F10). */

import { Annotation, interrupt, Command, START, StateGraph } from "@langchain/langgraph";
import type { ValueType } from "holdfast";
import { expect, test } from "vitest";
import { newStore } from "../backends-table.ts";
import { at, errorOf } from "./subject.ts";

class Money {
  readonly cents: bigint;
  readonly currency: string;
  constructor(cents: bigint, currency: string) {
    this.cents = cents;
    this.currency = currency;
  }
}

const money: ValueType<Money> = {
  id: "money",
  is: (value): value is Money => value instanceof Money,
  toData: ({ cents, currency }) => ({ cents, currency }),
  fromData: (data) => {
    const { cents, currency } = data as { cents: bigint; currency: string };
    return new Money(cents, currency);
  },
};

const State = Annotation.Root({ price: Annotation<Money>(), note: Annotation<string>() });

test("a registered class comes back as that class, and a checkpointer that does not know it says so by its name", async () => {
  const store = await newStore("sqlite");
  const build = (checkpointer: Awaited<ReturnType<typeof store.open>>) =>
    new StateGraph(State)
      .addNode("a", ({ price }) => ({ note: price.currency }))
      .addEdge(START, "a")
      .compile({ checkpointer });
  const first = await store.open({ types: [money] });
  await build(first).invoke({ price: new Money(5n, "EUR") }, at("t"));
  const { price } = (await build(first).getState(at("t"))).values;
  expect(price).toBeInstanceOf(Money);
  expect(price).toEqual(new Money(5n, "EUR"));
  await first.close();
  const without = await store.open();
  const error = await errorOf(build(without).getState(at("t")));
  expect(error?.code).toMatch(/^(CORRUPT_DATA|UNSUPPORTED_FORMAT|UNSERIALIZABLE_VALUE|INVALID_ARGUMENT)$/);
  expect(error?.message).toContain("money");
});

test("a live object is handed in anew at each invoke, is never stored, and the state stays as it was", async () => {
  const store = await newStore("sqlite");
  const saver = await store.open();
  const used: string[] = [];
  const app = new StateGraph(State)
    .addNode("a", (_state, config) => {
      const { client } = (config as unknown as { configurable: { client: () => string } }).configurable;
      used.push(client());
      return { note: String(interrupt("ok?")) };
    })
    .addEdge(START, "a")
    .compile({ checkpointer: saver });
  const withClient = (name: string) => ({ configurable: { thread_id: "t", client: () => `secret-client-${name}` } });
  await app.invoke({ note: "start" }, withClient("one"));
  const before = (await app.getState(at("t"))).values;
  await app.invoke(new Command({ resume: "yes" }), withClient("two"));
  expect(used).toEqual(["secret-client-one", "secret-client-two"]);
  expect(before).toEqual({ note: "start" });
  await saver.close();
  expect(await store.contents()).not.toContain("secret-client");
});
