/** One superstep of a thousand Sends. */

import { Annotation, Send, START, StateGraph } from "@langchain/langgraph";
import { configOf } from "../graphs.ts";
import { openSaver, type SaverName } from "../savers.ts";
import { median } from "../statistics.ts";

export interface FanOutJob {
  readonly kind: "fan-out";
  readonly saver: SaverName;
  readonly sends: number;
  readonly repeats: number;
}

const State = Annotation.Root({ log: Annotation<number[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });

/** `ms`: a run with one superstep of `sends` tasks, median of the repeats after one untimed run; sync durability. */
export async function measureFanOut(job: FanOutJob, dir: string): Promise<Record<string, number>> {
  const open = await openSaver(job.saver, dir, "fan-out");
  const app = new StateGraph(State)
    .addNode("one", ({ n }: { n: number } & typeof State.State) => ({ log: [n] }))
    .addConditionalEdges(START, () => Array.from({ length: job.sends }, (_, n) => new Send("one", { n })))
    .compile({ checkpointer: open.saver ?? false });
  const times: number[] = [];
  for (let i = 0; i <= job.repeats; i += 1) {
    const start = performance.now();
    await app.invoke({ log: [] }, configOf(`run-${i}`, 10, "sync"));
    if (i > 0) times.push(performance.now() - start);
  }
  await open.close();
  return { ms: median(times) };
}
