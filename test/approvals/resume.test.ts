/** Threads go on after a decision: here, or in the next process that sweeps. */

import { START, StateGraph } from "@langchain/langgraph";
import { ask, type Checkpointer, effect, sleep } from "holdfast";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import { holdAnswered } from "../../src/approvals/thread-hold.ts";
import { newStore, sharedStoreNames } from "../backends-table.ts";
import { oneNode, payment, State, serve, served, thread } from "./served.ts";

const approve = (checkpointer: Checkpointer, id: string) => checkpointer.answer(id, { type: "approve" }, { by: "ada" });

/** Resolves with the next call of `reached`. */
function gate() {
  let open = (): void => {};
  let reached = (): void => {};
  const arrived = new Promise<void>((resolve) => {
    reached = resolve;
  });
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const pass = async () => {
    reached();
    await opened;
  };
  return { pass, arrived, open: () => open() };
}

describe.each(sharedStoreNames)("two processes on one store: %s", (name) => {
  async function two(pay: (amount: number) => Promise<unknown>, now?: () => number) {
    const store = await newStore(name);
    const savers = [await store.open(now && { now }), await store.open(now && { now })] as const;
    const [first, second] = savers;
    return [serve(first, { payment: payment(first, pay) }), serve(second, { payment: payment(second, pay) })] as const;
  }

  test("what one has answered and not gone on with, the other finishes", async () => {
    const paid: number[] = [];
    const [first, second] = await two(async (amount) => paid.push(amount));
    await first.graphs.payment.invoke({ amount: 3 }, thread("t"));
    await approve(first.checkpointer, (await first.open()).id);
    expect(await second.approvals.resumeDue()).toEqual({ decided: 0, resumed: 1, failed: 0 });
    expect(paid).toEqual([3]);
    expect((await first.graphs.payment.getState(thread("t"))).next).toEqual([]);
    expect(await first.approvals.resumeDue()).toEqual({ decided: 0, resumed: 0, failed: 0 });
  });

  test("while one goes on with a thread the other leaves it, and takes it when the first has ended without finishing", async () => {
    const { pass, arrived, open } = gate();
    let runs = 0;
    const [first, second] = await two(async () => {
      runs += 1;
      if (runs === 1) await pass();
    });
    await first.graphs.payment.invoke({ amount: 3 }, thread("t"));
    const { id } = await first.open();
    await approve(first.checkpointer, id);
    const held = await holdAnswered(first.checkpointer.waitLedger, "t");
    expect(held?.map((row) => row.id)).toEqual([id]);
    expect(await second.approvals.resumeDue()).toEqual({ decided: 0, resumed: 0, failed: 0 });
    expect((await second.post(`/approvals/${id}/approve`)).body.replayed).toBe(true);
    await second.approvals.idle();
    expect(runs).toBe(0);
    await first.checkpointer.close();
    const resumed = second.approvals.resumeDue();
    await arrived;
    open();
    expect(await resumed).toEqual({ decided: 0, resumed: 1, failed: 0 });
    expect(runs).toBe(1);
  });

  test("both sweep at once over many answered threads: each thread is run by one", async () => {
    const runs = new Map<number, number>();
    const [first, second] = await two(async (amount) => runs.set(amount, (runs.get(amount) ?? 0) + 1));
    const count = 24;
    for (let n = 1; n <= count; n++) await first.graphs.payment.invoke({ amount: n }, thread(`t${n}`));
    for (const { id } of await first.checkpointer.waits({})) await approve(first.checkpointer, id);
    const results = await Promise.all([first.approvals.resumeDue(), second.approvals.resumeDue()]);
    expect(results.map(({ failed }) => failed)).toEqual([0, 0]);
    await first.approvals.resumeDue();
    expect([...runs.values()]).toEqual(Array.from({ length: count }, () => 1));
    expect([...first.failures, ...second.failures]).toEqual([]);
  });

  test("a deadline that has come is recorded once, and its thread goes on with what was stated", async () => {
    let now = Date.parse("2026-03-01T00:00:00Z");
    const store = await newStore(name);
    const savers = [await store.open({ now: () => now }), await store.open({ now: () => now })];
    const sites = savers.map((saver) =>
      serve(saver, {
        one: oneNode(saver, async () => {
          const { decision, by } = await ask("Well?", { deadline: "3 days" });
          return { log: [`${decision} by ${by}`] };
        }),
      }),
    );
    const [first] = sites;
    await first?.graphs.one.invoke({}, thread("t"));
    expect(await first?.approvals.resumeDue()).toEqual({ decided: 0, resumed: 0, failed: 0 });
    now += 3 * 86_400_000;
    const results = await Promise.all(sites.map(({ approvals }) => approvals.resumeDue()));
    expect(results.reduce((sum, { decided }) => sum + decided, 0)).toBe(1);
    await first?.approvals.resumeDue();
    expect((await first?.graphs.one.getState(thread("t")))?.values.log).toEqual(["reject by deadline"]);
  });
});

describe("a sweep", () => {
  test("a timer that has come late lets its thread go on once", async () => {
    let now = 0;
    let woken = 0;
    const { approvals, graphs } = await served(
      (saver) => ({
        one: oneNode(saver, async () => {
          await sleep("1 hour");
          woken += 1;
        }),
      }),
      { saver: { now: () => now } },
    );
    await graphs.one.invoke({}, thread("t"));
    now += 30 * 86_400_000;
    expect(await approvals.resumeDue()).toEqual({ decided: 1, resumed: 1, failed: 0 });
    expect(await approvals.resumeDue()).toEqual({ decided: 0, resumed: 0, failed: 0 });
    expect(woken).toBe(1);
  });

  test("goes through more threads than one page, and never runs more at once than it may", async () => {
    let running = 0;
    let most = 0;
    const { approvals, checkpointer, graphs, failures } = await served(
      (saver) => ({
        payment: payment(saver, async () => {
          running += 1;
          most = Math.max(most, running);
          await new Promise((resolve) => setImmediate(resolve));
          running -= 1;
        }),
      }),
      { options: { runsMax: 3 } },
    );
    for (let n = 1; n <= 130; n++) await graphs.payment.invoke({ amount: n }, thread(`t${n}`));
    for (const { id } of await checkpointer.waits({})) await approve(checkpointer, id);
    expect(await approvals.resumeDue()).toEqual({ decided: 0, resumed: 130, failed: 0 });
    expect(await checkpointer.waits({ status: ["answered", "open"] })).toEqual([]);
    expect(most).toBeLessThanOrEqual(3);
    expect(failures).toEqual([]);
  });

  test("a thread that fails, and one that hangs, stop no other; the failing one is tried again later each time", async () => {
    let now = 0;
    let tries = 0;
    const { pass, arrived, open } = gate();
    const { approvals, checkpointer, graphs, failures } = await served(
      (saver) => ({
        one: oneNode(saver, async ({ amount }) => {
          await ask("Well?");
          if (amount === 1) {
            tries += 1;
            if (tries < 4) throw new Error("the bank is down");
          }
          if (amount === 2) await pass();
          return { log: ["done"] };
        }),
      }),
      { saver: { now: () => now } },
    );
    for (let n = 1; n <= 4; n++) await graphs.one.invoke({ amount: n }, thread(`t${n}`));
    for (const { id } of await checkpointer.waits({})) await approve(checkpointer, id);
    const sweeping = approvals.resumeDue();
    await arrived;
    const done = async (n: number) => (await graphs.one.getState(thread(`t${n}`))).values.log.length > 0;
    while (!(await done(4))) await new Promise((resolve) => setImmediate(resolve));
    expect([await done(3), await done(1)]).toEqual([true, false]);
    expect(failures).toMatchObject([
      { error: { message: "the bank is down" }, context: { thread: "t1", graph: "one" } },
    ]);
    open();
    expect(await sweeping).toEqual({ decided: 0, resumed: 3, failed: 1 });
    // 5 seconds after the first failure, 10 after the second, 20 after the third.
    for (const [later, expected] of [
      [4_999, 1],
      [1, 2],
      [9_999, 2],
      [1, 3],
      [19_999, 3],
      [1, 4],
    ] as const) {
      now += later;
      await approvals.resumeDue();
      expect(tries).toBe(expected);
    }
    expect(await done(1)).toBe(true);
    now += 3_600_000;
    expect(await approvals.resumeDue()).toEqual({ decided: 0, resumed: 0, failed: 0 });
  });

  test("a clock that is set back does not keep a failed thread waiting longer", async () => {
    let now = 1_000_000_000_000;
    let fail = true;
    const { approvals, graphs, open, post } = await served(
      (saver) => ({
        payment: payment(saver, async () => {
          if (fail) throw new Error("down");
        }),
      }),
      { saver: { now: () => now } },
    );
    await graphs.payment.invoke({ amount: 1 }, thread("t"));
    await post(`/approvals/${(await open()).id}/approve`);
    await approvals.idle();
    fail = false;
    now -= 500_000_000;
    expect(await approvals.resumeDue()).toMatchObject({ resumed: 1 });
  });

  test("a thread that came to the recursion limit is not started anew by itself: its loop would have no end", async () => {
    let now = 0;
    let rounds = 0;
    const { approvals, graphs, open, post, failures } = await served(
      (saver) => ({
        loop: new StateGraph(State)
          .addNode("ask", async () => ({ log: [(await ask("Begin?")).decision] }))
          .addNode("round", async () => ({ amount: ++rounds }))
          .addEdge(START, "ask")
          .addEdge("ask", "round")
          .addEdge("round", "round")
          .compile({ checkpointer: saver }),
      }),
      { saver: { now: () => now }, options: { config: () => ({ recursionLimit: 10 }) } },
    );
    await graphs.loop.invoke({}, thread("t"));
    await post(`/approvals/${(await open()).id}/approve`);
    await approvals.idle();
    const before = rounds;
    expect(before).toBeGreaterThan(0);
    now += 100 * 3_600_000;
    await approvals.resumeDue();
    expect(rounds).toBe(before);
    expect(failures).toMatchObject([{ error: { lc_error_code: "GRAPH_RECURSION_LIMIT" } }]);
  });

  test("an effect that a person has settled lets its thread go on", async () => {
    const { approvals, checkpointer, graphs } = await served((saver) => {
      const mail = effect("mail", {
        input: z.string(),
        run: () => {
          throw new Error("socket closed");
        },
      });
      return {
        one: oneNode(saver, async () => ({ log: [String(await mail("hello"))] })),
      };
    });
    await graphs.one.invoke({}, thread("t")).catch(() => {});
    await graphs.one.invoke(null, thread("t"));
    const [record] = await checkpointer.effects({ thread: "t" });
    await checkpointer.settle(record?.key ?? "", { done: "sent" }, { by: "ada" });
    expect(await approvals.resumeDue()).toMatchObject({ resumed: 1 });
    expect((await graphs.one.getState(thread("t"))).values.log).toEqual(["sent"]);
  });
});

describe("one run at a time", () => {
  /** Two nodes that ask beside each other; the first question is approved while the task of the second one runs. */
  async function approvedMeanwhile(work: () => void) {
    const { pass, arrived, open: letGo } = gate();
    const { approvals, graphs, get, post, failures } = await served((saver) => ({
      one: new StateGraph(State)
        .addNode("first", async () => ({ log: [(await ask("First?")).decision] }))
        .addNode("second", async () => {
          const { decision } = await ask("Second?");
          await pass();
          work();
          return { log: [decision] };
        })
        .addEdge(START, "first")
        .addEdge(START, "second")
        .compile({ checkpointer: saver }),
    }));
    await graphs.one.invoke({}, thread("t"));
    const { waits } = (await get("/approvals")).body;
    const id = (question: string) => waits.find((wait) => wait.question === question)?.id;
    await post(`/approvals/${id("Second?")}/approve`);
    await arrived;
    await post(`/approvals/${id("First?")}/approve`);
    letGo();
    await approvals.idle();
    return { failures, log: (await graphs.one.getState(thread("t"))).values.log };
  }

  test("an answer that comes while its thread is running is taken up when that run has ended", async () => {
    let done = 0;
    const { failures, log } = await approvedMeanwhile(() => {
      done += 1;
    });
    expect(log.sort()).toEqual(["approve", "approve"]);
    expect(done).toBe(1);
    expect(failures).toEqual([]);
  });

  test("an answer that comes while its thread runs into a failure is taken up at once, not when that is tried again", async () => {
    let tries = 0;
    const { failures, log } = await approvedMeanwhile(() => {
      tries += 1;
      if (tries === 1) throw new Error("down");
    });
    expect(failures).toHaveLength(1);
    expect(log).toEqual(["approve", "approve"]);
  });

  test("two sets of endpoints over one checkpointer do not run a thread both", async () => {
    let runs = 0;
    const { pass, arrived, open: letGo } = gate();
    const first = await served((saver) => ({
      payment: payment(saver, async () => {
        runs += 1;
        await pass();
      }),
    }));
    const second = serve(first.checkpointer, first.graphs);
    await first.graphs.payment.invoke({ amount: 1 }, thread("t"));
    const { id } = await first.open();
    await Promise.all([first.post(`/approvals/${id}/approve`), second.post(`/approvals/${id}/approve`)]);
    await arrived;
    const sweeps = [first.approvals.resumeDue(), second.approvals.resumeDue()];
    letGo();
    await Promise.all([first.approvals.idle(), ...sweeps]);
    expect(runs).toBe(1);
  });
});

describe("graphs", () => {
  test("a thread is continued with the graph that its run named", async () => {
    const { approvals, graphs, get, post } = await served((saver) => ({
      a: oneNode(saver, async () => ({ log: [`a ${(await ask("A?")).decision}`] })),
      b: oneNode(saver, async () => ({ log: [`b ${(await ask("B?")).decision}`] })),
    }));
    await graphs.a.invoke({}, thread("of-a", { graph_id: "a" }));
    await graphs.b.invoke({}, thread("of-b", { graph_id: "b" }));
    for (const { id } of (await get("/approvals")).body.waits) await post(`/approvals/${id}/approve`);
    await approvals.idle();
    expect((await graphs.a.getState(thread("of-a"))).values.log).toEqual(["a approve"]);
    expect((await graphs.b.getState(thread("of-b"))).values.log).toEqual(["b approve"]);
  });

  test("where the graph is unknown or not served here, nothing is recorded, and a sweep leaves it to others", async () => {
    const { approvals, checkpointer, graphs, get, post, failures } = await served((saver) => ({
      a: oneNode(saver, () => ask("A?")),
      b: oneNode(saver, () => ask("B?")),
    }));
    await graphs.a.invoke({}, thread("unnamed"));
    await graphs.a.invoke({}, thread("foreign", { graph_id: "elsewhere" }));
    const { waits } = (await get("/approvals")).body;
    for (const { id } of waits) {
      const answer = await post(`/approvals/${id}/approve`);
      expect([answer.status, answer.body.error.code]).toEqual([409, "UNKNOWN_GRAPH"]);
      expect(answer.body.error.details).toMatchObject({ served: ["a", "b"] });
      expect((await get(`/approvals/${id}`)).body.status).toBe("open");
      await approve(checkpointer, id);
    }
    expect(await approvals.resumeDue()).toEqual({ decided: 0, resumed: 0, failed: 1 });
    expect(await approvals.resumeDue()).toEqual({ decided: 0, resumed: 0, failed: 0 });
    expect(failures).toMatchObject([{ context: { thread: "unnamed" } }]);
    expect((await get("/threads/unnamed/state")).status).toBe(409);
  });

  test("without any graph, decisions are only recorded", async () => {
    const store = await newStore("memory");
    const saver = await store.open();
    const graph = oneNode(saver, () => ask("A?"));
    const { approvals, open, post, failures } = serve(saver, {});
    await graph.invoke({}, thread("t"));
    const { id } = await open();
    expect((await post(`/approvals/${id}/approve`)).status).toBe(200);
    expect(await approvals.resumeDue()).toEqual({ decided: 0, resumed: 0, failed: 0 });
    expect((await saver.waits({}))[0]?.status).toBe("answered");
    expect(failures).toEqual([]);
  });

  test("a resumed run has what `config` gives it, and its own thread, graph and owner", async () => {
    const seen: unknown[] = [];
    const { approvals, graphs, open, post } = await served(
      (saver) => ({
        one: new StateGraph(State)
          .addNode("one", async (_, config) => {
            await ask("A?");
            const { thread_id, graph_id, owner, model } = config.configurable ?? {};
            seen.push({ thread_id, graph_id, owner, model });
          })
          .addEdge(START, "one")
          .compile({ checkpointer: saver }),
      }),
      {
        options: {
          config: (ref) => ({
            tags: [`of ${ref.owner}`],
            configurable: { model: "m1", owner: "mallory", thread_id: "x" },
          }),
        },
      },
    );
    await graphs.one.invoke({}, thread("t", { owner: "red", graph_id: "one" }));
    await post(`/approvals/${(await open()).id}/approve`);
    await approvals.idle();
    expect(seen).toMatchObject([{ thread_id: "t", graph_id: "one", owner: "red", model: "m1" }]);
  });
});

describe("the service", () => {
  test("start sweeps at once and again; close waits for what runs, and starts nothing more", async () => {
    const { pass, arrived, open: letGo } = gate();
    const { approvals, checkpointer, graphs, open } = await served((saver) => ({ payment: payment(saver, pass) }), {
      options: { intervalMs: 1 },
    });
    approvals.start();
    approvals.start();
    await graphs.payment.invoke({ amount: 1 }, thread("t"));
    await approve(checkpointer, (await open()).id);
    await arrived;
    await graphs.payment.invoke({ amount: 2 }, thread("later"));
    let closed = false;
    const closing = approvals.close().then(() => {
      closed = true;
    });
    await approve(checkpointer, (await open()).id);
    await new Promise((resolve) => setImmediate(resolve));
    expect(closed).toBe(false);
    letGo();
    await closing;
    approvals.start();
    expect(await approvals.resumeDue()).toEqual({ decided: 0, resumed: 0, failed: 0 });
    expect((await graphs.payment.getState(thread("t"))).next).toEqual([]);
    expect((await checkpointer.waits({ thread: "later" }))[0]?.status).toBe("answered");
    await approvals.close();
  });

  test("close is legal before start, and an onError that throws stops nothing", async () => {
    const { approvals, graphs, open, post } = await served(
      (saver) => ({
        payment: payment(saver, async () => {
          throw new Error("down");
        }),
      }),
      {
        options: {
          onError: () => {
            throw new Error("the logger is down too");
          },
        },
      },
    );
    await graphs.payment.invoke({ amount: 1 }, thread("t"));
    const told = vi.spyOn(console, "error").mockImplementation(() => {});
    onTestFinished(() => told.mockRestore());
    expect((await post(`/approvals/${(await open()).id}/approve`)).status).toBe(200);
    await approvals.close();
    await approvals.close();
    expect(told).toHaveBeenCalledOnce();
  });
});
