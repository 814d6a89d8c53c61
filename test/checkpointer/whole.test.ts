/** What is read back is whole: no channel missing or reset, no value replaced in silence, no changed row unnoticed. */

import { Annotation, Command, interrupt, MessagesAnnotation, Overwrite, START, StateGraph } from "@langchain/langgraph";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import type { Backend, Checkpointer } from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { newStore, storeNames } from "../backends-table.ts";
import { chain } from "./guarantees.ts";
import { at, errorOf } from "./subject.ts";

describe.each(storeNames)("on %s", (name) => {
  test("a loaded checkpoint is complete: what an earlier step wrote is there after a step that wrote something else", async () => {
    const store = await newStore(name);
    const State = Annotation.Root({
      ...MessagesAnnotation.spec,
      notes: Annotation<string[]>(),
      once: Annotation<string>(),
      n: Annotation<number>(),
    });
    const build = (saver: Checkpointer) =>
      new StateGraph(State)
        .addNode("a", () => ({
          messages: [new AIMessage({ id: "2", content: "long ".repeat(200) }), new AIMessage("x")],
          notes: ["one", "two"],
        }))
        .addNode("b", () => ({ n: 1 }))
        .addNode("c", () => ({ n: 2 }))
        .addEdge(START, "a")
        .addEdge("a", "b")
        .addEdge("b", "c")
        .compile({ checkpointer: saver });
    const first = await store.open();
    const live = await build(first).invoke(
      { messages: [new HumanMessage({ id: "1", content: "hi" })], once: "in", n: 0 },
      at("t"),
    );
    await first.close();
    const second = await store.open();
    expect((await build(second).getState(at("t"))).values).toStrictEqual(live);
    const next = await build(second).invoke({ messages: [new HumanMessage({ id: "3", content: "more" })] }, at("t"));
    expect(next).toMatchObject({ notes: ["one", "two"], once: "in", n: 2 });
    expect(next.messages.slice(0, 3).map(({ content }) => content)).toEqual(["hi", "long ".repeat(200), "x"]);
  });

  test("an update of one key on resume leaves every other stored value as it is, whatever the schema's defaults", async () => {
    const saver = await (await newStore(name)).open();
    const schema = z.object({
      chosen: z.string().default("none"),
      items: z.array(z.string()).default(() => []),
      end: z.string().default(""),
    });
    const app = new StateGraph(schema)
      .addNode("a", () => ({ end: String(interrupt("?")) }))
      .addEdge(START, "a")
      .compile({ checkpointer: saver });
    await app.invoke({ chosen: "kept", items: ["one"] }, at("t"));
    const [open] = await saver.waits({ thread: "t" });
    await app.invoke(
      new Command({ resume: { [open?.id as string]: "yes" }, update: { items: ["two"] } as never }),
      at("t"),
    );
    expect((await app.getState(at("t"))).values).toEqual({ chosen: "kept", items: ["two"], end: "yes" });
  });

  test("a list is edited by what is said: an update goes through the reducer, an Overwrite replaces", async () => {
    const saver = await (await newStore(name)).open();
    const app = chain(saver, { a: () => ({ log: ["a"] }) });
    await app.invoke({ log: ["in"], n: 1 }, at("t"));
    await app.updateState(at("t"), { log: ["edited"] }, "a");
    expect((await app.getState(at("t"))).values.log).toEqual(["in", "a", "edited"]);
    await app.updateState(at("t"), { log: new Overwrite(["only"]) } as never, "a");
    expect((await app.getState(at("t"))).values.log).toEqual(["only"]);
  });

  test("a value that cannot be read fails what needs it and names its channel and checkpoint", async () => {
    const store = await newStore(name);
    const first = await store.open();
    const steps = { a: () => ({ log: ["large ".repeat(1000)] }) };
    await chain(first, steps).invoke({ n: 1 }, at("t"));
    const id = (await chain(first, steps).getState(at("t"))).config.configurable?.["checkpoint_id"] as string;
    await first.close();
    const damaged = (backend: Backend): Backend =>
      new Proxy(backend, {
        get(target, property) {
          if (property === "blobs") return async () => new Map();
          const value: unknown = Reflect.get(target, property, target);
          return typeof value === "function" ? (value.bind(target) as unknown) : value;
        },
      });
    const error = await errorOf(chain(await store.open({}, damaged), steps).invoke(null, at("t")));
    expect(error).toMatchObject({ code: "CORRUPT_DATA" });
    for (const part of ['"log"', id, "t"]) expect(error?.message).toContain(part);
  });
});
