/** The graphs that are measured: a counter with a tiny state, and a conversation that grows by two messages a step. */

import { randomBytes } from "node:crypto";
import { AIMessage, type BaseMessage, ToolMessage } from "@langchain/core/messages";
import {
  Annotation,
  DeltaChannel,
  END,
  MessagesAnnotation,
  messagesDeltaReducer,
  START,
  StateGraph,
} from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";

export type Durability = "sync" | "async";

/** How a conversation is kept: a plain reducer over plain objects, `MessagesAnnotation`, or LangGraph's DeltaChannel. */
export type Channel = "list" | "messages" | "delta";

/** One compiled graph that runs `steps` supersteps of one node. */
export interface Loop {
  /** @param before called at the start of every node, with the steps done so far */
  run(thread: string, steps: number, durability: Durability, before?: (done: number) => void): Promise<void>;
  readonly app: LoopApp;
}

/** What the measurements use of a compiled graph, whatever its state. */
export interface LoopApp {
  invoke(input: unknown, config: object): Promise<unknown>;
  getState(config: object): Promise<{ readonly values: unknown }>;
  getStateHistory(config: object, options?: object): AsyncIterable<unknown>;
}

/** Bytes of one message's text. */
export const TEXT_BYTES = 500;
const RECURSION_SLACK = 10;

/** Turns the node's work into what the measurement needs: nothing, one turn of the event loop, an effect. */
export type Body = (n: number) => Promise<void> | void;

export const yieldOnce: Body = () => new Promise<void>((resolve) => setImmediate(resolve));

const CounterState = Annotation.Root({ n: Annotation<number> });

/** A counter: `{ n: number }`, one node, one conditional edge. */
export function counterLoop(saver: BaseCheckpointSaver | undefined, body?: Body, interrupted = false): Loop {
  let limit = 0;
  let before: ((done: number) => void) | undefined;
  const next = (n: number) => {
    before?.(n);
    return { n: n + 1 };
  };
  const count =
    body === undefined
      ? ({ n }: { n: number }) => next(n)
      : async ({ n }: { n: number }) => {
          const update = next(n);
          await body(n);
          return update;
        };
  const app = new StateGraph(CounterState)
    .addNode("count", count)
    .addEdge(START, "count")
    .addConditionalEdges("count", ({ n }) => (interrupted || n < limit ? "count" : END))
    .compile({
      checkpointer: saver ?? false,
      ...(interrupted ? { interruptBefore: ["count"] } : {}),
    }) as unknown as LoopApp;
  const run: Loop["run"] = async (thread, steps, durability, hook) => {
    limit = steps;
    before = hook;
    await app.invoke({ n: 0 }, configOf(thread, steps, durability));
  };
  return { app, run };
}

/** A conversation: every superstep appends two messages of {@link TEXT_BYTES} bytes of text that does not compress. */
export function conversationLoop(saver: BaseCheckpointSaver | undefined, channel: Channel): Loop {
  let limit = 0;
  let before: ((done: number) => void) | undefined;
  let texts: readonly string[] = [];
  const talk = ({ n }: { n: number }) => {
    before?.(n);
    const pair = [texts[2 * n] as string, texts[2 * n + 1] as string] as const;
    return { n: n + 1, messages: channel === "list" ? plainPair(pair) : messagePair(pair, n) };
  };
  const graph = new StateGraph(conversationState(channel))
    .addNode("talk", talk as never)
    .addEdge(START, "talk")
    .addConditionalEdges("talk", (state) => ((state as { n: number }).n < limit ? "talk" : END));
  const app = graph.compile({ checkpointer: saver ?? false }) as unknown as LoopApp;
  const run: Loop["run"] = async (thread, steps, durability, hook) => {
    limit = steps;
    before = hook;
    await app.invoke({ n: 0 }, configOf(thread, steps, durability));
  };
  return {
    app,
    run: (thread, steps, durability, hook) => {
      // Made before the clock starts where the caller starts it in `before`.
      texts = Array.from({ length: 2 * steps }, incompressibleText);
      return run(thread, steps, durability, hook);
    },
  };
}

interface PlainMessage {
  readonly role: string;
  readonly content: string;
}

function conversationState(channel: Channel) {
  const n = Annotation<number>;
  if (channel === "messages") return Annotation.Root({ n, ...MessagesAnnotation.spec }) as never;
  if (channel === "delta") {
    return Annotation.Root({ n, messages: (() => new DeltaChannel(messagesDeltaReducer)) as never }) as never;
  }
  const messages = Annotation<PlainMessage[]>({ reducer: (all, more) => all.concat(more), default: () => [] });
  return Annotation.Root({ n, messages }) as never;
}

function plainPair([first, second]: readonly [string, string]): PlainMessage[] {
  return [
    { role: "assistant", content: first },
    { role: "user", content: second },
  ];
}

function messagePair([first, second]: readonly [string, string], n: number): BaseMessage[] {
  return [new AIMessage(first), new ToolMessage({ content: second, tool_call_id: `call-${n}` })];
}

/** ASCII of 6 random bits a character. */
export function incompressibleText(): string {
  return randomBytes((TEXT_BYTES * 3) / 4).toString("base64url");
}

export function configOf(thread: string, steps: number, durability: Durability): object {
  return { configurable: { thread_id: thread }, recursionLimit: steps + RECURSION_SLACK, durability };
}
