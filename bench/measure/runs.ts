/** Pieces of work that are stored, executed and ended, 64 at once in one process: runs, DBOS workflows, jobs of pg-boss. */

import { DBOS } from "@dbos-inc/dbos-sdk";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { createRuntime } from "holdfast/runs";
import PgBoss from "pg-boss";
import { openSaver, serverUrl } from "../savers.ts";
import { median } from "../statistics.ts";
import { launchDbos } from "./dbos.ts";

export interface RunsJob {
  readonly kind: "runs";
  readonly peer: "holdfast" | "dbos" | "pg-boss";
  readonly runs: number;
  readonly atOnce: number;
  readonly repeats: number;
}

const act = async (n: number) => ({ receipt: `receipt-${n}` });

/** `us`: µs a run, from its start until its end is stored; median of the repeats after one untimed one. */
export async function measureRuns(job: RunsJob, dir: string): Promise<Record<string, number>> {
  const peer = await peers[job.peer](job, dir);
  const times: number[] = [];
  for (let i = 0; i <= job.repeats; i += 1) {
    const start = performance.now();
    await atOnce(job, (n) => peer.run(`${i}-${n}`, n));
    if (i > 0) times.push(((performance.now() - start) * 1000) / job.runs);
  }
  await peer.close();
  return { us: median(times) };
}

interface Peer {
  run(id: string, n: number): Promise<unknown>;
  close(): Promise<unknown>;
}

/** As many callers as there are runs at once, each of which starts its next run when the one before has ended. */
async function atOnce({ runs, atOnce: callers }: RunsJob, run: (n: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const caller = async () => {
    while (next < runs) {
      const n = next;
      next += 1;
      await run(n);
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
}

const peers: Readonly<Record<RunsJob["peer"], (job: RunsJob, dir: string) => Promise<Peer>>> = {
  /** A graph of one node, each on a thread of its own. */
  holdfast: async ({ atOnce: concurrency }, dir) => {
    const { checkpointer, close } = await openSaver("holdfast-postgres", dir, "runs");
    if (checkpointer === undefined) throw new Error("no checkpointer");
    const graph = new StateGraph(Annotation.Root({ n: Annotation<number>(), receipt: Annotation<string>() }))
      .addNode("work", ({ n }) => act(n))
      .addEdge(START, "work")
      .compile({ checkpointer });
    const ends = new Map<string, (status: string) => void>();
    const ended = new Map<string, string>();
    const runtime = createRuntime({
      checkpointer,
      graphs: { graph },
      onRun: ({ id, status }) => {
        // The end may be told before the start is.
        const end = ends.get(id);
        if (end === undefined) ended.set(id, status);
        else end(status);
      },
    });
    runtime.worker({ concurrency }).start();
    const run = async (threadId: string, n: number) => {
      const { id } = (await runtime.start("graph", { n }, { threadId })).run;
      const status = ended.get(id) ?? (await new Promise<string>((resolve) => ends.set(id, resolve)));
      ended.delete(id);
      ends.delete(id);
      if (status !== "succeeded") throw new Error(`run ${id} is ${status}`);
    };
    return { run, close: () => runtime.close().then(close) };
  },

  /** A workflow of one step, executed where it is started. */
  dbos: async () => {
    const workflow = DBOS.registerWorkflow((n: number) => DBOS.runStep(() => act(n), { name: "act" }), { name: "run" });
    const { close } = await launchDbos();
    return { run: async (workflowID, n) => (await DBOS.startWorkflow(workflow, { workflowID })(n)).getResult(), close };
  },

  /** Sent, fetched and completed by hand, without its polling: what its tables can do. */
  "pg-boss": async ({ atOnce: max }) => {
    const boss = new PgBoss({ connectionString: serverUrl("POSTGRES"), schedule: false, supervise: false, max });
    await boss.start();
    await boss.createQueue("runs");
    return {
      run: async (_id, n) => {
        await boss.send("runs", { n });
        for (const job of await boss.fetch<{ n: number }>("runs"))
          await boss.complete("runs", job.id, await act(job.data.n));
      },
      close: () => boss.stop({ graceful: false }),
    };
  },
};
