/** The graphs of the campaign, one for each scenario. What they do outside is counted under an identity that nobody else has. */

import { Annotation, END, Send, START, StateGraph } from "@langchain/langgraph";
import { ask, type Checkpointer, effect, type ForkableGraph, type RunnableGraph, sleep } from "holdfast";
import { z } from "zod";
import type { ScenarioName } from "./plan.ts";

export const QUESTION = "Ship it?";
export const DOUBLE_QUESTION = "Which one?";
export const DEADLINE_QUESTION = "Anybody?";

export const TURNS = 8;
const DEADLINE_MS = 250;
const TIMER_MS = 150;

/** The world outside: `act` has an effect there, `acted` says whether one of that key has happened. */
export interface Outside {
  act(what: string, idempotencyKey: string): Promise<void>;
  acted(what: string, idempotencyKey: string): Promise<boolean>;
}

/** The value of every effect: determined by its input. */
export const receipt = (what: string): string => `receipt for ${what}`;

const log = Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] });
/** `who` begins the identity of every effect. */
const State = Annotation.Root({
  who: Annotation<string>,
  parts: Annotation<string[]>,
  turn: Annotation<number>,
  address: Annotation<string>,
  seen: Annotation<string[]>,
  log,
});
const Inner = Annotation.Root({ who: Annotation<string>, seen: log });
const Part = Annotation.Root({ who: Annotation<string>, part: Annotation<string> });

type Act = (what: string) => Promise<string>;

export type CampaignGraphs = Readonly<Record<ScenarioName, RunnableGraph & ForkableGraph>>;

export function campaignGraphs(checkpointer: Checkpointer, outside: Outside): CampaignGraphs {
  const send = sendOf(outside);
  const again = sendAgainOf(outside);
  return {
    plain: steps(send, again).compile({ checkpointer }),
    cancel: steps(send, again).compile({ checkpointer }),
    delete: steps(send, again).compile({ checkpointer }),
    parallel: parallel(send).compile({ checkpointer }),
    subgraph: subgraph(send).compile({ checkpointer }),
    question: question(send).compile({ checkpointer }),
    double: double(send).compile({ checkpointer }),
    deadline: deadline(send).compile({ checkpointer }),
    drain: turns(send).compile({ checkpointer }),
    timer: timer(send).compile({ checkpointer }),
    fork: fork(send).compile({ checkpointer }),
  };
}

/** After a death it asks outside whether it has happened. */
function sendOf(outside: Outside): Act {
  const send = effect("send", {
    input: z.object({ what: z.string() }),
    run: async ({ what }, { idempotencyKey }) => {
      await outside.act(what, idempotencyKey);
      return receipt(what);
    },
    verify: async ({ what }, { idempotencyKey }) =>
      (await outside.acted(what, idempotencyKey)) ? receipt(what) : undefined,
  });
  return (what) => send({ what });
}

/** After a death it is sent again: the receiver knows its key. */
function sendAgainOf(outside: Outside): Act {
  const send = effect("send-again", {
    input: z.object({ what: z.string() }),
    onUnknown: "rerun",
    run: async ({ what }, { idempotencyKey }) => {
      await outside.act(what, idempotencyKey);
      return receipt(what);
    },
  });
  return (what) => send({ what });
}

const steps = (send: Act, again: Act) =>
  new StateGraph(State)
    .addNode("charge", async ({ who }) => ({ log: [await send(`${who} charge`)] }))
    .addNode("think", () => ({ log: ["thought ".repeat(100)] }))
    .addNode("mail", async ({ who }) => ({ log: [await again(`${who} mail`)] }))
    .addNode("file", async ({ who }) => ({ log: [await send(`${who} file`)] }))
    .addEdge(START, "charge")
    .addEdge("charge", "think")
    .addEdge("think", "mail")
    .addEdge("mail", "file")
    .addEdge("file", END);

const parallel = (send: Act) =>
  new StateGraph(State)
    .addNode("split", () => ({ parts: ["c", "a", "d", "b"], log: ["split"] }))
    .addNode("work", async ({ who, part }: typeof Part.State) => ({ log: [await send(`${who} part ${part}`)] }), {
      input: Part,
    })
    .addNode("join", async ({ who, log: seen }) => ({ log: [await send(`${who} join of ${seen.length}`)] }))
    .addEdge(START, "split")
    .addConditionalEdges("split", ({ who, parts }) => parts.map((part) => new Send("work", { who, part })), ["work"])
    .addEdge("work", "join")
    .addEdge("join", END);

function subgraph(send: Act) {
  const inner = (name: string) =>
    new StateGraph(Inner)
      .addNode("first", async ({ who }) => ({ seen: [await send(`${who} ${name} first`)] }))
      .addNode("second", async ({ who }) => ({ seen: [await send(`${who} ${name} second`)] }))
      .addEdge(START, "first")
      .addEdge("first", "second")
      .addEdge("second", END)
      .compile();
  const called = inner("called");
  return new StateGraph(State)
    .addNode("before", async ({ who }) => ({ log: [await send(`${who} before`)] }))
    .addNode("node", inner("node"))
    .addNode("caller", async ({ who, seen }) => {
      const { seen: alsoSeen } = await called.invoke({ who });
      return { log: [...seen, ...alsoSeen, await send(`${who} after`)] };
    })
    .addEdge(START, "before")
    .addEdge("before", "node")
    .addEdge("node", "caller")
    .addEdge("caller", END);
}

const question = (send: Act) =>
  new StateGraph(State)
    .addNode("draft", async ({ who }) => ({ log: [await send(`${who} draft`)] }))
    .addNode("ship", async ({ who }) => {
      const { decision } = await ask(QUESTION);
      return { log: [`ship: ${decision}`, await send(`${who} ship`)] };
    })
    .addEdge(START, "draft")
    .addEdge("draft", "ship")
    .addEdge("ship", END);

const double = (send: Act) =>
  new StateGraph(State)
    .addNode("choose", async ({ who }) => {
      const { value } = await ask(DOUBLE_QUESTION);
      return { log: [`chosen: ${String(value)}`, await send(`${who} chosen`)] };
    })
    .addEdge(START, "choose")
    .addEdge("choose", END);

const deadline = (send: Act) =>
  new StateGraph(State)
    .addNode("wait", async ({ who }) => {
      const { value } = await ask(DEADLINE_QUESTION, { deadline: DEADLINE_MS, onDeadline: { value: "nobody" } });
      return { log: [`decided by: ${String(value)}`, await send(`${who} decided`)] };
    })
    .addEdge(START, "wait")
    .addEdge("wait", END);

const turns = (send: Act) =>
  new StateGraph(State)
    .addNode("work", async ({ who, turn = 0 }) => ({ turn: turn + 1, log: [await send(`${who} turn ${turn}`)] }))
    .addEdge(START, "work")
    .addConditionalEdges("work", ({ turn }) => (turn < TURNS ? "work" : END));

const timer = (send: Act) =>
  new StateGraph(State)
    .addNode("begin", async ({ who }) => ({ log: [await send(`${who} begin`)] }))
    .addNode("rest", async ({ who }) => {
      await sleep(TIMER_MS);
      return { log: [await send(`${who} rested`)] };
    })
    .addEdge(START, "begin")
    .addEdge("begin", "rest")
    .addEdge("rest", END);

const fork = (send: Act) =>
  new StateGraph(State)
    .addNode("plan", () => ({ log: ["plan ".repeat(100)] }))
    .addNode("charge", async ({ who }) => ({ log: [await send(`${who} charge`)] }))
    .addNode("label", async ({ who, address }) => ({ log: [await send(`${who} label for ${address}`)] }))
    .addEdge(START, "plan")
    .addEdge("plan", "charge")
    .addEdge("charge", "label")
    .addEdge("label", END);
