/** Threads that wait for an answer: reading the inbox, answering one, and what the others cost meanwhile. */

import { join } from "node:path";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { ask, type Checkpointer } from "holdfast";
import { sqlite } from "holdfast/checkpointers/sqlite";
import { median } from "../statistics.ts";

export interface WaitsJob {
  readonly kind: "waits";
  /** Threads that wait before anything is measured. */
  readonly threads: number;
  readonly repeats: number;
}

const State = Annotation.Root({ answer: Annotation<string> });

const build = (checkpointer: Checkpointer) =>
  new StateGraph(State)
    .addNode("a", async () => ({
      answer: (await ask("Pay?", { details: { cents: 4200 }, deadline: "30 days" })).decision,
    }))
    .addEdge(START, "a")
    .compile({ checkpointer });

const at = (thread_id: string) => ({ configurable: { thread_id }, durability: "sync" as const });

/**
 * `pageMs`: reading the first 50 open waits · `resumeMs`: answering one and running its thread to the end · `timers`: that
 * the process has with all threads waiting.
 */
export async function measureWaits({ threads, repeats }: WaitsJob, dir: string): Promise<Record<string, number>> {
  const file = join(dir, "waits.db");
  await fill(file, threads);
  const saver = await sqlite(file);
  const app = build(saver);
  await app.invoke({ answer: "" }, at("warm-up"));
  for (let i = 0; i < repeats; i += 1) await app.invoke({ answer: "" }, at(`new ${i}`));
  const pages: number[] = [];
  for (let i = 0; i < repeats; i += 1) {
    const start = performance.now();
    await saver.waits({ status: ["open"], limit: 50 });
    pages.push(performance.now() - start);
  }
  const timers = process.getActiveResourcesInfo().filter((name) => name === "Timeout" || name === "Immediate").length;
  const resumes: number[] = [];
  for (let i = 0; i < repeats; i += 1) {
    const [wait] = await saver.waits({ thread: `new ${i}`, status: ["open"] });
    const start = performance.now();
    await saver.answer(wait?.id as string, { type: "approve" }, { by: "bench" });
    await app.invoke(null, at(`new ${i}`));
    resumes.push(performance.now() - start);
  }
  await saver.close();
  return { pageMs: median(pages), resumeMs: median(resumes), timers };
}

/** Real threads, stored without waiting for the disk. */
async function fill(file: string, threads: number): Promise<void> {
  const saver = await sqlite(file, { synchronous: "OFF" });
  const app = build(saver);
  for (let i = 0; i < threads; i += 1) await app.invoke({ answer: "" }, at(`waiting ${i}`));
  await saver.close();
}
