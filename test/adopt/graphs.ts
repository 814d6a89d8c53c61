/** The graphs whose threads are adopted, each with the life that its thread has had on an official saver. */

import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import {
  Annotation,
  Command,
  DeltaChannel,
  END,
  interrupt,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
} from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";

const log = Annotation<string[]>({ reducer: (old, more) => [...old, ...more], default: () => [] });
const State = Annotation.Root({ log, items: Annotation<string[]>, answer: Annotation<string> });

export const at = (thread: string, checkpoint?: string) => ({
  configurable: { thread_id: thread, ...(checkpoint === undefined ? {} : { checkpoint_id: checkpoint }) },
  durability: "sync" as const,
});

export function plain(checkpointer: BaseCheckpointSaver) {
  return new StateGraph(State)
    .addNode("a", () => ({ log: ["a"] }))
    .addNode("b", () => ({ log: ["b"] }))
    .addNode("c", () => ({ log: ["c"] }))
    .addEdge(START, "a")
    .addEdge("a", "b")
    .addEdge("b", "c")
    .addEdge("c", END)
    .compile({ checkpointer });
}

/** `acts`: what happens in the work on an item before it is done. */
export function fanOut(checkpointer: BaseCheckpointSaver, acts: Readonly<Record<string, () => unknown>> = {}) {
  return new StateGraph(State)
    .addNode("plan", () => ({ items: ["x", "y", "z"] }))
    .addNode("work", async ({ item }: { item: string }) => {
      await acts[item]?.();
      return { log: [`did ${item}`] };
    })
    .addNode("join", ({ log }) => ({ answer: log.join(" ") }))
    .addEdge(START, "plan")
    .addConditionalEdges("plan", ({ items }) => items.map((item) => new Send("work", { item })), ["work"])
    .addEdge("work", "join")
    .addEdge("join", END)
    .compile({ checkpointer });
}

export function asking(checkpointer: BaseCheckpointSaver) {
  return new StateGraph(State)
    .addNode("draft", () => ({ log: ["draft"] }))
    .addNode("ask", () => {
      const first = interrupt<unknown, string>({ question: "how many?" });
      const second = interrupt<unknown, string>({ question: "which colour?" });
      return { answer: `${first} ${second}`, log: ["asked"] };
    })
    .addEdge(START, "draft")
    .addEdge("draft", "ask")
    .addEdge("ask", END)
    .compile({ checkpointer });
}

/** Two questions at once, one of them in a subgraph. */
export function nested(checkpointer: BaseCheckpointSaver) {
  const inner = new StateGraph(State)
    .addNode("prepare", () => ({ log: ["inner prepare"] }))
    .addNode("confirm", () => ({ log: [`inner ${interrupt<string, string>("ship it?")}`] }))
    .addEdge(START, "prepare")
    .addEdge("prepare", "confirm")
    .addEdge("confirm", END)
    .compile();
  return new StateGraph(State)
    .addNode("begin", () => ({ log: ["begin"] }))
    .addNode("inner", inner)
    .addNode("outer", () => ({ answer: interrupt<string, string>("pay it?") }))
    .addNode("end", () => ({ log: ["end"] }))
    .addEdge(START, "begin")
    .addEdge("begin", "inner")
    .addEdge("begin", "outer")
    .addEdge(["inner", "outer"], "end")
    .addEdge("end", END)
    .compile({ checkpointer });
}

const Talk = Annotation.Root({ ...MessagesAnnotation.spec, pairs: Annotation<number>, end: Annotation<number> });

/** A turn adds so many pairs of a question and an answer; it goes on until there are `end` messages. */
export function talk(checkpointer: BaseCheckpointSaver) {
  return new StateGraph(Talk)
    .addNode("turn", ({ messages, pairs }) => ({
      messages: Array.from({ length: pairs }, (_, i) => pair(messages.length + 2 * i)).flat(),
    }))
    .addEdge(START, "turn")
    .addConditionalEdges("turn", ({ messages, end }) => (messages.length >= end ? END : "turn"), ["turn", END])
    .compile({ checkpointer });
}

function pair(n: number): BaseMessage[] {
  return [
    new HumanMessage({ id: `h${n}`, content: `question ${n}: ${"why ".repeat(60)}` }),
    new AIMessage({
      id: `a${n}`,
      content: `answer ${n}: ${"because ".repeat(30)}`,
      tool_calls: [{ name: "look", args: { n }, id: `t${n}` }],
    }),
  ];
}

const Delta = Annotation.Root({
  items: () => new DeltaChannel<string[], string[]>((state, updates) => (state ?? []).concat(...updates)),
});

/** Its values stand in the writes of earlier checkpoints only. */
export function delta(checkpointer: BaseCheckpointSaver) {
  return new StateGraph(Delta)
    .addNode("more", ({ items }) => ({ items: [`item ${items.length}`] }))
    .addEdge(START, "more")
    .addConditionalEdges("more", ({ items }) => (items.length % 5 === 0 ? END : "more"), ["more", END])
    .compile({ checkpointer });
}

/** Threads of every kind. What each is for stands in its id. */
export async function fill(saver: BaseCheckpointSaver): Promise<void> {
  const begin = { log: ["begun"] };
  await plain(saver).invoke(begin, at("plain"));
  await plain(saver).invoke({ log: ["again"] }, at("plain"));
  await fanOut(saver).invoke(begin, at("sends"));
  const fails = () => {
    throw new Error("no y today");
  };
  await fanOut(saver, { y: fails })
    .invoke(begin, at("failed"))
    .catch(() => {});
  await asking(saver).invoke(begin, at("first question"));
  await asking(saver).invoke(begin, at("second question"));
  await asking(saver).invoke(new Command({ resume: "three" }), at("second question"));
  await asking(saver).invoke(begin, at("answered"));
  await asking(saver).invoke(new Command({ resume: "three" }), at("answered"));
  await asking(saver).invoke(new Command({ resume: "red" }), at("answered"));
  await nested(saver).invoke(begin, at("questions in a subgraph"));
  await delta(saver).invoke({ items: ["first"] }, at("delta"));
  await talk(saver).invoke({ pairs: 1, end: 40 }, { ...at("talk"), recursionLimit: 500 });
  await branch(saver);
}

/** A run, an edit of an old checkpoint that goes on, and a replay of an old checkpoint. */
export async function branch(saver: BaseCheckpointSaver): Promise<void> {
  const app = plain(saver);
  await app.invoke({ log: ["begun"] }, at("branches"));
  const history: { id: string; next: string }[] = [];
  for await (const { config, next } of app.getStateHistory(at("branches")))
    history.push({ id: String(config.configurable?.["checkpoint_id"]), next: next.join() });
  const before = (node: string) => history.find(({ next }) => next === node)?.id;
  const edited = await app.updateState(at("branches", before("b")), { log: ["edited"] });
  await app.invoke(null, { ...edited, durability: "sync" });
  await app.invoke(null, at("branches", before("c")));
}
