/** Reading waits and deciding them over HTTP. */

import { interrupt } from "@langchain/langgraph";
import { ask, type Checkpointer, waitFor } from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { newStore, storeNames } from "../backends-table.ts";
import { oneNode, payment, type Served, serve, served, thread } from "./served.ts";

describe.each(storeNames)("on %s", (store) => {
  test("an approved question lets its thread go on in this process, with what was approved", async () => {
    const paid: number[] = [];
    const { approvals, checkpointer, failures, graphs, open, post, get } = await served(
      (saver) => ({ payment: payment(saver, async (amount) => paid.push(amount)) }),
      { store },
    );
    await graphs.payment.invoke({ amount: 40 }, thread("t"));
    const wait = await open();
    expect(wait).toMatchObject({
      thread: "t",
      kind: "question",
      question: "Pay 40?",
      details: { amount: 40 },
      allow: ["approve", "edit", "reject", "respond"],
      status: "open",
      decision: null,
    });
    const answer = await post(`/approvals/${wait.id}/approve`, { comment: "fine", digest: wait.digest });
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({
      replayed: false,
      decision: { type: "approve", by: "local", via: "http", comment: "fine", digest: wait.digest },
      wait: { id: wait.id },
    });
    await approvals.idle();
    expect(paid).toEqual([40]);
    expect((await graphs.payment.getState(thread("t"))).values.log).toEqual(["approve local fine", "paid 40"]);
    expect((await get("/approvals")).body.waits).toEqual([]);
    expect((await get(`/approvals/${wait.id}`)).body).toMatchObject({ status: "consumed", decision: { by: "local" } });
    expect((await checkpointer.verifyDecisions()).broken).toEqual([]);
    expect(failures).toEqual([]);
  });

  test("the same decision again is answered with the recorded one, another one refused with it", async () => {
    const { approvals, graphs, open, post } = await served((saver) => ({ payment: payment(saver) }), { store });
    await graphs.payment.invoke({ amount: 40 }, thread("t"));
    const { id } = await open();
    const first = await post(`/approvals/${id}/edit`, { value: { amount: 10 } });
    await approvals.idle();
    expect(first.body.replayed).toBe(false);
    const again = await post(`/approvals/${id}/edit`, { value: { amount: 10 }, comment: "twice" });
    expect([again.status, again.body.replayed, again.body.decision]).toEqual([200, true, first.body.decision]);
    for (const [action, body] of [
      ["edit", { value: { amount: 11 } }],
      ["approve", {}],
      ["reject", {}],
    ] as const) {
      const other = await post(`/approvals/${id}/${action}`, body);
      expect([other.status, other.body.error.code]).toEqual([409, "ALREADY_ANSWERED"]);
      expect(other.body.error.details["decision"]).toEqual(first.body.decision);
    }
  });

  test("pages hold every wait once, oldest first, whatever their size", async () => {
    const { graphs, get } = await served((saver) => ({ payment: payment(saver) }), { store });
    for (let n = 1; n <= 7; n++) await graphs.payment.invoke({ amount: n }, thread(`t${n}`));
    for (const limit of [1, 3, 7, 100]) {
      const seen: string[] = [];
      let cursor = "";
      for (let pages = 0; pages < 10; pages++) {
        const { body } = await get(`/approvals?limit=${limit}${cursor}`);
        seen.push(...body.waits.map(({ question }) => question));
        if (body.next === null) break;
        expect(body.waits).toHaveLength(limit);
        cursor = `&cursor=${body.next}`;
      }
      expect(seen).toEqual([1, 2, 3, 4, 5, 6, 7].map((n) => `Pay ${n}?`));
    }
  });

  test("everything that is shown survives a store that is closed and opened again", async () => {
    const details = { lines: [{ text: "a\u0000 “b” 😀", at: new Date(0) }], map: new Map([["k", [1, null]]]) };
    const graphs = (saver: Checkpointer) => ({
      one: oneNode(saver, () => ask("Nested?", { details, answer: z.object({ ok: z.boolean() }), deadline: "3 days" })),
    });
    const kept = await newStore(store);
    const first = await kept.open();
    const before = serve(first, graphs(first));
    await before.graphs.one.invoke({}, thread("t"));
    const shown = await before.open();
    expect(shown.details).toEqual({
      lines: [{ text: "a\u0000 “b” 😀", at: "1970-01-01T00:00:00.000Z" }],
      map: { k: [1, null] },
    });
    expect(shown.schema).toMatchObject({ type: "object", required: ["ok"] });
    await first.close();
    const second = await kept.open();
    expect(await serve(second, graphs(second)).open()).toEqual(shown);
  });
});

async function waiting(count = 1): Promise<Served<{ payment: ReturnType<typeof payment> }>> {
  const given = await served((saver) => ({ payment: payment(saver) }));
  for (let n = 1; n <= count; n++) await given.graphs.payment.invoke({ amount: n }, thread(`t${n}`));
  return given;
}

/** More rows like the only one: where many are needed, and no thread behind them. */
async function copyWait({ waitLedger }: Checkpointer, count: number): Promise<void> {
  const [row] = await waitLedger.rows({});
  if (row === undefined) throw new Error("There is no wait to copy.");
  const { thread, openedAt } = row;
  const copies = Array.from({ length: count }, (_, i) => ({
    ...row,
    id: i.toString(16).padStart(32, "0"),
    openedAt: openedAt + i,
  }));
  await waitLedger.commit(copies.map((copy) => ({ kind: "wait", thread, era: 0, row: copy, expect: null }) as const));
}

describe("deciding", () => {
  test("an id that nothing has is answered with 404, and the thread stays where it was", async () => {
    const { graphs, get, post } = await waiting();
    const before = await graphs.payment.getState(thread("t1"));
    const unknown = "0123456789abcdef0123456789abcdef";
    for (const id of [unknown, "ticket-17", "a%2Fb", "__proto__"]) {
      const answer = await post(`/approvals/${id}/approve`);
      expect([answer.status, answer.body.error.code]).toEqual([404, "UNKNOWN_WAIT"]);
      expect((await get(`/approvals/${id}`)).status).toBe(404);
      expect((await get(`/approvals/${id}/decisions`)).status).toBe(404);
    }
    expect((await graphs.payment.getState(thread("t1"))).config).toEqual(before.config);
    expect((await get("/approvals")).body.waits).toHaveLength(1);
  });

  test("a decision on something else than what is shown now is refused, with both digests", async () => {
    const { open, post, get } = await waiting();
    const { id, digest } = await open();
    const answer = await post(`/approvals/${id}/approve`, { digest: "0".repeat(32) });
    expect([answer.status, answer.body.error.code]).toEqual([409, "WAIT_CHANGED"]);
    expect(answer.body.error.details).toMatchObject({ given: "0".repeat(32), digest });
    expect((await get(`/approvals/${id}`)).body.status).toBe("open");
  });

  test("an answer that does not fit the question is refused with 422, and nothing is recorded", async () => {
    const { graphs, open, post, get } = await served((saver) => ({
      one: oneNode(saver, async () => {
        await ask("How many?", { answer: z.object({ n: z.number().int() }) });
      }),
    }));
    await graphs.one.invoke({}, thread("t"));
    const { id, allow } = await open();
    expect(allow).toEqual(["respond", "reject"]);
    for (const [action, body] of [
      ["approve", {}],
      ["edit", { value: { n: 1 } }],
      ["respond", { value: { n: "one" } }],
      ["respond", { value: null }],
    ] as const) {
      const answer = await post(`/approvals/${id}/${action}`, body);
      expect([answer.status, answer.body.error.code]).toEqual([422, "INVALID_ANSWER"]);
    }
    const wait = (await get(`/approvals/${id}`)).body;
    expect([wait.status, wait.decision]).toEqual(["open", null]);
  });

  test("the approver is who authentication says, and a body that names one is refused", async () => {
    const { graphs, get, post } = await served((saver) => ({ payment: payment(saver) }), {
      options: { authenticate: ({ headers }) => ({ user: headers.get("authorization") ?? "nobody" }) },
    });
    await graphs.payment.invoke({ amount: 1 }, thread("t"));
    const eve = { headers: { authorization: "eve" } };
    const [wait] = (await get("/approvals", eve)).body.waits;
    for (const name of ["by", "user", "approver", "via"]) {
      const refused = await post(`/approvals/${wait?.id}/approve`, { [name]: "boss" }, eve);
      expect([refused.status, refused.body.error.code]).toEqual([400, "INVALID_REQUEST"]);
      expect(JSON.stringify(refused.body.error.details)).toContain(name);
    }
    const answer = await post(`/approvals/${wait?.id}/approve`, {}, eve);
    expect(answer.body.decision.by).toBe("eve");
  });

  test("what was approved is what is executed: a change of the pending state afterwards stops the thread", async () => {
    let details = { amount: 40 };
    let executed: unknown;
    const { approvals, graphs, open, post, failures } = await served((saver) => ({
      one: oneNode(saver, async () => {
        executed = (await ask("Pay?", { details })).value;
      }),
    }));
    await graphs.one.invoke({}, thread("t"));
    const { id } = await open();
    details = { amount: 4000 };
    expect((await post(`/approvals/${id}/approve`)).status).toBe(200);
    await approvals.idle();
    expect(executed).toBeUndefined();
    expect(failures).toMatchObject([{ error: { code: "QUESTION_CHANGED" }, context: { thread: "t", graph: "one" } }]);
  });

  test("an event and a timer cannot be approved, and the answer says what to do", async () => {
    const { graphs, open, post } = await served((saver) => ({
      one: oneNode(saver, () => waitFor("paid")),
    }));
    await graphs.one.invoke({}, thread("t"));
    const answer = await post(`/approvals/${(await open()).id}/approve`);
    expect([answer.status, answer.body.error.code]).toEqual([422, "INVALID_ANSWER"]);
    expect(answer.body.error.message).toContain("deliver");
  });
});

describe("events", () => {
  test("an event goes to the threads that wait for it, and they go on", async () => {
    const { approvals, graphs, get, post } = await served((saver) => ({
      one: oneNode(saver, async () => {
        const { value, by } = await waitFor<{ id: number }>("paid");
        return { log: [`${value?.id} ${by}`] };
      }),
    }));
    for (const name of ["a", "b", "c"]) await graphs.one.invoke({}, thread(name));
    const single = await post("/events/paid", { value: { id: 1 }, thread: "b" });
    expect(single.status).toBe(200);
    expect(single.body.waits.map((wait) => wait.thread)).toEqual(["b"]);
    const all = await post("/events/paid", { value: { id: 2 } });
    expect(all.body.waits.map((wait) => wait.thread).sort()).toEqual(["a", "c"]);
    await approvals.idle();
    const logs = await Promise.all(
      ["a", "b", "c"].map(async (name) => (await graphs.one.getState(thread(name))).values.log),
    );
    expect(logs).toEqual([["2 local"], ["1 local"], ["2 local"]]);
    const late = await post("/events/paid", { value: { id: 3 } });
    expect([late.status, late.body.error.code]).toEqual([404, "UNKNOWN_WAIT"]);
    expect((await get("/approvals")).body.waits).toEqual([]);
  });
});

describe("the list", () => {
  test("filters by status, kind, thread, graph and assignee", async () => {
    const { approvals, graphs, get, post } = await served((saver) => ({
      asks: oneNode(saver, () => ask("Ready?", { assignee: "ada" })),
      pauses: oneNode(saver, () => void interrupt("plain?")),
    }));
    await graphs.asks.invoke({}, thread("a", { graph_id: "asks" }));
    await graphs.asks.invoke({}, thread("b", { graph_id: "asks" }));
    await graphs.pauses.invoke({}, thread("c", { graph_id: "pauses" }));
    const threads = async (query: string) => (await get(`/approvals${query}`)).body.waits.map((wait) => wait.thread);
    expect(await threads("")).toEqual(["a", "b", "c"]);
    expect(await threads("?graph=asks")).toEqual(["a", "b"]);
    expect(await threads("?kind=interrupt")).toEqual(["c"]);
    expect(await threads("?kind=interrupt&kind=question")).toEqual(["a", "b", "c"]);
    expect(await threads("?assignee=ada&thread=b")).toEqual(["b"]);
    expect(await threads("?assignee=bob")).toEqual([]);
    const [first] = (await get("/approvals?thread=a")).body.waits;
    await post(`/approvals/${first?.id}/approve`);
    await approvals.idle();
    expect(await threads("")).toEqual(["b", "c"]);
    expect(await threads("?status=consumed")).toEqual(["a"]);
    expect(await threads("?status=open&status=consumed")).toEqual(["a", "b", "c"]);
  });

  test("filters by age, by due time and by what is overdue, also where an overdue question stays open", async () => {
    let now = Date.parse("2026-03-01T00:00:00Z");
    const hour = 3_600_000;
    const { graphs, get } = await served(
      (saver) => ({
        holds: oneNode(saver, () => ask("Held?", { deadline: "1 hour", onDeadline: "hold" })),
        rejects: oneNode(saver, () => ask("Rejected?", { deadline: "3 hours" })),
        open: oneNode(saver, () => ask("Whenever?")),
      }),
      { saver: { now: () => now } },
    );
    for (const name of ["holds", "rejects", "open"] as const) {
      await graphs[name].invoke({}, thread(name, { graph_id: name }));
      now += hour;
    }
    const threads = async (query: string) => (await get(`/approvals?${query}`)).body.waits.map((wait) => wait.thread);
    expect(await threads("age=2%20hours")).toEqual(["holds", "rejects"]);
    expect(await threads("age=1.5h&limit=1")).toEqual(["holds"]);
    expect(await threads("age=4h")).toEqual([]);
    expect(await threads("overdue=true")).toEqual(["holds"]);
    expect(await threads("overdue=false")).toEqual(["rejects", "open"]);
    expect(await threads("dueBefore=2026-03-01T04:00:00Z")).toEqual(["rejects"]);
    expect(await threads("dueBefore=2026-03-01T03:00:00Z")).toEqual([]);
    now += 2 * hour;
    expect(await threads("overdue=1")).toEqual(["holds", "rejects"]);
  });

  test("a filter that the store cannot apply makes no page longer than its limit, and leaves nothing out", async () => {
    let now = Date.parse("2026-03-01T00:00:00Z");
    const { graphs, get } = await served(
      (saver) => ({
        one: oneNode(saver, ({ amount }) =>
          ask(`Number ${amount}?`, { deadline: amount === 1 ? "9 hours" : "1 hour", onDeadline: "hold" }),
        ),
      }),
      { saver: { now: () => now } },
    );
    for (let amount = 1; amount <= 6; amount++) {
      now += 1;
      await graphs.one.invoke({ amount }, thread(`t${amount}`));
    }
    now += 2 * 3_600_000;
    const pages: string[][] = [];
    let cursor = "";
    do {
      const { waits, next } = (await get(`/approvals?overdue=true&limit=2${cursor}`)).body;
      pages.push(waits.map(({ thread: name }) => name));
      cursor = next === null ? "" : `&cursor=${next}`;
    } while (cursor !== "");
    expect(pages.every((page) => page.length <= 2)).toBe(true);
    expect(pages.flat()).toEqual(["t2", "t3", "t4", "t5", "t6"]);
  });

  test("a page that has looked through many waits ends early, and the cursor goes on behind them", async () => {
    const { checkpointer, get } = await waiting(1);
    await copyWait(checkpointer, 1004);
    const first = await get("/approvals?overdue=true&limit=100");
    expect(first.body.waits).toEqual([]);
    expect(first.body.next).not.toBeNull();
    const second = await get(`/approvals?overdue=true&limit=100&cursor=${first.body.next}`);
    expect([second.body.waits, second.body.next]).toEqual([[], null]);
  });

  test.each([
    "limit=0",
    "limit=101",
    "limit=ten",
    "status=done",
    "kind=",
    "age=long",
    "dueBefore=tomorrow",
    "overdue=maybe",
    "cursor=abc",
    "cursor=WzEsMl0",
    "unknown=1",
    "limit=1&limit=2",
  ])("refuses %s, and names the field", async (query) => {
    const { get } = await waiting(0);
    const { status, body } = await get(`/approvals?${query}`);
    expect([status, body.error.code]).toEqual([400, "INVALID_REQUEST"]);
    expect(JSON.stringify(body.error)).toContain(query.split("=", 1)[0]);
  });

  test("a wait that cannot be read hides no other, and its failure is told", async () => {
    const { checkpointer, failures, get } = await waiting(3);
    const { waitLedger } = checkpointer;
    const { read } = waitLedger;
    waitLedger.read = async (row) => {
      if (row.thread === "t2") throw new Error("damaged");
      return read.call(waitLedger, row);
    };
    const { waits } = (await get("/approvals")).body;
    expect(waits.map(({ question }) => question)).toEqual(["Pay 1?", "Pay 2?", "Pay 3?"]);
    expect(failures).toMatchObject([{ context: { thread: "t2" } }]);
    expect(waits.map(({ problem }) => problem?.includes(failures[0]?.context.id ?? "?") ?? false)).toEqual([
      false,
      true,
      false,
    ]);
  });
});

describe("questions in many places", () => {
  test("a question three subgraphs deep is one entry, with the way to it", async () => {
    const { graphs, open } = await served((saver) => {
      const inner = oneNode(undefined as never, () => ask("Deep?"));
      const middle = oneNode(undefined as never, (state) => inner.invoke(state as never));
      return { outer: oneNode(saver, (state) => middle.invoke(state as never)) };
    });
    await graphs.outer.invoke({}, thread("t"));
    const wait = await open();
    expect(wait).toMatchObject({ question: "Deep?", path: ["one", "one"] });
  });

  test("five questions of one thread are five entries, and each gets its own answer in any order", async () => {
    const { approvals, graphs, get, post, failures } = await served((saver) => ({
      one: oneNode(saver, async () => {
        const answers = await Promise.all([1, 2, 3, 4, 5].map((n) => ask<number>(`Question ${n}?`)));
        return { log: answers.map(({ value }) => String(value)) };
      }),
    }));
    await graphs.one.invoke({}, thread("t"));
    const { waits } = (await get("/approvals")).body;
    expect(waits.map(({ question }) => question).sort()).toEqual([1, 2, 3, 4, 5].map((n) => `Question ${n}?`));
    for (const { id, question } of [...waits].reverse()) {
      expect((await post(`/approvals/${id}/respond`, { value: `to ${question}` })).status).toBe(200);
      await approvals.idle();
    }
    expect((await graphs.one.getState(thread("t"))).values.log).toEqual(
      [1, 2, 3, 4, 5].map((n) => `to Question ${n}?`),
    );
    expect(failures).toEqual([]);
  });
});

describe("the record", () => {
  test("the chain of decisions of a wait's thread can be read, and an edited decision is named", async () => {
    const { approvals, checkpointer, graphs, open, post, get } = await waiting();
    const { id } = await open();
    await post(`/approvals/${id}/reject`, { comment: "no" });
    await approvals.idle();
    const chain = await get(`/approvals/${id}/decisions`);
    expect(chain.body).toMatchObject({
      decisions: [{ seq: 1, type: "reject", comment: "no" }],
      checked: 1,
      broken: [],
    });
    const { decisions } = checkpointer.backend;
    checkpointer.backend.decisions = async function* (query) {
      for await (const row of decisions.call(checkpointer.backend, query))
        yield { ...row, body: row.body.replace('"no"', '"ok"') };
    };
    const edited = await get(`/approvals/${id}/decisions`);
    expect(edited.body.broken).toMatchObject([{ seq: 1, wait: id }]);
    expect((await graphs.payment.getState(thread("t1"))).next).toEqual([]);
  });
});
