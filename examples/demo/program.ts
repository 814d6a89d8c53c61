/**
 * The program that is killed: starts the graph, or goes on with it, in the working directory. Its only argument is a
 * {@link Job} as JSON; it prints its {@link Answer} as one line of JSON.
 */

import { run } from "holdfast";
import { openCheckpointer } from "holdfast/checkpointers";
import { worldClient } from "../world/client.ts";
import { type CaseName, cases } from "./cases.ts";
import { WatchedSqliteSaver } from "./plain.ts";
import type { Variant } from "./variants.ts";

export interface Job {
  readonly graph: CaseName;
  readonly variant: Pick<Variant, "calls" | "saver" | "durability">;
  /** A checkpointer's URL, or the official saver's file. */
  readonly place: string;
  readonly thread: string;
  /** Address of the world, with the shop. */
  readonly shop: string;
  readonly inbox: string;
}

export interface Answer {
  readonly status: "finished" | "already_done" | "parked" | "waiting";
  readonly values: unknown;
}

/** Does the job until it is finished or waits for somebody. */
export function runJob(job: Job): Promise<Answer> {
  return job.variant.saver === "holdfast" ? onHoldfast(job) : onOfficialSaver(job);
}

function runConfig({ thread, variant }: Job) {
  const durability = variant.durability === undefined ? {} : { durability: variant.durability };
  return { configurable: { thread_id: thread }, recursionLimit: 100_000, ...durability };
}

async function onHoldfast(job: Job): Promise<Answer> {
  const checkpointer = await openCheckpointer(job.place);
  try {
    const { compile, input } = cases[job.graph];
    const app = compile(worldClient(job.shop), job.variant.calls, checkpointer);
    const { status, values } = await run(app, input(job.inbox), runConfig(job));
    return { status, values };
  } finally {
    await checkpointer.close();
  }
}

async function onOfficialSaver(job: Job): Promise<Answer> {
  const saver = WatchedSqliteSaver.open(job.place);
  const { compile, input } = cases[job.graph];
  const app = compile(worldClient(job.shop), job.variant.calls, saver);
  // A thread that was killed before anything of it was stored is started again with its input.
  const begun = (await saver.getTuple({ configurable: { thread_id: job.thread } })) !== undefined;
  const values = await app.invoke((begun ? null : input(job.inbox)) as never, runConfig(job));
  return { status: "finished", values };
}
