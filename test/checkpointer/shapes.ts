/** Small graphs, one per feature of LangGraph, whose nodes depend on nothing but their state and a set of failures. */

import { AIMessage, HumanMessage } from "@langchain/core/messages";
import {
  Annotation,
  DeltaChannel,
  END,
  entrypoint,
  interrupt,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
  task,
} from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";

/** Nodes that throw as long as their name is in it. */
export type Failures = Set<string>;

/** What the operations need of a compiled graph. The real types differ with every state. */
export interface App {
  invoke(input: unknown, config?: unknown): Promise<unknown>;
  getState(config: unknown, options?: unknown): Promise<Snapshot>;
  getStateHistory(config: unknown): AsyncIterable<Snapshot>;
  updateState(config: unknown, values: unknown, asNode?: string): Promise<unknown>;
  bulkUpdateState(config: unknown, supersteps: unknown): Promise<unknown>;
}

export interface Snapshot {
  readonly values: unknown;
  readonly next: readonly string[];
  readonly config: { readonly configurable?: Record<string, unknown> };
  readonly parentConfig?: unknown;
  readonly metadata?: unknown;
  readonly tasks: readonly {
    readonly id: string;
    readonly name: string;
    readonly interrupts: readonly { readonly id?: string; readonly value?: unknown }[];
    readonly error?: unknown;
  }[];
}

export interface Shape {
  readonly name: string;
  build(saver: BaseCheckpointSaver, failures: Failures): App;
  /** The n-th new input. */
  input(n: number): unknown;
  /** Values for an update of the state. */
  update(n: number): unknown;
  /** Nodes that can fail, be jumped to and be written for. */
  readonly nodes: readonly string[];
}

/** Not commutative, so that an order that is not kept shows. */
const append = (a: string, b: string) => `${a}(${b})`;

export const State = Annotation.Root({
  log: Annotation<string[], string | string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
  order: Annotation<string>({ reducer: append, default: () => "" }),
  n: Annotation<number>(),
});

const plainInput = (n: number) => ({ log: [`in${n}`], n });
const plainUpdate = (n: number) => ({ log: [`edit${n}`], order: `e${n}` });

function step(name: string, failures: Failures) {
  return (state: { n?: number }) => {
    if (failures.has(name)) throw new Error(`${name} failed`);
    return { log: [`${name}${state.n ?? "-"}`], order: name };
  };
}

const sequence: Shape = {
  name: "a sequence of nodes",
  nodes: ["a", "b", "c"],
  input: plainInput,
  update: plainUpdate,
  build: (checkpointer, failures) =>
    new StateGraph(State)
      .addNode("a", step("a", failures))
      .addNode("b", step("b", failures))
      .addNode("c", step("c", failures))
      .addEdge(START, "a")
      .addEdge("a", "b")
      .addEdge("b", "c")
      .compile({ checkpointer }) as unknown as App,
};

const parallel: Shape = {
  name: "parallel branches with a reducer that is not commutative",
  nodes: ["d", "a", "c", "b", "z"],
  input: plainInput,
  update: plainUpdate,
  build: (checkpointer, failures) => {
    const graph = new StateGraph(State).addNode("z", step("z", failures)) as StateGraph<
      typeof State.spec,
      typeof State.State,
      typeof State.Update,
      string
    >;
    for (const name of ["d", "a", "c", "b"]) graph.addNode(name, step(name, failures)).addEdge(START, name);
    return graph.addEdge(["d", "a", "c", "b"], "z").compile({ checkpointer }) as unknown as App;
  },
};

const sends: Shape = {
  name: "Sends",
  nodes: ["a", "w", "z"],
  input: plainInput,
  update: plainUpdate,
  build: (checkpointer, failures) =>
    new StateGraph(State)
      .addNode("a", step("a", failures))
      .addNode("w", (state: { n?: number }) => {
        if (failures.has("w") && state.n === 1) throw new Error("w failed");
        return { log: [`w${state.n ?? "-"}`], order: `w${state.n ?? "-"}` };
      })
      .addNode("z", step("z", failures))
      .addEdge(START, "a")
      .addConditionalEdges("a", () => [0, 1, 2].map((n) => new Send("w", { n })), ["w"])
      .addEdge("w", "z")
      .compile({ checkpointer }) as unknown as App,
};

const questions: Shape = {
  name: "interrupts, two in one node beside one in a parallel node",
  nodes: ["ask", "other", "z"],
  input: plainInput,
  update: plainUpdate,
  build: (checkpointer, failures) =>
    new StateGraph(State)
      .addNode("ask", () => {
        const first = interrupt("first?") as string;
        if (failures.has("ask")) throw new Error("ask failed");
        const second = interrupt({ second: first }) as string;
        return { log: [`${first}/${second}`], order: "ask" };
      })
      .addNode("other", () => ({ log: [String(interrupt("other?"))], order: "other" }))
      .addNode("z", step("z", failures))
      .addEdge(START, "ask")
      .addEdge(START, "other")
      .addEdge(["ask", "other"], "z")
      .compile({ checkpointer }) as unknown as App,
};

const subgraphs: Shape = {
  name: "subgraphs, as a node and invoked in a node, with an interrupt inside",
  nodes: ["sub", "call", "z"],
  input: plainInput,
  update: plainUpdate,
  build: (checkpointer, failures) => {
    const inner = (name: string) =>
      new StateGraph(State)
        .addNode("s1", step(`${name}1`, failures))
        .addNode("s2", () => ({ log: [`${name}2 ${String(interrupt(`${name}?`))}`] }))
        .addNode("s3", step(`${name}3`, failures))
        .addEdge(START, "s1")
        .addEdge("s1", "s2")
        .addEdge("s2", "s3");
    const asNode = inner("sub").compile();
    const invoked = inner("call").compile();
    return new StateGraph(State)
      .addNode("sub", asNode)
      .addNode("call", async (state) => ({ log: (await invoked.invoke({ log: ["from outside"], n: state.n })).log }))
      .addNode("z", step("z", failures))
      .addEdge(START, "sub")
      .addEdge("sub", "call")
      .addEdge("call", "z")
      .compile({ checkpointer }) as unknown as App;
  },
};

const functional: Shape = {
  name: "entrypoint and task",
  nodes: [],
  input: (n) => n,
  update: (n) => n,
  build: (checkpointer, failures) => {
    const double = task("double", async (n: number) => {
      if (failures.has("double")) throw new Error("double failed");
      return n * 2;
    });
    return entrypoint({ name: "job", checkpointer }, async (n: number, config) => {
      const both = await Promise.all([double(n), double(n + 1)]);
      const answer = interrupt({ both }) as string;
      if (failures.has("job")) throw new Error("job failed");
      return { both, answer, before: (config as { previous?: unknown }).previous === undefined };
    }) as unknown as App;
  },
};

const delta: Shape = {
  name: "a DeltaChannel",
  nodes: ["a", "b", "c"],
  input: (n) => ({ items: [`in${n}`] }),
  update: (n) => ({ items: [`edit${n}`] }),
  build: (checkpointer, failures) => {
    const items = () =>
      new DeltaChannel<string[], string[]>((state, updates) => (state ?? []).concat(...updates), {
        snapshotFrequency: 3,
      });
    const graph = new StateGraph(Annotation.Root({ items: items as never }) as unknown as typeof State);
    const node = (name: string) => () => {
      if (failures.has(name)) throw new Error(`${name} failed`);
      return { items: [name] } as never;
    };
    return graph
      .addNode("a", node("a"))
      .addNode("b", node("b"))
      .addNode("c", node("c"))
      .addEdge(START, "a")
      .addEdge(START, "b")
      .addEdge("a", "c")
      .compile({ checkpointer }) as unknown as App;
  },
};

const messages: Shape = {
  name: "messages",
  nodes: ["model", "tool"],
  input: (n) => ({ messages: [new HumanMessage({ id: `h${n}`, content: `question ${n} `.repeat(60) })] }),
  update: (n) => ({ messages: [new HumanMessage({ id: "h1", content: `edited ${n}` })] }),
  build: (checkpointer, failures) => {
    const say = (name: string) => (state: typeof MessagesAnnotation.State) => {
      if (failures.has(name)) throw new Error(`${name} failed`);
      return {
        messages: [new AIMessage({ id: `${name}${state.messages.length}`, content: `${name} answers `.repeat(40) })],
      };
    };
    return new StateGraph(MessagesAnnotation)
      .addNode("model", say("model"))
      .addNode("tool", say("tool"))
      .addEdge(START, "model")
      .addEdge("model", "tool")
      .addEdge("tool", END)
      .compile({ checkpointer }) as unknown as App;
  },
};

const handlers: Shape = {
  name: "an error handler and retries",
  nodes: ["a", "b"],
  input: plainInput,
  update: plainUpdate,
  build: (checkpointer, failures) => {
    let tries = 0;
    return new StateGraph(State)
      .addNode("a", step("a", failures), {
        errorHandler: (_: unknown, failed: { error: Error }) => ({ log: [`handled ${failed.error.message}`] }),
      } as never)
      .addNode(
        "b",
        () => {
          tries += 1;
          if (tries % 2 === 1) throw new Error("first try");
          return step("b", failures)({ n: 0 });
        },
        { retryPolicy: { maxAttempts: 2, initialInterval: 1, jitter: false, logWarning: false } },
      )
      .addEdge(START, "a")
      .addEdge("a", "b")
      .compile({ checkpointer }) as unknown as App;
  },
};

export const shapes: readonly Shape[] = [
  sequence,
  parallel,
  sends,
  questions,
  subgraphs,
  functional,
  delta,
  messages,
  handlers,
];
