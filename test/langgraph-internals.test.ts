/**
 * What Holdfast relies on inside LangGraph, item by item as listed in `src/langgraph.ts`: a LangGraph version that changes
 * one fails here by name, not in a user's thread.
 */

import { AIMessage } from "@langchain/core/messages";
import { RunnableLambda } from "@langchain/core/runnables";
import { AsyncLocalStorageProviderSingleton } from "@langchain/core/singletons";
import { tool } from "@langchain/core/tools";
import {
  Command,
  entrypoint,
  interrupt,
  MemorySaver,
  MessagesAnnotation,
  START,
  StateGraph,
  task,
} from "@langchain/langgraph";
import type { Checkpoint } from "@langchain/langgraph-checkpoint";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { expect, test } from "vitest";
import { z } from "zod";
import { State } from "./checkpointer/shapes.ts";
import { at, errorOf } from "./checkpointer/subject.ts";
import { holdUnder, resumeStrictly, unseen, wentOn } from "../src/langgraph.ts";

interface Seen {
  readonly control?: unknown;
  readonly configurable: Record<PropertyKey, unknown>;
}

const MARK = Symbol.for("holdfast.test.mark");

const here = () => AsyncLocalStorageProviderSingleton.getRunnableConfig() as unknown as Seen;

/** MemorySaver that keeps the configs of its calls and marks those of runs, as our checkpointer does. */
class Spy extends MemorySaver {
  readonly calls: { readonly name: string; readonly config: Seen }[] = [];
  readonly #mark: boolean;

  constructor(mark = false) {
    super();
    this.#mark = mark;
  }

  override async getTuple(config: Parameters<MemorySaver["getTuple"]>[0]) {
    const seen = config as unknown as Seen;
    this.calls.push({ name: "getTuple", config: seen });
    if (this.#mark && seen.control !== undefined) seen.configurable[MARK] ??= { run: true };
    return super.getTuple(config);
  }

  override async put(...args: Parameters<MemorySaver["put"]>) {
    this.calls.push({ name: "put", config: args[0] as unknown as Seen });
    return super.put(...args);
  }

  override async putWrites(...args: Parameters<MemorySaver["putWrites"]>) {
    this.calls.push({ name: "putWrites", config: args[0] as unknown as Seen });
    return super.putWrites(...args);
  }
}

test("a run's getTuple has a config with `control`; that of getState and updateState has none", async () => {
  const saver = new Spy();
  const app = new StateGraph(State)
    .addNode("a", () => ({}))
    .addEdge(START, "a")
    .compile({ checkpointer: saver });
  await app.invoke({ n: 1 }, at("t"));
  const controls = () =>
    saver.calls
      .splice(0)
      .filter(({ name }) => name === "getTuple")
      .map(({ config }) => config.control !== undefined);
  expect(new Set(controls())).toEqual(new Set([true]));
  await app.getState(at("t"));
  expect(new Set(controls())).toEqual(new Set([false]));
  await app.updateState(at("t"), { n: 2 }, "a");
  expect(new Set(controls())).toEqual(new Set([false]));
});

test("a symbol set on `configurable` in that getTuple reaches every saver call, node, tool, lambda and subgraph, and never the caller's object", async () => {
  const saver = new Spy(true);
  const marks: Record<string, unknown> = {};
  const look = (name: string) => {
    marks[name] = here().configurable[MARK];
  };
  const sub = new StateGraph(State)
    .addNode("s", () => {
      look("subgraph");
      return {};
    })
    .addEdge(START, "s")
    .compile();
  const asTool = tool(() => String(look("tool")), { name: "t", description: "t", schema: z.object({}) });
  const lambda = RunnableLambda.from(() => look("lambda"));
  const app = new StateGraph(MessagesAnnotation)
    .addNode("tools", new ToolNode([asTool]))
    .addNode("a", async () => {
      look("node");
      await lambda.invoke("x");
      await sub.invoke({ n: 1 });
      return {};
    })
    .addEdge(START, "tools")
    .addEdge("tools", "a")
    .compile({ checkpointer: saver });
  const config = at("t");
  const input = { messages: [new AIMessage({ content: "", tool_calls: [{ id: "1", name: "t", args: {} }] })] };
  await app.invoke(input, config);
  expect(Object.keys(marks).sort()).toEqual(["lambda", "node", "subgraph", "tool"]);
  const own = marks["node"];
  expect(own).toBeDefined();
  for (const mark of Object.values(marks)) expect(mark).toBe(own);
  for (const { name, config: seen } of saver.calls) if (name !== "getTuple") expect(seen.configurable[MARK]).toBe(own);
  expect(Object.getOwnPropertySymbols(config.configurable)).toEqual([]);
  expect(Object.getOwnPropertySymbols((await app.getState(config)).config.configurable ?? {})).toEqual([]);
  // Another run has another one.
  await app.invoke(input, config);
  expect(marks["node"]).not.toBe(own);
});

test("in nodes, tools and lambdas `configurable` holds saver, task id, task namespace, enclosing checkpoints and scratchpad", async () => {
  const saver = new Spy();
  const seen: Record<string, Record<PropertyKey, unknown>> = {};
  const look = (name: string) => {
    seen[name] = here().configurable;
  };
  const asTool = tool(() => String(look("tool")), { name: "t", description: "t", schema: z.object({}) });
  const lambda = RunnableLambda.from(() => look("lambda"));
  const app = new StateGraph(MessagesAnnotation)
    .addNode("tools", new ToolNode([asTool]))
    .addNode("a", async () => {
      look("node");
      await lambda.invoke("x");
      return {};
    })
    .addEdge(START, "tools")
    .addEdge("tools", "a")
    .compile({ checkpointer: saver });
  await app.invoke(
    { messages: [new AIMessage({ content: "", tool_calls: [{ id: "1", name: "t", args: {} }] })] },
    at("t"),
  );
  for (const [name, configurable] of Object.entries(seen)) {
    expect(configurable["__pregel_checkpointer"], name).toBe(saver);
    expect(configurable["thread_id"], name).toBe("t");
    const id = String(configurable["__pregel_task_id"]);
    expect(String(configurable["checkpoint_ns"]).endsWith(`:${id}`), name).toBe(true);
    expect(Object.keys(configurable["checkpoint_map"] as object), name).toEqual([""]);
    expect(configurable["__pregel_scratchpad"], name).toMatchObject({
      interruptCounter: expect.any(Number),
      callCounter: expect.any(Number),
    });
  }
  expect(Object.keys(seen)).toHaveLength(3);
});

test("the scratchpad is one object per prepared task, and a retry sets its interruptCounter to -1", async () => {
  const pads: { interruptCounter: number }[] = [];
  const assigned: number[] = [];
  let tries = 0;
  const node = () => {
    const pad = here().configurable["__pregel_scratchpad"] as { interruptCounter: number };
    if (pads.length === 0) {
      let counter = pad.interruptCounter;
      Object.defineProperty(pad, "interruptCounter", {
        configurable: true,
        get: () => counter,
        set: (value: number) => {
          counter = value;
          assigned.push(value);
        },
      });
    }
    pads.push(pad);
    tries += 1;
    if (tries < 3) throw new Error("again");
    return {};
  };
  const app = new StateGraph(State)
    .addNode("a", node, { retryPolicy: { maxAttempts: 3, initialInterval: 1, jitter: false, logWarning: false } })
    .addEdge(START, "a")
    .compile({ checkpointer: new MemorySaver() });
  await app.invoke({ n: 1 }, at("t"));
  expect(new Set(pads).size).toBe(1);
  expect(pads).toHaveLength(3);
  expect(assigned).toEqual([-1, -1]);
});

test("a task() call and an error handler list their caller's checkpoint once more, under the caller's namespace", async () => {
  const maps: Record<string, Record<string, string>> = {};
  const look = (name: string) => {
    maps[name] = here().configurable["checkpoint_map"] as Record<string, string>;
  };
  const inner = task("inner", async () => look("task"));
  await entrypoint({ name: "job", checkpointer: new MemorySaver() }, async () => inner()).invoke(1 as never, at("t"));
  const handled = new StateGraph(State)
    .addNode(
      "a",
      () => {
        throw new Error("failed");
      },
      {
        errorHandler: () => {
          look("handler");
          return {};
        },
      } as never,
    )
    .addEdge(START, "a")
    .compile({ checkpointer: new MemorySaver() });
  await handled.invoke({ n: 1 }, at("t"));
  for (const name of ["task", "handler"]) {
    const ids = Object.values(maps[name] ?? {});
    expect(ids, name).toHaveLength(2);
    expect(new Set(ids).size, name).toBe(1);
  }
});

test("in async durability no put of a graph is called after one that failed", async () => {
  let puts = 0;
  class Failing extends MemorySaver {
    override async put(): Promise<never> {
      puts += 1;
      throw new Error("put failed");
    }
  }
  const app = new StateGraph(State)
    .addNode("a", () => ({}))
    .addNode("b", () => ({}))
    .addEdge(START, "a")
    .addEdge("a", "b")
    .compile({ checkpointer: new Failing() });
  expect((await errorOf(app.invoke({ n: 1 }, at("t", { durability: "async" }))))?.message).toContain("put failed");
  expect(puts).toBe(1);
});

/** Two nodes that ask beside each other, and one after them. */
function asking(saver: MemorySaver) {
  return new StateGraph(State)
    .addNode("a", () => ({ log: [`a ${String(interrupt("a?"))}`] }))
    .addNode("b", () => ({ log: [`b ${String(interrupt("b?"))}`] }))
    .addNode("end", () => ({}))
    .addEdge(START, "a")
    .addEdge(START, "b")
    .addEdge(["a", "b"], "end")
    .compile({ checkpointer: saver });
}

test("a resume is strict where the run's getTuple says so: without a name it is refused while several questions are open", async () => {
  class Strict extends MemorySaver {
    override async getTuple(config: Parameters<MemorySaver["getTuple"]>[0]) {
      if ((config as Seen as { control?: unknown }).control !== undefined) resumeStrictly(config as never);
      return super.getTuple(config);
    }
  }
  const app = asking(new Strict());
  await app.invoke({ n: 1 }, at("t"));
  const error = await errorOf(app.invoke(new Command({ resume: "yes" }), at("t")));
  expect(error).toMatchObject({ name: "UnknownInterruptError", reason: "ambiguous" });
});

test("a resume is a write of the null task, repeated by subgraphs; one with names stands under the names' ids", async () => {
  const writes: { readonly ns: unknown; readonly task: string; readonly channels: readonly string[] }[] = [];
  class Watching extends MemorySaver {
    override async putWrites(...args: Parameters<MemorySaver["putWrites"]>) {
      const [config, list, taskId] = args;
      writes.push({
        ns: config.configurable?.["checkpoint_ns"],
        task: taskId,
        channels: list.map(([channel]) => channel),
      });
      return super.putWrites(...args);
    }
  }
  const inner = new StateGraph(State)
    .addNode("a", () => ({ log: [`${String(interrupt("one?"))} ${String(interrupt("two?"))}`] }))
    .addEdge(START, "a")
    .compile();
  const app = new StateGraph(State)
    .addNode("sub", inner)
    .addEdge(START, "sub")
    .compile({ checkpointer: new Watching() });
  await app.invoke({ n: 1 }, at("t"));
  writes.length = 0;
  await app.invoke(new Command({ resume: "yes" }), at("t"));
  const nulls = writes.filter(({ task: id }) => id === "00000000-0000-0000-0000-000000000000");
  expect(nulls.map(({ ns, channels }) => [ns === "", channels])).toEqual([
    [true, ["__resume__"]],
    [false, ["__resume__"]],
  ]);
  const state = await app.getState(at("t"));
  const id = state.tasks[0]?.interrupts[0]?.id as string;
  writes.length = 0;
  await app.invoke(new Command({ resume: { [id]: "no" } }), at("t"));
  expect(writes[0]).toEqual({ ns: "", task: id, channels: ["__resume__"] });
});

test("a run that goes on marks what it loaded as seen by interrupts, one that begins with an input does not", async () => {
  for (const durability of ["sync", "exit"] as const) {
    for (const resumes of [true, false]) {
      const puts: Checkpoint[] = [];
      class Watching extends MemorySaver {
        override async put(...args: Parameters<MemorySaver["put"]>) {
          puts.push(args[1]);
          return super.put(...args);
        }
      }
      const saver = new Watching();
      const app = asking(saver);
      await app.invoke({ n: 1 }, at("t"));
      const loaded = unseen((await saver.getTuple(at("t")))?.checkpoint as Checkpoint);
      const ids = (await app.getState(at("t"))).tasks.flatMap(({ interrupts }) => interrupts.map(({ id }) => id));
      puts.length = 0;
      const input = resumes ? new Command({ resume: Object.fromEntries(ids.map((id) => [id, "yes"])) }) : { n: 2 };
      await app.invoke(input as never, at("t", { durability }));
      expect(puts.length).toBeGreaterThan(0);
      for (const checkpoint of puts) expect(wentOn(checkpoint, loaded)).toBe(resumes);
    }
  }
});

test("a handler in a context variable that getTuple sets is waited for before each node, and only while it is one", async () => {
  for (const crowded of [true, false]) {
    for (const callbacks of [undefined, [{ handleChainStart: () => {} }]]) {
      const order: string[] = [];
      const pressure = {
        crowded,
        room: async () => {
          // Later than everything that is ready: a node that did not wait would have run.
          await new Promise((resolve) => setImmediate(resolve));
          order.push("room");
        },
      };
      class Holding extends MemorySaver {
        override getTuple(config: Parameters<MemorySaver["getTuple"]>[0]) {
          if ((config as Seen).control !== undefined) holdUnder(pressure);
          return super.getTuple(config);
        }
      }
      const node = (name: string) => async () => {
        order.push(name);
        return {};
      };
      const app = new StateGraph(State)
        .addNode("a", node("a"))
        .addNode("b", node("b"))
        .addEdge(START, "a")
        .addEdge("a", "b")
        .compile({ checkpointer: new Holding() });
      await app.invoke({ n: 1 }, at("t", callbacks === undefined ? {} : { callbacks }));
      expect(order.filter((what) => what !== "room")).toEqual(["a", "b"]);
      const waited = ["a", "b"].map((name) => order[order.indexOf(name) - 1] === "room");
      expect(waited).toEqual([crowded, crowded]);
    }
  }
});
