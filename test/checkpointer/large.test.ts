import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { channels, type LargeCheckpointEvent } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { expect, onTestFinished, test } from "vitest";
import { at } from "./subject.ts";

/** Events and process warnings from now to the end of the test. */
function heard() {
  const events: LargeCheckpointEvent[] = [];
  const warnings: Error[] = [];
  const listen = (event: unknown) => events.push(event as LargeCheckpointEvent);
  const warn = (warning: Error) => warnings.push(warning);
  channels.largeCheckpoint.subscribe(listen);
  process.on("warning", warn);
  onTestFinished(() => {
    channels.largeCheckpoint.unsubscribe(listen);
    process.off("warning", warn);
  });
  return { events, warnings };
}

const State = Annotation.Root({
  small: Annotation<number>(),
  documents: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
  whole: Annotation<string>(),
});

function growing() {
  return new StateGraph(State)
    .addNode("step", ({ small }) => ({ small: small + 1, documents: ["d".repeat(300_000 + small)] }))
    .addEdge(START, "step")
    .addConditionalEdges("step", ({ small }) => (small < 6 ? "step" : "__end__"))
    .compile({ checkpointer: memory() });
}

test("a checkpoint that passes one million characters is told of once, by the channel that makes it large", async () => {
  const { events, warnings } = heard();
  const app = growing();
  await app.invoke({ small: 0 }, at("t"));
  expect(events).toHaveLength(1);
  expect(events[0]).toMatchObject({ thread: "t", ns: "", channel: "documents" });
  expect(events[0]?.bytes).toBeGreaterThanOrEqual(1_000_000);
  expect(events[0]?.channelBytes).toBeLessThanOrEqual(events[0]?.bytes ?? 0);
  // A process warning for each channel, an event for each thread.
  await app.invoke({ small: 0 }, at("u"));
  expect(events.map((event) => event.thread)).toEqual(["t", "u"]);
  await new Promise((resolve) => setImmediate(resolve));
  expect(warnings.map((warning) => (warning as { code?: string }).code)).toEqual(["HOLDFAST_LARGE_CHECKPOINT"]);
  expect(warnings[0]?.message).toContain("documents");
});

test("one large value is told of as well, and a smaller checkpoint is not", async () => {
  const { events } = heard();
  const app = growing();
  await app.invoke({ small: 6, whole: "w".repeat(600_000) }, at("t"));
  expect(events).toEqual([]);
  await app.invoke({ small: 6, whole: "v".repeat(1_000_000) }, at("u"));
  expect(events).toMatchObject([{ thread: "u", channel: "whole" }]);
});
