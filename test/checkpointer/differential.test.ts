/** Random histories of operations, the same on LangGraph's own MemorySaver and on each backend: same answers (S6). */

import { MemorySaver } from "@langchain/langgraph";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { newStore, type StoreName, storeNames } from "../backends-table.ts";
import { type Operation, operation, Player, withoutIds } from "./operations.ts";
import { type Shape, shapes } from "./shapes.ts";

const RUNS: Readonly<Record<StoreName, number>> = { memory: 8, jsonl: 3, sqlite: 4, postgres: 4 };

async function transcript(player: Player, operations: readonly Operation[]): Promise<string> {
  const lines: unknown[] = [];
  for (const one of operations) lines.push({ operation: one, ...((await player.play(one)) as object) });
  return withoutIds({ lines, end: await player.everything() });
}

async function sameAnswers(shape: Shape, name: StoreName, operations: readonly Operation[]): Promise<void> {
  const saver = await (await newStore(name)).open();
  try {
    const ours = await transcript(new Player(shape, saver), operations);
    const official = await transcript(new Player(shape, new MemorySaver()), operations);
    expect(ours).toBe(official);
  } finally {
    await saver.close();
  }
}

describe.each(storeNames)("%s", (name) => {
  test.each(shapes)("answers as LangGraph's MemorySaver does, whatever is done with a thread: $name", async (shape) => {
    const property = fc.asyncProperty(fc.array(operation, { minLength: 1, maxLength: 8 }), (operations) =>
      sameAnswers(shape, name, [{ kind: "invoke", at: 0, durability: "async" }, ...operations]),
    );
    // The same histories in every run of the suite; RUNS=… looks for new ones.
    const runs = process.env["RUNS"];
    await fc.assert(
      property,
      runs === undefined ? { numRuns: RUNS[name], seed: 20_261_130 } : { numRuns: Number(runs) },
    );
  });
});
