/** Durable steps, one after another: calls of an effect in one node, or steps of one DBOS workflow. */

import { DBOS } from "@dbos-inc/dbos-sdk";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { effect } from "holdfast";
import { z } from "zod";
import { configOf } from "../graphs.ts";
import { openSaver } from "../savers.ts";
import { median } from "../statistics.ts";
import { launchDbos } from "./dbos.ts";

export interface StepsJob {
  readonly kind: "steps";
  /** `settle`: an effect with intent and outcome; `rerun`: with its outcome only. */
  readonly peer: "settle" | "rerun" | "dbos";
  readonly steps: number;
  readonly repeats: number;
}

/** What a step does, and stores. */
const act = async (n: number) => ({ receipt: `receipt-${n}` });

/** `us`: µs a step, the graph or workflow around them included; median of the repeats after one untimed run. */
export async function measureSteps(job: StepsJob, dir: string): Promise<Record<string, number>> {
  const { run, close } =
    job.peer === "dbos" ? await dbosWorkflow(job.steps) : await graphNode(job.peer, job.steps, dir);
  const times: number[] = [];
  for (let i = 0; i <= job.repeats; i += 1) {
    const start = performance.now();
    await run(`run-${i}`);
    if (i > 0) times.push(((performance.now() - start) * 1000) / job.steps);
  }
  await close();
  return { us: median(times) };
}

interface Steps {
  run(id: string): Promise<unknown>;
  close(): Promise<void>;
}

async function graphNode(mode: "settle" | "rerun", steps: number, dir: string): Promise<Steps> {
  const open = await openSaver("holdfast-postgres", dir, "steps");
  const step = effect("act", { input: z.number(), run: act, onUnknown: mode });
  const app = new StateGraph(Annotation.Root({ last: Annotation<string> }))
    .addNode("work", async () => {
      let last = "";
      for (let n = 0; n < steps; n += 1) last = (await step(n)).receipt;
      return { last };
    })
    .addEdge(START, "work")
    .compile({ checkpointer: open.saver ?? false });
  return { run: (id) => app.invoke({ last: "" }, configOf(id, 1, "sync")), close: open.close };
}

async function dbosWorkflow(steps: number): Promise<Steps> {
  const workflow = DBOS.registerWorkflow(
    async () => {
      let last = "";
      for (let n = 0; n < steps; n += 1) last = (await DBOS.runStep(() => act(n), { name: "act" })).receipt;
      return last;
    },
    { name: "work" },
  );
  const { close } = await launchDbos();
  return { run: async (workflowID) => (await DBOS.startWorkflow(workflow, { workflowID })()).getResult(), close };
}
