/** What the tests of the endpoints share: a store, graphs, the endpoints over them, and a client without a network. */

import { Annotation, type BaseCheckpointSaver, END, START, StateGraph } from "@langchain/langgraph";
import { ask, type Backend, type Checkpointer, type CheckpointerOptions } from "holdfast";
import {
  type Approvals,
  type ApprovalsOptions,
  createApprovals,
  type FailureContext,
  type Graphs,
} from "holdfast/approvals";
import { onTestFinished } from "vitest";
import type { BrokenView, DecisionView, WaitView } from "../../src/approvals/wait-view.ts";
import { newStore, type StoreName } from "../backends-table.ts";

/** The connection of a program on this machine, as `@hono/node-server` hands it over. */
export const local = { incoming: { socket: { remoteAddress: "127.0.0.1" } } };

/** Everything that some endpoint answers, under its own name. */
export interface Body extends WaitView {
  readonly waits: readonly WaitView[];
  readonly next: string | null;
  readonly wait: string & WaitView;
  readonly decision: DecisionView;
  readonly replayed: boolean;
  readonly decisions: readonly DecisionView[];
  readonly checked: number;
  readonly broken: readonly BrokenView[];
  readonly error: {
    readonly code: string;
    readonly message: string;
    readonly details: Readonly<Record<string, unknown>>;
  };
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body;
}

export interface Sent {
  readonly headers?: Readonly<Record<string, string>>;
  readonly connection?: unknown;
}

export interface Served<G extends Graphs = Graphs> {
  readonly approvals: Approvals;
  readonly graphs: G;
  readonly checkpointer: Checkpointer;
  /** Everything that was told to `onError`. */
  readonly failures: { readonly error: unknown; readonly context: FailureContext }[];
  get(path: string, sent?: Sent): Promise<Answer>;
  post(path: string, body?: unknown, sent?: Sent): Promise<Answer>;
  /** The only wait that is open. */
  open(): Promise<WaitView>;
}

export interface ServeOptions {
  readonly store?: StoreName;
  readonly saver?: CheckpointerOptions;
  readonly options?: Partial<Omit<ApprovalsOptions, "checkpointer" | "graphs">>;
  readonly wrap?: (backend: Backend) => Backend;
}

/** Endpoints over an empty store, closed at the end of the test. */
export async function served<const G extends Graphs>(
  graphs: (checkpointer: Checkpointer) => G,
  { store = "memory", saver = {}, options = {}, wrap }: ServeOptions = {},
): Promise<Served<G>> {
  const checkpointer = await (await newStore(store)).open(saver, wrap);
  return serve(checkpointer, graphs(checkpointer), options);
}

export function serve<const G extends Graphs>(
  checkpointer: Checkpointer,
  graphs: G,
  options: Partial<Omit<ApprovalsOptions, "checkpointer" | "graphs">> = {},
): Served<G> {
  const failures: { error: unknown; context: FailureContext }[] = [];
  const onError = (error: unknown, context: FailureContext): void => void failures.push({ error, context });
  const approvals = createApprovals({ checkpointer, graphs, onError, ...options });
  onTestFinished(() => approvals.close());
  const get: Served<G>["get"] = (path, sent) => request(approvals, "GET", path, undefined, sent);
  return {
    approvals,
    graphs,
    checkpointer,
    failures,
    get,
    post: (path, body = {}, sent) => request(approvals, "POST", path, body, sent),
    open: async () => {
      const { waits } = (await get("/approvals")).body;
      if (waits.length !== 1) throw new Error(`${waits.length} waits are open: ${JSON.stringify(waits)}`);
      return waits[0] as WaitView;
    },
  };
}

async function request(
  approvals: Approvals,
  method: string,
  path: string,
  body: unknown,
  sent: Sent = {},
): Promise<Answer> {
  const { headers = {} } = sent;
  const connection = "connection" in sent ? sent.connection : local;
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const json: Record<string, string> = method === "GET" ? {} : { "content-type": "application/json" };
  const response = await approvals.fetch(
    new Request(`http://localhost:3000${path}`, {
      method,
      headers: { ...json, ...headers },
      ...(body === undefined ? {} : { body: text }),
    }),
    connection,
  );
  const given = await response.text();
  const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
  return { status: response.status, headers: response.headers, body: (isJson ? JSON.parse(given) : given) as Body };
}

export const State = Annotation.Root({
  amount: Annotation<number>(),
  log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

/** Asks whether an amount may be paid, then pays it. */
export function payment(checkpointer: BaseCheckpointSaver, pay: (amount: number) => Promise<unknown> = async () => {}) {
  return new StateGraph(State)
    .addNode("ask", async ({ amount }) => {
      const { decision, value, comment, by } = await ask<{ amount: number }>(`Pay ${amount}?`, { details: { amount } });
      return { amount: value?.amount ?? 0, log: [[decision, by, comment].filter(Boolean).join(" ")] };
    })
    .addNode("pay", async ({ amount }) => {
      await pay(amount);
      return { log: [`paid ${amount}`] };
    })
    .addEdge(START, "ask")
    .addConditionalEdges("ask", ({ amount }) => (amount > 0 ? "pay" : END))
    .addEdge("pay", END)
    .compile({ checkpointer });
}

export const thread = (thread_id: string, more: Record<string, unknown> = {}) => ({
  configurable: { thread_id, ...more },
});

/** A graph of one node. */
export function oneNode(checkpointer: BaseCheckpointSaver, node: (state: typeof State.State) => unknown) {
  return new StateGraph(State)
    .addNode("one", async (state) => (await node(state)) as Partial<typeof State.State>)
    .addEdge(START, "one")
    .compile({ checkpointer });
}
