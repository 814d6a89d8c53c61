/** `run`: starts, goes on, and answers what is already done. */

import { Command, interrupt, START, StateGraph } from "@langchain/langgraph";
import { effect, run } from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { newStore, storeNames } from "./backends-table.ts";
import { chain } from "./checkpointer/guarantees.ts";
import { State } from "./checkpointer/shapes.ts";
import { at, errorOf } from "./checkpointer/subject.ts";

describe.each(storeNames)("on %s", (name) => {
  test("a crashed thread goes on with the same input or with null, and a finished one is already_done and runs nothing", async () => {
    for (const again of [null, { n: 1 }]) {
      const saver = await (await newStore(name)).open();
      const ran: string[] = [];
      let fail = true;
      const app = chain(saver, {
        a: () => {
          ran.push("a");
          return { log: ["a"] };
        },
        b: () => {
          ran.push("b");
          if (fail) throw new Error("crash");
          return { log: ["b"] };
        },
      });
      await expect(run(app, { n: 1 }, at("t"))).rejects.toThrow("crash");
      fail = false;
      expect(await run(app, again, at("t"))).toMatchObject({
        status: "finished",
        values: { log: ["a", "b"] },
        waits: [],
      });
      expect(await run(app, again, at("t"))).toMatchObject({ status: "already_done", values: { log: ["a", "b"] } });
      expect(ran).toEqual(["a", "b", "b"]);
    }
  });

  test("another input is refused while something is unfinished, and starts the next turn afterwards", async () => {
    const saver = await (await newStore(name)).open();
    let fail = true;
    const app = chain(saver, {
      a: ({ n }) => {
        if (fail) throw new Error("crash");
        return { log: [`a${n}`] };
      },
    });
    await expect(run(app, { n: 1 }, at("t"))).rejects.toThrow("crash");
    const refused = await errorOf(run(app, { n: 2 }, at("t")));
    expect(refused).toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(refused?.message).toContain("unfinished");
    fail = false;
    expect((await run(app, null, at("t"))).values).toMatchObject({ log: ["a1"] });
    expect(await run(app, { n: 2 }, at("t"))).toMatchObject({ status: "finished", values: { log: ["a1", "a2"] } });
    expect((await run(app, { n: 2 }, at("t"))).status).toBe("already_done");
  });

  test("a question makes it wait, names the question, and an answer by its id goes on", async () => {
    const saver = await (await newStore(name)).open();
    const app = chain(saver, { ask: () => ({ log: [`${interrupt("one?")}${interrupt("two?")}`] }) });
    const first = await run(app, { n: 1 }, at("t"));
    expect(first).toMatchObject({ status: "waiting", waits: [{ kind: "interrupt", value: "one?" }] });
    expect(await run(app, null, at("t"))).toMatchObject({ status: "waiting", waits: [{ value: "one?" }] });
    const second = await run(app, new Command({ resume: { [first.waits[0]?.id ?? ""]: "1" } }), at("t"));
    expect(second).toMatchObject({ status: "waiting", waits: [{ value: "two?" }] });
    expect(await run(app, new Command({ resume: "2" }), at("t"))).toMatchObject({
      status: "finished",
      values: { log: ["12"] },
    });
  });
});

test("an unknown effect in an error handler parks the thread although the state shows no question", async () => {
  const saver = await (await newStore("memory")).open();
  const refund = effect("refund", {
    input: z.string(),
    run: (): string => {
      throw new Error("cut off");
    },
  });
  const app = new StateGraph(State)
    .addNode(
      "a",
      () => {
        throw new Error("node failed");
      },
      { errorHandler: async () => ({ log: [await refund("x")] }) } as never,
    )
    .addEdge(START, "a")
    .compile({ checkpointer: saver });
  await errorOf(run(app, { n: 1 }, at("t")));
  const parked = await run(app, null, at("t"));
  expect(parked).toMatchObject({ status: "parked", waits: [{ kind: "settle", value: { effect: "refund" } }] });
  await saver.settle(
    (parked.waits.at(0)?.value as { key: string } | undefined)?.key ?? "",
    { done: "refunded" },
    { by: "eve" },
  );
  expect(await run(app, null, at("t"))).toMatchObject({ status: "finished", values: { log: ["refunded"] } });
});

test("a thread that has not begun cannot go on, a graph without our checkpointer cannot be run, and a thread must be named", async () => {
  const saver = await (await newStore("memory")).open();
  const app = chain(saver, { a: () => ({}) });
  expect(await errorOf(run(app, null, at("new")))).toMatchObject({ code: "INVALID_ARGUMENT" });
  expect(await errorOf(run(app, { n: 1 }, { configurable: {} }))).toMatchObject({ code: "MISSING_THREAD_ID" });
  const foreign = new StateGraph(State)
    .addNode("a", () => ({}))
    .addEdge(START, "a")
    .compile();
  expect(await errorOf(run(foreign, { n: 1 }, at("t")))).toMatchObject({ code: "FOREIGN_CHECKPOINTER" });
});
