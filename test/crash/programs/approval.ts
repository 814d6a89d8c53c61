/**
 * Waits of every kind, each decided in another process than the one that waits: two questions asked together, one
 * answered from several sides at once, a deadline, a timer and an event. The clock is a file: a day passes at each start
 * that finds nothing else to do.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { ask, type Checkpointer, type Decision, isHoldfastError, sleep, waitFor } from "holdfast";
import { faultPoint, reportResult, START_AGAIN, stateDirectory } from "holdfast/testing";
import { goOn, open } from "./play.ts";
import { send } from "./world.ts";

const DAY = 86_400_000;
const EPOCH = Date.parse("2026-01-01T00:00:00Z");
const clockFile = join(stateDirectory(), "days");

function days(): number {
  try {
    return Number(readFileSync(clockFile, "utf8"));
  } catch {
    return 0;
  }
}

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

function graph(checkpointer: Checkpointer) {
  return new StateGraph(State)
    .addNode("approve", async () => {
      const draft = await send({ what: "draft" });
      const [pay, ship] = await Promise.all([ask("Pay?", { details: draft }), ask("Ship to?", { details: "Rome" })]);
      return {
        log: [await send({ what: `pay ${pay.decision}` }), await send({ what: `ship to ${String(ship.value)}` })],
      };
    })
    .addNode("late", async () => {
      const { by } = await ask("Anybody?", { deadline: "1 day" });
      return { log: [await send({ what: `decided by ${by}` })] };
    })
    .addNode("rest", async () => {
      await sleep("12 hours");
      return { log: [await send({ what: "rested" })] };
    })
    .addNode("paid", async () => {
      const { value } = await waitFor("payment");
      return { log: [await send({ what: `received ${String(value)}` })] };
    })
    .addEdge(START, "approve")
    .addEdge("approve", "late")
    .addEdge("late", "rest")
    .addEdge("rest", "paid")
    .addEdge("paid", END)
    .compile({ checkpointer });
}

const answers: Readonly<Record<string, readonly Decision[]>> = {
  // The first of them wins; the others are told so.
  "Pay?": [{ type: "approve" }, { type: "approve" }, { type: "reject" }],
  "Ship to?": [{ type: "edit", value: "Oslo" }],
};

/** Everything that can be decided by others than the graph; a day passes where there is nothing. */
async function decide(checkpointer: Checkpointer): Promise<void> {
  let decided = 0;
  for (const wait of await checkpointer.waits({ thread: "approval", status: ["open"] })) {
    for (const [i, decision] of (answers[wait.name] ?? []).entries()) {
      decided += 1;
      await checkpointer.answer(wait.id, decision, { by: `person ${i}` }).catch((error: unknown) => {
        if (!isHoldfastError(error, "ALREADY_ANSWERED")) throw error;
      });
    }
    if (wait.kind !== "event") continue;
    decided += 1;
    await checkpointer.deliver(wait.name, 42, { by: "bank", thread: "approval" });
  }
  if (decided === 0) writeFileSync(clockFile, String(days() + 1));
}

const checkpointer = await open({ now: () => EPOCH + days() * DAY });
const app = graph(checkpointer);
const started = (await app.getState({ configurable: { thread_id: "approval" } })).metadata !== undefined;
if (started) await decide(checkpointer);
const values = await goOn(checkpointer, { app, thread: "approval", input: { log: [] } });
if (values === undefined) process.exitCode = START_AGAIN;
else {
  const decisions: string[] = [];
  for await (const { wait } of checkpointer.backend.decisions({ thread: "approval" })) {
    const [record] = await checkpointer.waits({ id: wait });
    decisions.push(`${record?.name} ${record?.status} ${record?.decision?.type} by ${record?.decision?.by}`);
  }
  const { broken } = await checkpointer.verifyDecisions();
  reportResult({ values, decisions: decisions.sort(), broken });
}
faultPoint("before-close");
await checkpointer.close();
