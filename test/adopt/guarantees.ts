/** What adopt() and durable() promise, each as a check that a broken library must fail. */

import { Annotation, Command, MemorySaver, START, StateGraph } from "@langchain/langgraph";
import { expect } from "vitest";
import { z } from "zod";
import type { Library } from "../mutants/mutate.ts";
import { asking, at, plain } from "./graphs.ts";
import { listed } from "./listed.ts";
import { memorySource } from "./memory-source.ts";

export interface AdoptGuarantee {
  readonly name: string;
  readonly check: (library: Library) => Promise<void>;
}

const guarantee = (name: string, check: AdoptGuarantee["check"]): AdoptGuarantee => ({ name, check });

export const otherContentIsRefused = guarantee(
  "a thread that holds something else is refused, and nothing is written for it",
  async ({ holdfast, memory }) => {
    const [saver, checkpointer] = [new MemorySaver(), memory.memory()];
    await plain(saver).invoke({ log: [] }, at("t"));
    await plain(checkpointer).invoke({ log: ["mine"] }, at("t"));
    const before = await listed(checkpointer, "t");
    const report = await holdfast.adopt(memorySource(saver, "t"), checkpointer);
    expect(report.threads).toMatchObject([{ status: "refused" }]);
    expect(await listed(checkpointer, "t")).toEqual(before);
  },
);

export const differencesAreFound = guarantee(
  "what does not read back equal is found: metadata, versions, values, writes",
  async ({ holdfast, memory }) => {
    const saver = new MemorySaver();
    await plain(saver).invoke({ log: ["x"] }, at("t"));
    const changes = [
      ({ tuple }) => Object.assign(tuple.metadata ?? {}, { more: 1 }),
      ({ tuple }) => Object.assign(tuple.checkpoint.channel_versions, { log: 77 }),
      ({ tuple }) => Object.assign(tuple.checkpoint.channel_values, { log: ["y"] }),
      ({ tuple }) => {
        for (const write of tuple.pendingWrites ?? []) write[2] = ["y"];
      },
    ] satisfies Parameters<typeof memorySource>[2][];
    for (const change of changes) {
      const report = await holdfast.adopt(memorySource(saver, "t", change), memory.memory());
      expect(report).toMatchObject({ complete: false, threads: [{ status: "different" }] });
    }
  },
);

export const pausedIsWaiting = guarantee(
  "a paused thread is a wait, and goes on with its answer",
  async ({ holdfast, memory }) => {
    const [saver, checkpointer] = [new MemorySaver(), memory.memory()];
    await asking(saver).invoke({ log: [] }, at("t"));
    await holdfast.adopt(memorySource(saver, "t"), checkpointer);
    const [wait] = await checkpointer.waits({ status: ["open"] });
    expect(wait?.value).toEqual({ question: "how many?" });
    await checkpointer.answer(String(wait?.id), { type: "respond", value: "three" }, { by: "ann" });
    await asking(checkpointer).invoke(null, at("t"));
    expect((await checkpointer.waits({ status: ["open"] }))[0]?.value).toEqual({ question: "which colour?" });
  },
);

export const newestIsNewest = guarantee(
  "the official saver's latest is the newest, also where a clock went back",
  async ({ holdfast, memory }) => {
    const [saver, checkpointer] = [new MemorySaver(), memory.memory()];
    const checkpoint = (id: string) => ({
      v: 4,
      id,
      ts: "2026-01-01T00:00:00.000Z",
      channel_values: {},
      channel_versions: {},
      versions_seen: {},
    });
    const metadata = { source: "loop" as const, step: 0, parents: {} };
    const config = { thread_id: "t", checkpoint_ns: "" };
    await saver.put({ configurable: config }, checkpoint("c"), metadata);
    await saver.put({ configurable: { ...config, checkpoint_id: "c" } }, checkpoint("a"), metadata);
    await holdfast.adopt(memorySource(saver, "t"), checkpointer);
    expect((await checkpointer.getTuple({ configurable: config }))?.checkpoint.id).toBe("c");
  },
);

export const takenAnswerIsLeftOut = guarantee(
  "an answer that was taken answers no second question",
  async ({ holdfast, memory }) => {
    const [saver, checkpointer] = [new MemorySaver(), memory.memory()];
    await asking(saver).invoke({ log: [] }, at("t"));
    await asking(saver).invoke(new Command({ resume: "three" }), at("t"));
    await holdfast.adopt(memorySource(saver, "t"), checkpointer);
    expect(await asking(checkpointer).invoke(null, at("t"))).toHaveProperty("__interrupt__");
  },
);

export const answersStayInTheLedger = guarantee(
  "with durable() an answer that was taken answers no second question",
  async ({ holdfast, memory }) => {
    const checkpointer = holdfast.durable(new MemorySaver(), { ledger: memory.memory() });
    await asking(checkpointer).invoke({ log: [] }, at("t"));
    await asking(checkpointer).invoke(new Command({ resume: "three" }), at("t"));
    expect(await asking(checkpointer).invoke(null, at("t"))).toHaveProperty("__interrupt__");
  },
);

export const effectsHangOnWhatIsStored = guarantee(
  "with durable() no effect is begun on a checkpoint that the official saver has refused",
  async ({ holdfast, memory }) => {
    const saver = new MemorySaver();
    const put = saver.put.bind(saver);
    let puts = 0;
    saver.put = async (...args) => {
      puts += 1;
      if (puts >= 2) throw new Error("disk full");
      return put(...args);
    };
    let done = 0;
    const pay = holdfast.effect("pay", { input: z.string(), run: () => (done += 1) });
    const app = new StateGraph(Annotation.Root({ what: Annotation<string>() }))
      .addNode("pay", async ({ what }) => {
        await pay(what);
        return {};
      })
      .addEdge(START, "pay")
      .compile({ checkpointer: holdfast.durable(saver, { ledger: memory.memory() }) });
    await expect(app.invoke({ what: "rent" }, { ...at("t"), durability: "async" })).rejects.toThrow("disk full");
    expect(done).toBe(0);
  },
);
