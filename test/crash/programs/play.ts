/**
 * What every crash program does: open the checkpointer in the state directory, go on where the thread stands, and report
 * the result. `program.js <sqlite|jsonl|postgres|redis|official> [durability]`; `official` is LangGraph's SqliteSaver with a ledger of
 * ours.
 */

import { createHash } from "node:crypto";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { Command } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import {
  type Checkpointer,
  type CheckpointerOptions,
  durable,
  isHoldfastError,
  type RunnableGraph,
  run,
} from "holdfast";
import { counted, faultPoint, reportResult, START_AGAIN, stateDirectory } from "holdfast/testing";
import { receipt } from "./world.ts";

export const backendName = process.argv[2] ?? "sqlite";
export const durability = (process.argv[3] ?? "sync") as "sync" | "async";

export interface Play {
  readonly app: RunnableGraph;
  readonly thread: string;
  readonly input: unknown;
  /** Answers to questions by their value; a program with questions needs a start for each. */
  readonly answers?: Readonly<Record<string, unknown>>;
  readonly config?: Readonly<Record<string, unknown>>;
}

export async function open(options: CheckpointerOptions = {}): Promise<Checkpointer> {
  const journal = join(stateDirectory(), "actions.jsonl");
  if (backendName === "jsonl") {
    const { jsonl } = await import("holdfast/checkpointers/jsonl");
    return jsonl(join(stateDirectory(), "state"), { journal, ...options });
  }
  if (backendName === "postgres") {
    const { postgres } = await import("holdfast/checkpointers/postgres");
    return postgres(process.env["HOLDFAST_TEST_POSTGRES"] ?? "", {
      journal,
      schema: placeName(),
      leaseMs: 1000,
      ...options,
    });
  }
  if (backendName === "redis") {
    const { redis } = await import("holdfast/checkpointers/redis");
    return redis(process.env["HOLDFAST_TEST_REDIS"] ?? "", {
      journal,
      prefix: placeName(),
      leaseMs: 1000,
      effectsOnVolatile: true,
      ...options,
    });
  }
  const { sqlite } = await import("holdfast/checkpointers/sqlite");
  const own = await sqlite(join(stateDirectory(), "state.db"), { journal, ...options });
  return backendName === "official" ? durable(officialSaver(), { ledger: own }) : own;
}

/** Its calls are places to be killed at, like our own commits. */
function officialSaver(): SqliteSaver {
  const saver = SqliteSaver.fromConnString(join(stateDirectory(), "official.db"));
  const [put, putWrites] = [saver.put.bind(saver), saver.putWrites.bind(saver)];
  saver.put = async (...args) => {
    faultPoint("official-put");
    const config = await put(...args);
    faultPoint("official-put-done");
    return config;
  };
  saver.putWrites = async (...args) => {
    faultPoint("official-writes");
    await putWrites(...args);
    faultPoint("official-writes-done");
  };
  return saver;
}

/** On a server that many lives share: a name of this one's own. */
function placeName(): string {
  return `crash-${createHash("sha256").update(stateDirectory()).digest("hex").slice(0, 24)}`;
}

/** A settle wait's question, as it stands in the thread's state. */
interface SettleQuestion {
  readonly type: "settle";
  readonly key: string;
  readonly input: { readonly what: string };
}

function isSettle(value: unknown): value is SettleQuestion {
  return typeof value === "object" && value !== null && (value as { type?: unknown }).type === "settle";
}

/**
 * One start's share of a thread. Resolves with the values of a finished thread, or with undefined where another start
 * is needed, because something was asked: the answer is given by another process than the one that asked.
 */
export async function goOn(checkpointer: Checkpointer, play: Play): Promise<unknown> {
  const config = { configurable: { thread_id: play.thread }, durability, ...play.config };
  const resume: Record<string, unknown> = {};
  for (const { id, value } of await checkpointer.waits({ thread: play.thread, status: ["open"] })) {
    if (isSettle(value)) await settle(checkpointer, value);
    else if (play.answers !== undefined) resume[id] = play.answers[String(value)];
  }
  if (Object.keys(resume).length > 0) await play.app.invoke(new Command({ resume }) as never, config as never);
  const result = await whenCertain(() => run(play.app, play.input, config));
  return result.status === "waiting" || result.status === "parked" ? undefined : result.values;
}

/** On a server a killed process is known to be dead when its lease has ended; until then its effect is in doubt. */
async function whenCertain<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!isHoldfastError(error, "EFFECT_IN_DOUBT")) throw error;
      await wait(100);
    }
  }
}

/** The operator: looks whether it happened, and says so. */
async function settle(checkpointer: Checkpointer, { key, input }: SettleQuestion): Promise<void> {
  const happened = (await counted(input.what, key)) > 0;
  await whenCertain(() =>
    checkpointer.settle(key, happened ? { done: receipt(input.what) } : { notDone: true }, { by: "operator" }),
  );
}

/** A program of one thread. */
export async function main(
  build: (checkpointer: Checkpointer) => Play | Promise<Play>,
  result = (values: unknown) => values,
): Promise<void> {
  const checkpointer = await open();
  const values = await goOn(checkpointer, await build(checkpointer));
  if (values === undefined) process.exitCode = START_AGAIN;
  else reportResult(result(values));
  faultPoint("before-close");
  await checkpointer.close();
}
