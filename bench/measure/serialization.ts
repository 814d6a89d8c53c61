/** Values to text and back, without a database: ours, LangGraph's JsonPlusSerializer, JSON, structuredClone. */

import { AIMessage, type BaseMessage, ToolMessage } from "@langchain/core/messages";
import { JsonPlusSerializer } from "@langchain/langgraph-checkpoint";
import { Serde } from "../../src/serde.ts";
import { BlobCollector } from "../../src/values.ts";
import { incompressibleText } from "../graphs.ts";
import { median } from "../statistics.ts";

export type Shape = "10KB" | "100KB" | "1MB" | "messages";

export interface SerializationJob {
  readonly kind: "serialization";
  readonly shape: Shape;
  /** Time spent on each subject, in milliseconds. */
  readonly budgetMs: number;
}

/** Milliseconds, medians: `dumps`, `loads` (ours), `plusDumps`, `plusLoads`, `stringify`, `parse`, `clone`; `chars` of JSON. */
export async function measureSerialization(job: SerializationJob): Promise<Record<string, number>> {
  const value = valueFor(job.shape);
  const ours = new Serde();
  const plus = new JsonPlusSerializer();
  const where = () => "the value";
  const dump = () => {
    // A collector of its own: hashes of large strings are made, not remembered.
    const sink = new BlobCollector(new Map());
    return { json: ours.stringify(ours.toTree(value, sink, where)), blobs: sink.blobs };
  };
  const stored = dump();
  const [type, bytes] = await plus.dumpsTyped(value);
  const json = JSON.stringify(value);
  const subjects: Record<string, () => unknown> = {
    dumps: dump,
    loads: () => ours.fromTree(ours.parse(stored.json), stored.blobs, where),
    plusDumps: () => plus.dumpsTyped(value),
    plusLoads: () => plus.loadsTyped(type, bytes),
    stringify: () => JSON.stringify(value),
    parse: () => JSON.parse(json),
    clone: () => structuredClone(value),
  };
  const result: Record<string, number> = { chars: json.length };
  for (const [name, subject] of Object.entries(subjects)) result[name] = await medianMs(subject, job.budgetMs);
  return result;
}

/** Median of what fits into the budget, after as much of warming up. */
async function medianMs(subject: () => unknown, budgetMs: number): Promise<number> {
  const times: number[] = [];
  const begin = performance.now();
  for (let elapsed = 0; elapsed < 2 * budgetMs || times.length < 5; elapsed = performance.now() - begin) {
    const start = performance.now();
    await subject();
    const ms = performance.now() - start;
    if (elapsed >= budgetMs) times.push(ms);
  }
  return median(times);
}

function valueFor(shape: Shape): unknown {
  switch (shape) {
    case "10KB":
      return documents(50);
    case "100KB":
      return documents(500);
    case "1MB":
      return documents(5000);
    case "messages":
      return Array.from({ length: 1000 }, (_, i) => pair(i)).flat();
    default: {
      const never: never = shape;
      return never;
    }
  }
}

/** Plain objects of about 200 characters of JSON. */
function documents(count: number): unknown {
  return Array.from({ length: count }, (_, i) => ({
    id: i,
    title: `Document ${i} of the collection`,
    tags: ["alpha", "beta", "gamma"],
    score: i / 7,
    author: { name: "Ada Lovelace", verified: i % 2 === 0, address: null },
    body: incompressibleText().slice(0, 60),
  }));
}

function pair(i: number): BaseMessage[] {
  return [
    new AIMessage({ id: `ai-${i}`, content: incompressibleText() }),
    new ToolMessage({ id: `tool-${i}`, content: incompressibleText(), tool_call_id: `call-${i}` }),
  ];
}
