/** `diagnose`: every finding is made, found, mended as it says, and gone. */

import { join } from "node:path";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import Database from "better-sqlite3";
import { ask, type Checkpointer, effect, run, timeTravel } from "holdfast";
import { createRuntime, diagnose, type Finding, type FindingCode } from "holdfast/runs";
import { sqlite } from "holdfast/checkpointers/sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { RunLedger } from "../../src/runs/run-ledger.ts";
import { scratchDirectory } from "../backends/scratch.ts";
import { newStore, type Store, type StoreName } from "../backends-table.ts";
import { holdfast } from "../cli/terminal.ts";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

/** What the effects of a test do. */
interface World {
  act: (what: string) => Promise<string> | string;
}

function graphsOf(checkpointer: Checkpointer, world: World) {
  const input = z.string();
  const act = effect("act", { input, run: (what) => world.act(what), verify: () => undefined });
  const pay = effect("pay", { input, run: (what) => world.act(what) });
  const one = (node: (state: typeof State.State) => Promise<{ log: string[] }> | { log: string[] }) =>
    new StateGraph(State).addNode("node", node).addEdge(START, "node").compile({ checkpointer });
  return {
    act: one(async ({ log }) => ({ log: [await act(String(log.at(-1)))] })),
    pay: one(async ({ log }) => ({ log: [await pay(String(log.at(-1)))] })),
    ask: one(async () => ({ log: [(await ask("Pay?")).decision] })),
    stops: new StateGraph(State)
      .addNode("node", () => ({ log: ["went on"] }))
      .addEdge(START, "node")
      .compile({ checkpointer, interruptBefore: ["node"] }),
  };
}

/** One process that has the store open. */
async function opened(store: Store, world: World = { act: (what) => `did ${what}` }) {
  const checkpointer = await store.open();
  const graphs = graphsOf(checkpointer, world);
  const runtime = createRuntime({ checkpointer, graphs, onError: () => {} });
  onTestFinished(() => runtime.close());
  const ledger = new RunLedger(checkpointer);
  return {
    checkpointer,
    graphs,
    runtime,
    /** Starts a run and resolves when a worker is done with it. */
    done: async (graph: keyof typeof graphs, what: string | null, threadId = "t") => {
      const started = await runtime.start(graph, what === null ? null : { log: [what] }, { threadId });
      return runtime.wait(started.run.id);
    },
    work: () => runtime.worker({ pollMs: 20, takeoverMs: 20 }).start(),
    /** The run as a worker has it that is this process, and has come so far with it. */
    claim: async (id: string, deaths?: number) => {
      const { row, notes } = await ledger.find(id);
      const worker = checkpointer.backend.owner;
      const claimed = await ledger.move(row, {
        status: "running",
        epoch: row.epoch + 1,
        worker,
        due: undefined,
        notes: { ...notes, deaths },
      });
      if (claimed === undefined) throw new Error("somebody else has the run");
      return { claimed, ledger };
    },
  };
}

async function found(checkpointer: Checkpointer, graphs?: readonly string[]): Promise<Finding[]> {
  const findings: Finding[] = [];
  for await (const finding of diagnose(checkpointer, { graphs })) findings.push(finding);
  return findings;
}

const only = async (checkpointer: Checkpointer, code: FindingCode): Promise<Finding> => {
  const findings = await found(checkpointer);
  expect(findings.map((finding) => finding.code)).toEqual([code]);
  return findings[0] as Finding;
};

const NAMES: readonly StoreName[] = ["memory", "sqlite", "postgres"];

describe.each(NAMES)("on %s", (name) => {
  test("a store in which everything goes its way has no findings", async () => {
    const { checkpointer, runtime, done, work, graphs } = await opened(await newStore(name));
    expect(await found(checkpointer)).toEqual([]);
    const worker = work();
    await done("act", "a", "ended");
    expect((await done("ask", "b", "waits")).status).toBe("waiting");
    await worker.drain();
    await runtime.start("act", { log: ["c"] }, { threadId: "queued" });
    expect(await found(checkpointer, Object.keys(graphs))).toEqual([]);
  });

  test("a run whose worker is gone is found until another worker has taken it over", async () => {
    const store = await newStore(name);
    const gone = await opened(store);
    const { run } = await gone.runtime.start("act", { log: ["a"] }, { threadId: "t" });
    await gone.claim(run.id);
    const here = await opened(store);
    expect(await found(here.checkpointer)).toEqual([]);
    await gone.checkpointer.close();
    expect(await only(here.checkpointer, "worker-gone")).toMatchObject({ run: run.id, thread: "t" });
    here.work();
    expect((await here.runtime.wait(run.id)).status).toBe("succeeded");
    expect(await found(here.checkpointer)).toEqual([]);
  });

  test("a run at a breakpoint waits for nothing that is open, and is mended by another one in its place", async () => {
    const { checkpointer, runtime, done, work } = await opened(await newStore(name));
    work();
    const { id, status } = await done("stops", "a");
    expect(status).toBe("waiting");
    expect(await only(checkpointer, "waits-for-nothing")).toMatchObject({ run: id });
    await runtime.cancel(id, { by: "ana" });
    expect((await done("stops", null)).status).toBe("succeeded");
    expect(await found(checkpointer)).toEqual([]);
  });

  test("a run that waits though it is answered is found, and another one takes the answer", async () => {
    const { checkpointer, runtime, done, work, claim, graphs } = await opened(await newStore(name));
    const worker = work();
    const { id } = await done("ask", "a");
    await worker.drain();
    const [wait] = await checkpointer.waits({ thread: "t" });
    await checkpointer.answer(String(wait?.id), { type: "approve" }, { by: "ana" });
    // Its worker died between storing that it waits and looking whether it was answered meanwhile.
    const { claimed, ledger } = await claim(id);
    await ledger.move(claimed, { status: "waiting", worker: undefined });
    expect(await only(checkpointer, "answered-not-queued")).toMatchObject({ run: id, wait: wait?.id });
    await runtime.cancel(id, { by: "ana" });
    work();
    expect((await done("ask", null)).status).toBe("succeeded");
    expect((await graphs.ask.getState({ configurable: { thread_id: "t" } })).values).toEqual({ log: ["a", "approve"] });
    expect(await found(checkpointer)).toEqual([]);
  });

  test("a parked run names the effect to be settled, and goes on when that is done", async () => {
    const world: World = {
      act: () => {
        throw new Error("the line was cut");
      },
    };
    const { checkpointer, runtime, done, work } = await opened(await newStore(name), world);
    work();
    expect((await done("pay", "a")).status).toBe("failed");
    const { id, status } = await done("pay", null);
    expect(status).toBe("parked");
    const finding = await only(checkpointer, "settle");
    expect(finding).toMatchObject({
      run: id,
      mend: expect.stringContaining(`checkpointer.settle("${finding.effect}"`),
    });
    await checkpointer.settle(String(finding.effect), { done: "paid" }, { by: "ana" });
    const [next] = await checkpointer.waits({ thread: "t", status: ["open"] });
    expect(next).toBeUndefined();
    for (let record = await runtime.get(id); record.status !== "succeeded"; record = await runtime.get(id)) {
      expect(["queued", "running"]).toContain(record.status);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await found(checkpointer)).toEqual([]);
  });

  test("a run that its workers died with is found, and begun again or gone on with as its finding says", async () => {
    const store = await newStore(name);
    const gone = await opened(store);
    const { run } = await gone.runtime.start("act", { log: ["a"] }, { threadId: "t" });
    await gone.claim(run.id, 2);
    await gone.checkpointer.close();
    const here = await opened(store);
    here.work();
    expect((await here.runtime.wait(run.id)).status).toBe("parked");
    const finding = await only(here.checkpointer, "crash-loop");
    expect(finding.text).toContain("3 workers in a row");
    expect(finding.mend).toContain(`runtime.start("act", (await runtime.get("${run.id}")).input, `);
    await here.runtime.cancel(run.id, { by: "ana" });
    const { input } = await here.runtime.get(run.id);
    const again = await here.runtime.start("act", input, { threadId: "t" });
    expect((await here.runtime.wait(again.run.id)).status).toBe("succeeded");
    expect(await found(here.checkpointer)).toEqual([]);
  });

  test("a run of a graph that is not served is found", async () => {
    const { checkpointer, runtime } = await opened(await newStore(name));
    const { run } = await runtime.start("act", { log: ["a"] }, { threadId: "t" });
    expect(await found(checkpointer, ["act", "ask"])).toEqual([]);
    expect(await found(checkpointer, ["ask"])).toMatchObject([{ code: "graph-missing", run: run.id }]);
    await runtime.cancel(run.id, { by: "ana" });
    expect(await found(checkpointer, ["ask"])).toEqual([]);
  });

  /** An effect of thread t that was begun in a process which is gone. */
  async function leftInDoubt(store: Store): Promise<void> {
    let begun = (): void => {};
    const inside = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const act = () => {
      begun();
      return new Promise<string>(() => {});
    };
    const gone = await opened(store, { act });
    const config = { configurable: { thread_id: "t", graph_id: "act" }, durability: "sync" as const };
    void gone.graphs.act.invoke({ log: ["a"] }, config).catch(() => {});
    await inside;
    await gone.checkpointer.backend.close();
  }

  test("an effect in doubt that no run will look at is found, and running the thread decides it", async () => {
    const store = await newStore(name);
    await leftInDoubt(store);
    const { checkpointer, graphs } = await opened(store);
    const finding = await only(checkpointer, "effect-in-doubt");
    expect(finding).toMatchObject({ thread: "t", mend: expect.stringContaining("run(app, null, ") });
    await run(graphs.act, null, { configurable: { thread_id: "t" } });
    expect(await found(checkpointer)).toEqual([]);
  });

  test("an effect in doubt that the thread has gone on without is settled", async () => {
    const store = await newStore(name);
    await leftInDoubt(store);
    const { checkpointer, graphs } = await opened(store);
    await graphs.stops.invoke({ log: ["b"] }, { configurable: { thread_id: "t" } });
    const finding = await only(checkpointer, "effect-in-doubt");
    expect(finding.mend).toContain("Settle it");
    await checkpointer.settle(String(finding.effect), { giveUp: "nobody knows" }, { by: "ana" });
    expect(await found(checkpointer)).toEqual([]);
  });

  test("a question of a thread without a run is found where runs are used, and is gone with a run that waits", async () => {
    const { checkpointer, graphs, done, work } = await opened(await newStore(name));
    await graphs.ask.invoke({ log: ["a"] }, { configurable: { thread_id: "t", graph_id: "ask" } });
    expect(await found(checkpointer)).toEqual([]);
    work();
    await done("act", "a", "other");
    const finding = await only(checkpointer, "question-without-run");
    expect(finding).toMatchObject({ thread: "t", mend: expect.stringContaining('runtime.start("ask", null, ') });
    expect((await done("ask", null)).status).toBe("waiting");
    expect(await found(checkpointer)).toEqual([]);
  });

  test("more than a page of runs, waits and threads is looked through to the end", async () => {
    const { checkpointer, runtime, graphs } = await opened(await newStore(name));
    const threads = Array.from({ length: 120 }, (_, i) => `t${i}`);
    for (const threadId of threads) {
      await runtime.start("act", { log: ["a"] }, { threadId });
      await graphs.ask.invoke({ log: ["a"] }, { configurable: { thread_id: `asks ${threadId}` } });
    }
    const findings = await found(checkpointer, []);
    const threadsOf = (code: FindingCode) => new Set(findings.filter((f) => f.code === code).map((f) => f.thread));
    expect(threadsOf("graph-missing")).toEqual(new Set(threads));
    expect(threadsOf("question-without-run")).toEqual(new Set(threads.map((thread) => `asks ${thread}`)));
    expect(findings).toHaveLength(240);
  });
});

describe("holdfast doctor", () => {
  async function damaged() {
    const file = join(await scratchDirectory(), "store.db");
    const checkpointer = await sqlite(file, { synchronous: "OFF" });
    onTestFinished(() => checkpointer.close());
    const { act } = graphsOf(checkpointer, { act: (what) => (what === "long" ? what.repeat(10_000) : what) });
    const config = { configurable: { thread_id: "t" } };
    await act.invoke({ log: ["short"] }, config);
    const readable = String((await act.getState(config)).config.configurable?.["checkpoint_id"]);
    await act.invoke({ log: ["long"] }, config);
    return { file, act, readable };
  }

  test("names a head that cannot be read, with exit code 1, and finds nothing once the thread has gone on", async () => {
    const { file, act, readable } = await damaged();
    const args = ["doctor", "--url", `sqlite:${file}`];
    expect(await holdfast(args)).toEqual({ code: 0, stdout: "Nothing found.\n", stderr: "" });
    const database = new Database(file);
    database.exec("delete from holdfast_blobs");
    database.close();
    const text = await holdfast(args);
    expect({ code: text.code, stderr: text.stderr }).toEqual({ code: 1, stderr: "" });
    expect(text.stdout).toMatch(
      /^unreadable: The newest checkpoint of thread "t", .*\n {2}Restore a backup, or go back .*\n\n1 finding\.\n$/,
    );
    const json = await holdfast([...args, "--json"]);
    expect(
      json.stdout
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line)),
    ).toMatchObject([{ code: "unreadable", thread: "t" }]);
    await timeTravel(act).rollbackTo("t", readable);
    expect(await holdfast(args)).toMatchObject({ code: 0 });
  });

  test("changes nothing: a store that is not there is not made", async () => {
    const url = `sqlite:${join(await scratchDirectory(), "absent.db")}`;
    for (let time = 0; time < 2; time += 1) {
      const { code, stdout, stderr } = await holdfast(["doctor", "--url", url]);
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(stderr).toMatch(/^error CANNOT_OPEN .*there is no such file/);
    }
  });

  test.each([["memory:"], ["sqllite:a.db"]])("of %s is a wrong command line", async (url) => {
    expect(await holdfast(["doctor", "--url", url])).toMatchObject({ code: 2, stdout: "" });
  });
});
