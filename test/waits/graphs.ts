/** Small graphs that wait, and what their threads show. */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import type { Checkpointer, WaitRecord } from "holdfast";

/** Appended texts. */
export const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

type Node = (state: typeof Log.State) => Promise<Partial<typeof Log.State>> | Partial<typeof Log.State>;

/** Nodes one after the other, from START to END. */
export function sequence(saver: Checkpointer, nodes: Readonly<Record<string, Node>>) {
  const names = Object.keys(nodes);
  const graph = new StateGraph(Log) as unknown as {
    addNode(name: string, node: Node): void;
    addEdge(from: string, to: string): void;
    compile(options: { checkpointer: Checkpointer }): ReturnType<typeof compiled>;
  };
  for (const name of names) graph.addNode(name, nodes[name] as Node);
  [START, ...names].forEach((from, i) => {
    graph.addEdge(from, names[i] ?? END);
  });
  return graph.compile({ checkpointer: saver });
}

/** Nodes beside each other, all from START to END. */
export function parallel(saver: Checkpointer, nodes: Readonly<Record<string, Node>>) {
  const graph = new StateGraph(Log) as unknown as {
    addNode(name: string, node: Node): void;
    addEdge(from: string, to: string): void;
    compile(options: { checkpointer: Checkpointer }): ReturnType<typeof compiled>;
  };
  for (const [name, node] of Object.entries(nodes)) {
    graph.addNode(name, node);
    graph.addEdge(START, name);
    graph.addEdge(name, END);
  }
  return graph.compile({ checkpointer: saver });
}

/** Never called: its type is that of every graph here. */
function compiled() {
  return new StateGraph(Log)
    .addNode("a", () => ({}))
    .addEdge(START, "a")
    .compile();
}

export type App = ReturnType<typeof compiled>;

export const openWaits = (saver: Checkpointer, thread = "t"): Promise<readonly WaitRecord[]> =>
  saver.waits({ thread, status: ["open"] });

/** Ids that the thread's state shows, of all tasks and subgraphs. */
export async function shownIds(app: App, thread = "t"): Promise<string[]> {
  interface Shown {
    readonly tasks: readonly { readonly interrupts: readonly { readonly id?: string }[]; readonly state?: unknown }[];
  }
  const ids = new Set<string>();
  const walk = (state: Shown): void => {
    for (const task of state.tasks) {
      for (const { id } of task.interrupts) if (id !== undefined) ids.add(id);
      if (typeof task.state === "object" && task.state !== null && "tasks" in task.state) walk(task.state as Shown);
    }
  };
  walk((await app.getState({ configurable: { thread_id: thread } }, { subgraphs: true })) as Shown);
  return [...ids].sort();
}
