/** Effects in every place where LangGraph runs user code: recorded there, found again there, run once. */

import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { RunnableLambda } from "@langchain/core/runnables";
import { tool } from "@langchain/core/tools";
import {
  Command,
  entrypoint,
  interrupt,
  MemorySaver,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
  task,
} from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { type Checkpointer, effect } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { createAgent, FakeToolCallingModel } from "langchain";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { chain } from "../checkpointer/guarantees.ts";
import { State } from "../checkpointer/shapes.ts";
import { at, errorOf } from "../checkpointer/subject.ts";

/** An effect that counts its bodies, and a failure that comes after it. */
function charge() {
  const seen = { bodies: 0, fail: true };
  const pay = effect("pay", { input: z.string(), run: () => ++seen.bodies });
  const later = () => {
    if (seen.fail) throw new Error("later");
  };
  return { seen, pay, later };
}

interface Runnable {
  invoke(input: unknown, config: unknown): Promise<unknown>;
}

interface Place {
  readonly name: string;
  /** Bodies of one whole run. Default 1. */
  readonly bodies?: number;
  readonly input?: unknown;
  build(saver: Checkpointer, parts: ReturnType<typeof charge>): Runnable;
}

const call = (id: string) =>
  new AIMessage({ id: `ai ${id}`, content: "", tool_calls: [{ id, name: "pay", args: { to: "eve" } }] });

const payTool = ({ pay, later }: ReturnType<typeof charge>) =>
  tool(
    async ({ to }) => {
      const paid = await pay(to);
      later();
      return `paid ${paid}`;
    },
    { name: "pay", description: "pays", schema: z.object({ to: z.string() }) },
  );

const subgraph = ({ pay, later }: ReturnType<typeof charge>) =>
  new StateGraph(State)
    .addNode("s1", async () => ({ log: [`paid ${await pay("s1")}`] }))
    .addNode("s2", async () => {
      later();
      return { log: ["s2"] };
    })
    .addEdge(START, "s1")
    .addEdge("s1", "s2")
    .compile();

const places: readonly Place[] = [
  {
    name: "a node",
    build: (saver, { pay, later }) =>
      chain(saver, {
        a: async () => {
          await pay("x");
          later();
          return {};
        },
      }),
  },
  {
    name: "a RunnableLambda in a node",
    build: (saver, { pay, later }) => {
      const lambda = RunnableLambda.from(async (to: string) => pay(to));
      return chain(saver, {
        a: async () => {
          await lambda.invoke("x");
          later();
          return {};
        },
      });
    },
  },
  {
    name: "a RunnableLambda as a node",
    build: (saver, { pay, later }) =>
      new StateGraph(State)
        .addNode(
          "a",
          RunnableLambda.from(async () => {
            await pay("x");
            later();
            return {};
          }),
        )
        .addEdge(START, "a")
        .compile({ checkpointer: saver }),
  },
  {
    name: "a subgraph that is a node",
    build: (saver, parts) =>
      new StateGraph(State).addNode("sub", subgraph(parts)).addEdge(START, "sub").compile({ checkpointer: saver }),
  },
  {
    name: "a subgraph that a node invokes",
    build: (saver, parts) => {
      const sub = subgraph(parts);
      return chain(saver, { a: async () => ({ log: (await sub.invoke({ n: 1 })).log }) });
    },
  },
  {
    name: "two levels of subgraphs",
    build: (saver, parts) => {
      const middle = new StateGraph(State).addNode("inner", subgraph(parts)).addEdge(START, "inner").compile();
      return chain(saver, { a: async () => ({ log: (await middle.invoke({ n: 1 })).log }) });
    },
  },
  {
    name: "Send tasks",
    bodies: 3,
    build: (saver, { pay, later }) =>
      new StateGraph(State)
        .addNode("w", async ({ n }) => {
          await pay("equal");
          if (n === 1) later();
          return {};
        })
        .addConditionalEdges(START, () => [0, 1, 2].map((n) => new Send("w", { n })), ["w"])
        .compile({ checkpointer: saver }),
  },
  {
    name: "a task of an entrypoint",
    input: 1,
    build: (saver, { pay, later }) => {
      const charged = task("charged", async (to: string) => pay(to));
      return entrypoint({ name: "job", checkpointer: saver }, async () => {
        const paid = await charged("x");
        later();
        return paid;
      }) as unknown as Runnable;
    },
  },
  {
    name: "an entrypoint itself",
    input: 1,
    build: (saver, { pay, later }) =>
      entrypoint({ name: "job", checkpointer: saver }, async () => {
        const paid = await pay("x");
        later();
        return paid;
      }) as unknown as Runnable,
  },
  {
    name: "a tool of a ToolNode",
    input: { messages: [call("c1")] },
    build: (saver, parts) =>
      new StateGraph(MessagesAnnotation)
        .addNode("tools", new ToolNode([payTool(parts)], { handleToolErrors: false }))
        .addEdge(START, "tools")
        .compile({ checkpointer: saver }),
  },
  {
    name: "an error handler",
    build: (saver, { pay, later }) =>
      new StateGraph(State)
        .addNode(
          "a",
          () => {
            throw new Error("node failed");
          },
          {
            errorHandler: async () => {
              await pay("refund");
              later();
              return { log: ["handled"] };
            },
          } as never,
        )
        .addEdge(START, "a")
        .compile({ checkpointer: saver }),
  },
];

describe.each(["sync", "async"] as const)("durability %s", (durability) => {
  test.each(places)(
    "an effect in $name is recorded there and its body runs once",
    async ({ build, input, bodies = 1 }) => {
      const parts = charge();
      const saver = memory();
      const app = build(saver, parts);
      await expect(app.invoke(input ?? { n: 1 }, at("t", { durability }))).rejects.toThrow("later");
      parts.seen.fail = false;
      await app.invoke(null, at("t", { durability }));
      expect(parts.seen.bodies).toBe(bodies);
      expect((await saver.effects({ thread: "t" })).map((record) => record.status)).toEqual(Array(bodies).fill("done"));
    },
  );

  test("tools of an agent are recorded call by call, and none is repeated when the agent goes on after a question", async () => {
    const { seen, pay } = charge();
    const asking = tool(
      async ({ to }) => {
        const paid = await pay(to);
        return `paid ${paid}, ${to === "bob" ? String(interrupt("really?")) : "at once"}`;
      },
      { name: "pay", description: "pays", schema: z.object({ to: z.string() }) },
    );
    const calls = ["eve", "bob"].map((to) => ({ id: to, name: "pay", args: { to }, type: "tool_call" as const }));
    const model = new FakeToolCallingModel({ toolCalls: [calls, []] });
    const saver = memory();
    const agent = createAgent({ model, tools: [asking], checkpointer: saver });
    const config = at("t", { durability });
    await agent.invoke({ messages: [new HumanMessage("pay both")] }, config);
    expect(seen.bodies).toBe(2);
    const { messages } = (await agent.invoke(new Command({ resume: "yes" }) as never, config)) as {
      messages: BaseMessage[];
    };
    expect(seen.bodies).toBe(2);
    expect(messages.filter((message) => message.getType() === "tool").map((message) => message.content)).toEqual([
      "paid 1, at once",
      "paid 2, yes",
    ]);
    expect(await saver.effects({ thread: "t" })).toHaveLength(2);
  });
});

const wrongPlaces: readonly {
  name: string;
  code: string;
  build: (pay: (to: string) => Promise<number>) => Runnable;
  config?: object;
}[] = [
  {
    name: "a graph without a checkpointer",
    code: "FOREIGN_CHECKPOINTER",
    build: (pay) =>
      new StateGraph(State)
        .addNode("a", async () => ({ n: await pay("x") }))
        .addEdge(START, "a")
        .compile(),
  },
  {
    name: "a graph with LangGraph's MemorySaver",
    code: "FOREIGN_CHECKPOINTER",
    build: (pay) => chain(new MemorySaver() as never, { a: async () => ({ n: await pay("x") }) }),
  },
  {
    name: "exit durability",
    code: "EFFECT_NOT_DURABLE",
    config: { durability: "exit" },
    build: (pay) => chain(memory(), { a: async () => ({ n: await pay("x") }) }),
  },
  {
    name: "a subgraph in exit durability inside a durable run",
    code: "EFFECT_NOT_DURABLE",
    build: (pay) => {
      const sub = new StateGraph(State)
        .addNode("s", async () => ({ n: await pay("x") }))
        .addEdge(START, "s")
        .compile();
      return chain(memory(), {
        a: async (_state, config) => ({
          n: (await sub.invoke({ n: 1 }, { ...(config as object), durability: "exit" } as never)).n,
        }),
      });
    },
  },
  {
    name: "a subgraph with checkpointer: false",
    code: "EFFECT_NOT_DURABLE",
    build: (pay) => {
      const sub = new StateGraph(State)
        .addNode("s", async () => ({ n: await pay("x") }))
        .addEdge(START, "s")
        .compile({ checkpointer: false });
      return chain(memory(), { a: async () => ({ n: (await sub.invoke({ n: 1 })).n }) });
    },
  },
  {
    name: "a subgraph inside a checkpointer: false subgraph",
    code: "EFFECT_NOT_DURABLE",
    build: (pay) => {
      const inner = new StateGraph(State)
        .addNode("s", async () => ({ n: await pay("x") }))
        .addEdge(START, "s")
        .compile();
      const sub = new StateGraph(State)
        .addNode("inner", inner)
        .addEdge(START, "inner")
        .compile({ checkpointer: false });
      return chain(memory(), { a: async () => ({ n: (await sub.invoke({ n: 1 })).n }) });
    },
  },
];

test.each(wrongPlaces)(
  "an effect in $name is refused with one clear error and no body runs",
  async ({ build, code, config }) => {
    let bodies = 0;
    const pay = effect("pay", { input: z.string(), run: () => ++bodies });
    const error = await errorOf(build(pay).invoke({ n: 1 }, at("t", { ...config, timeout: 10_000 })));
    expect(error?.code).toBe(code);
    expect(error?.message.length).toBeGreaterThan(60);
    expect(bodies).toBe(0);
  },
);
