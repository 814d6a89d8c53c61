/** W8: a thread that waits is rows, and nothing else. */

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { ask } from "holdfast";
import { expect, test } from "vitest";
import { newStore } from "../backends-table.ts";
import { at } from "../checkpointer/subject.ts";
import { sequence } from "./graphs.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

function heap(): number {
  for (let i = 0; i < 3; i += 1) collect();
  return process.memoryUsage().heapUsed;
}

test("waiting threads take no timer and no memory of the process that began them", async () => {
  const saver = await (await newStore("sqlite")).open();
  const app = sequence(saver, { a: async () => ({ log: [(await ask("Ok?", { deadline: "30 days" })).decision] }) });
  const begin = async (from: number, to: number) => {
    for (let i = from; i < to; i += 1) await app.invoke({ log: ["x".repeat(1000)] }, at(`t${i}`));
  };
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  // Caches of a bounded size are full by then.
  await begin(0, 1200);
  const before = timers();
  // Three times: what the engine keeps of code that it compiles grows the heap once, what a thread leaves behind every time.
  const growth: number[] = [];
  for (let from = 1200; from < 4800; from += 1200) {
    const used = heap();
    await begin(from, from + 1200);
    growth.push((heap() - used) / 1200);
  }
  expect(timers()).toBe(before);
  expect(growth.sort((a, b) => a - b)[1], `bytes a thread: ${growth.join(", ")}`).toBeLessThan(150);
});
