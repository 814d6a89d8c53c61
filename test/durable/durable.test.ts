import { join } from "node:path";
import { Annotation, Command, END, interrupt, MemorySaver, START, StateGraph } from "@langchain/langgraph";
import { type BaseCheckpointSaver, MemorySaver as OfficialMemory } from "@langchain/langgraph-checkpoint";
import { ask, type Checkpointer, durable, effect, run, timeTravel } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { sqlite } from "holdfast/checkpointers/sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { officialPostgres, officialSqlite } from "../adopt/official.ts";
import { scratchDirectory } from "../backends/scratch.ts";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

interface World {
  readonly done: string[];
  /** Throws in the node after the effect, so often. */
  failures: number;
}

function paying(checkpointer: BaseCheckpointSaver, world: World) {
  const pay = effect("pay", {
    input: z.object({ what: z.string() }),
    run: ({ what }) => {
      world.done.push(what);
      return `paid ${what}`;
    },
  });
  return new StateGraph(State)
    .addNode("first", async () => ({ log: [await pay({ what: "rent" })] }))
    .addNode("second", async () => {
      const paid = await pay({ what: "bread" });
      if (world.failures-- > 0) throw new Error("dropped it");
      return { log: [paid] };
    })
    .addNode("sign", () => ({ log: [`signed ${interrupt<string, string>("your name?")}`] }))
    .addNode("agree", async () => ({ log: [(await ask("really?", { allow: ["approve", "reject"] })).decision] }))
    .addEdge(START, "first")
    .addEdge("first", "second")
    .addEdge("second", "sign")
    .addEdge("sign", "agree")
    .addEdge("agree", END)
    .compile({ checkpointer });
}

async function ledgerFile(): Promise<Checkpointer> {
  const ledger = await sqlite(join(await scratchDirectory(), "ledger.db"));
  onTestFinished(() => ledger.close());
  return ledger;
}

const officials = {
  MemorySaver: async (): Promise<BaseCheckpointSaver> => new OfficialMemory(),
  SqliteSaver: async () => (await officialSqlite()).saver,
  PostgresSaver: async () => (await officialPostgres()).saver,
};

const at = (durability: "sync" | "async" | "exit", thread = "t") => ({
  configurable: { thread_id: thread },
  durability,
});

describe.each(Object.entries(officials))("a graph that stays on the official %s", (_name, open) => {
  test.each(["sync", "async"] as const)(
    "keeps effects and waits in the ledger, in %s durability",
    async (durability) => {
      const official = await open();
      const ledger = await ledgerFile();
      const world: World = { done: [], failures: 1 };
      const app = () => paying(durable(official, { ledger }), world);
      await expect(app().invoke({ log: ["begun"] }, at(durability))).rejects.toThrow("dropped it");
      await app().invoke(null, at(durability));
      expect(world.done).toEqual(["rent", "bread"]);
      const [question] = await ledger.waits({ thread: "t", status: ["open"] });
      expect(question).toMatchObject({ kind: "interrupt", value: "your name?" });
      await app().invoke(new Command({ resume: "Ann" }), at(durability));
      const [second] = await ledger.waits({ thread: "t", status: ["open"] });
      expect(second).toMatchObject({ kind: "question", name: "really?" });
      await ledger.answer(String(second?.id), { type: "approve" }, { by: "ann" });
      const done = await app().invoke(null, at(durability));
      expect(done.log).toEqual(["begun", "paid rent", "paid bread", "signed Ann", "approve"]);
      expect((await ledger.waits({ thread: "t" })).map(({ status }) => status)).toEqual(["consumed", "consumed"]);
      expect((await ledger.effects({ thread: "t" })).map(({ status }) => status)).toEqual(["done", "done"]);
      // The values are in the official saver, and in it only.
      const bare = await paying(official, world).getState(at(durability));
      expect(bare.values).toEqual(done);
      expect((await ledger.getTuple(at(durability)))?.checkpoint.channel_values).toEqual({});
      expect(bare.config.configurable?.["checkpoint_id"]).toBe((await ledger.getTuple(at(durability)))?.checkpoint.id);
    },
  );

  test("leaves no answer behind that the next question could take", async () => {
    const official = await open();
    const ledger = await ledgerFile();
    const app = new StateGraph(State)
      .addNode("ask", () => {
        const first = interrupt<string, string>("first?");
        return { log: [first, interrupt<string, string>("second?")] };
      })
      .addEdge(START, "ask")
      .compile({ checkpointer: durable(official, { ledger }) });
    await app.invoke({ log: [] }, at("sync"));
    await app.invoke(new Command({ resume: "one" }), at("sync"));
    const still = await app.invoke(null, at("sync"));
    expect(still).toHaveProperty("__interrupt__");
    const [open2] = await ledger.waits({ thread: "t", status: ["open"] });
    await ledger.answer(String(open2?.id), { type: "respond", value: "two" }, { by: "ann" });
    expect((await app.invoke(null, at("sync"))).log).toEqual(["one", "two"]);
  });

  test("goes on with a thread that began without a ledger", async () => {
    const official = await open();
    const world: World = { done: [], failures: 0 };
    const plain = new StateGraph(State)
      .addNode("first", () => ({ log: ["first"] }))
      .addNode("second", () => {
        throw new Error("stop");
      })
      .addEdge(START, "first")
      .addEdge("first", "second")
      .compile({ checkpointer: official });
    await plain.invoke({ log: ["begun"] }, at("sync")).catch(() => {});
    const ledger = await ledgerFile();
    const result = await run(paying(durable(official, { ledger }), world), null, at("sync"));
    expect(world.done).toEqual(["bread"]);
    expect(result.status).toBe("waiting");
    expect(result.values.log).toEqual(["begun", "first", "paid bread"]);
  });

  test("refuses effects in exit durability", async () => {
    const world: World = { done: [], failures: 0 };
    const app = paying(durable(await open(), { ledger: await ledgerFile() }), world);
    await expect(app.invoke({ log: [] }, at("exit"))).rejects.toMatchObject({ code: "EFFECT_NOT_DURABLE" });
    expect(world.done).toEqual([]);
  });

  test("forgets a deleted thread in both", async () => {
    const official = await open();
    const ledger = await ledgerFile();
    const saver = durable(official, { ledger });
    const world: World = { done: [], failures: 0 };
    await paying(saver, world).invoke({ log: [] }, at("sync"));
    await saver.deleteThread("t");
    expect(await official.getTuple(at("sync"))).toBeUndefined();
    expect(await ledger.effects({ thread: "t" })).toEqual([]);
    await paying(saver, world).invoke({ log: [] }, at("sync"));
    expect(world.done).toEqual(["rent", "bread", "rent", "bread"]);
  });
});

/** A replay of an old checkpoint, an edit of it, and an edit of the newest one. */
async function travel(saver: Checkpointer) {
  const world: World = { done: [], failures: 0 };
  const app = paying(saver, world);
  await app.invoke({ log: ["begun"] }, at("sync"));
  const old: string[] = [];
  for await (const { config, next } of app.getStateHistory(at("sync")))
    if (next.includes("first")) old.push(String(config.configurable?.["checkpoint_id"]));
  const before = { configurable: { thread_id: "t", checkpoint_id: old[0] }, durability: "sync" as const };
  await app.invoke(null, before);
  const replayed = [...world.done];
  const edited = await app.updateState(before, { log: ["edited"] });
  const { log } = await app.invoke(null, { ...edited, durability: "sync" });
  await app.updateState(at("sync"), { log: ["back"] }, "first");
  await app.invoke(null, at("sync"));
  const open = await saver.waits({ thread: "t", status: ["open"] });
  return { replayed, done: world.done, log, open: open.map(({ value }) => value) };
}

test.each(["MemorySaver", "SqliteSaver"] as const)(
  "edits and replays on the official %s do the same effects as on a checkpointer of ours",
  async (name) => {
    const result = await travel(durable(await officials[name](), { ledger: await ledgerFile() }));
    expect(result.replayed).toEqual(["rent", "bread"]);
    expect(result).toEqual(await travel(memory()));
  },
);

test("on the official PostgresSaver a replay repeats no effect, but an edit is lost: it mixes branches (S3)", async () => {
  const result = await travel(durable(await officials.PostgresSaver(), { ledger: await ledgerFile() }));
  expect(result.replayed).toEqual(["rent", "bread"]);
  expect(result.done).toEqual(["rent", "bread"]);
  expect(result.log).not.toContain("edited");
});

test("an effect waits until the official saver has stored the checkpoint that it hangs on", async () => {
  const official = new MemorySaver();
  const put = official.put.bind(official);
  const stored = new Set<string>();
  official.put = async (...args) => {
    for (let turns = 0; turns < 50; turns += 1) await new Promise((resolve) => setImmediate(resolve));
    const config = await put(...args);
    stored.add(String(config.configurable?.["checkpoint_id"]));
    return config;
  };
  const begun: boolean[] = [];
  let hangsOn = "";
  const pay = effect("pay", { input: z.string(), run: () => begun.push(stored.has(hangsOn)) });
  const app = new StateGraph(State)
    .addNode("first", async (_state, config) => {
      hangsOn = String(config.executionInfo?.checkpointId);
      expect(stored.has(hangsOn)).toBe(false);
      await pay("rent");
      return {};
    })
    .addEdge(START, "first")
    .compile({ checkpointer: durable(official, { ledger: memory() }) });
  await app.invoke({ log: [] }, at("async"));
  expect(begun).toEqual([true]);
});

test("an effect is not begun where the official saver refuses the checkpoint", async () => {
  const official = new MemorySaver();
  const put = official.put.bind(official);
  let puts = 0;
  official.put = async (...args) => {
    puts += 1;
    if (puts >= 2) throw new Error("disk full");
    return put(...args);
  };
  const world: World = { done: [], failures: 0 };
  const app = paying(durable(official, { ledger: memory() }), world);
  await expect(app.invoke({ log: [] }, at("async"))).rejects.toThrow("disk full");
  expect(world.done).toEqual([]);
});

test("of two runs on one thread the overtaken one starts no further effect", async () => {
  const official = new MemorySaver();
  const ledger = memory();
  const world: World = { done: [], failures: 0 };
  const pay = effect("pay", { input: z.string(), run: (what) => void world.done.push(what) });
  const gates = new Map<string, () => void>();
  const app = new StateGraph(Annotation.Root({ who: Annotation<string>() }))
    .addNode("wait", async ({ who }) => {
      await new Promise<void>((resolve) => gates.set(who, resolve));
      return {};
    })
    .addNode("pay", async ({ who }) => {
      await pay(who);
      return {};
    })
    .addEdge(START, "wait")
    .addEdge("wait", "pay")
    .compile({ checkpointer: durable(official, { ledger }) });
  const slow = app.invoke({ who: "slow" }, at("sync"));
  while (!gates.has("slow")) await new Promise((resolve) => setImmediate(resolve));
  const fast = app.invoke({ who: "fast" }, at("sync"));
  while (!gates.has("fast")) await new Promise((resolve) => setImmediate(resolve));
  gates.get("fast")?.();
  await fast;
  gates.get("slow")?.();
  await expect(slow).rejects.toMatchObject({ code: "HEAD_MOVED" });
  expect(world.done).toEqual(["fast"]);
});

test("a saver that has lost a thread which the ledger knows is refused, and does no effect again", async () => {
  const ledger = await ledgerFile();
  const world: World = { done: [], failures: 0 };
  await paying(durable(new MemorySaver(), { ledger }), world).invoke({ log: [] }, at("sync"));
  const app = paying(durable(new MemorySaver(), { ledger }), world);
  await expect(app.invoke({ log: [] }, at("sync"))).rejects.toMatchObject({ code: "UNKNOWN_CHECKPOINT" });
  expect(world.done).toEqual(["rent", "bread"]);
});

test("durable() says at start what it cannot promise", async () => {
  const warned = new Promise<Error & { code?: string }>((resolve) => process.once("warning", resolve));
  durable(new MemorySaver(), { ledger: memory() });
  const warning = await warned;
  expect(warning.code).toBe("HOLDFAST_OFFICIAL_SAVER");
  expect(warning.message).toMatch(/one lineage per thread \(S2\) and the isolation of forks \(S3\)/);
});

test("durable() refuses what is no official saver, and what is no ledger", () => {
  const ledger = memory();
  for (const [saver, options] of [
    [ledger, { ledger }],
    [{}, { ledger }],
    [new MemorySaver(), { ledger: new MemorySaver() }],
    [new MemorySaver(), { ledger: durable(new MemorySaver(), { ledger }) }],
  ] as never as [BaseCheckpointSaver, { ledger: Checkpointer }][])
    expect(() => durable(saver, options)).toThrow(/durable\(saver, \{ ledger \}\)/);
});

test("timeTravel() is refused there, with what to do instead", () => {
  const app = paying(durable(new MemorySaver(), { ledger: memory() }), { done: [], failures: 0 });
  expect(() => timeTravel(app as never)).toThrow(/holdfast adopt/);
});
