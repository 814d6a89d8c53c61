/** Guarantees of the endpoints that are checked on mutants too: each on a library of its own, over one memory. */

import { Annotation, START, StateGraph } from "@langchain/langgraph";
import type { Checkpointer } from "holdfast";
import type { Approvals } from "holdfast/approvals";
import { expect } from "vitest";
import type { Library } from "../mutants/mutate.ts";

export interface ApprovalsGuarantee {
  readonly name: string;
  readonly check: (library: Library) => Promise<void>;
}

const local = { incoming: { socket: { remoteAddress: "127.0.0.1" } } };

/** As many processes over one memory as asked for, each with the endpoints and a graph that asks and counts. */
function processes({ holdfast, memory, approvals }: Library, count: number, options: object = {}) {
  const state = new memory.MemoryState();
  const ran: string[] = [];
  const made = Array.from({ length: count }, () => {
    const checkpointer = new holdfast.Checkpointer(memory.memoryBackend({ state }));
    const graph = new StateGraph(Annotation.Root({ n: Annotation<number>() }))
      .addNode("one", async (_, config) => {
        await holdfast.ask("Well?", { details: { n: 1 } });
        ran.push(String(config.configurable?.["thread_id"]));
        await new Promise((resolve) => setImmediate(resolve));
      })
      .addEdge(START, "one")
      .compile({ checkpointer });
    const site = approvals.createApprovals({ checkpointer, graphs: { graph }, onError: () => {}, ...options });
    return { checkpointer, graph, site };
  });
  return { made: made as [(typeof made)[number], ...typeof made], ran };
}

async function send(site: Approvals, path: string, body?: unknown, headers = {}, connection: unknown = local) {
  const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  const request = new Request(`http://localhost${path}`, {
    ...init,
    headers: { "content-type": "application/json", ...headers },
  });
  return (await site.fetch(request, connection)).status;
}

const onlyWait = async (checkpointer: Checkpointer) => {
  const [wait] = await checkpointer.waits({});
  if (wait === undefined) throw new Error("Nothing waits.");
  return wait;
};

export const oneProcessGoesOn: ApprovalsGuarantee = {
  name: "of two processes that sweep at once, one goes on with each thread",
  check: async (library) => {
    const { made, ran } = processes(library, 2);
    const [{ checkpointer, graph }] = made;
    const threads = Array.from({ length: 8 }, (_, i) => `t${i}`);
    for (const thread_id of threads) await graph.invoke({ n: 1 }, { configurable: { thread_id } });
    for (const { id } of await checkpointer.waits({}))
      await checkpointer.answer(id, { type: "approve" }, { by: "ada" });
    await Promise.all(made.map(({ site }) => site.resumeDue()));
    expect(ran.sort()).toEqual(threads);
  },
};

export const strangersAreRefused: ApprovalsGuarantee = {
  name: "without authenticate, nobody is served whose address is not known to be this machine's",
  check: async (library) => {
    const [{ site }] = processes(library, 1).made;
    const addresses = ["192.0.2.1", "::ffff:192.0.2.1", "", undefined];
    const connections = addresses.map((remoteAddress) => ({ incoming: { socket: { remoteAddress } } }));
    for (const connection of [...connections, {}, null])
      expect(await send(site, "/approvals", undefined, {}, connection)).toBe(403);
    for (const headers of [
      { host: "evil.example" },
      { origin: "http://evil.example" },
      { "x-forwarded-for": "127.0.0.1" },
    ])
      expect(await send(site, "/approvals", undefined, headers)).toBe(403);
    expect(await send(site, "/approvals")).toBe(200);
  },
};

export const ownersAreApart: ApprovalsGuarantee = {
  name: "an owner's waits and threads are not there for another",
  check: async (library) => {
    const authenticate = ({ headers }: Request) => ({ user: "u", owner: headers.get("x-owner") ?? undefined });
    const [{ site, graph, checkpointer }] = processes(library, 1, { authenticate }).made;
    await graph.invoke({ n: 1 }, { configurable: { thread_id: "t", owner: "red" } });
    const { id } = await onlyWait(checkpointer);
    const blue = { "x-owner": "blue" };
    expect(await send(site, `/approvals/${id}`, undefined, blue)).toBe(404);
    expect(await send(site, `/approvals/${id}/approve`, {}, blue)).toBe(404);
    expect(await send(site, "/threads/t/state", undefined, blue)).toBe(404);
    expect(await send(site, "/threads/t/runs", { assistant_id: "graph", input: null }, blue)).toBe(404);
    expect((await onlyWait(checkpointer)).status).toBe("open");
    expect(await send(site, "/threads/t/state", undefined, { "x-owner": "red" })).toBe(200);
  },
};

export const decidedAsSeen: ApprovalsGuarantee = {
  name: "a decision about something else than what is shown is not recorded, and who decides is who authentication says",
  check: async (library) => {
    const [{ site, graph, checkpointer }] = processes(library, 1, { authenticate: () => ({ user: "eve" }) }).made;
    await graph.invoke({ n: 1 }, { configurable: { thread_id: "t" } });
    const { id, digest } = await onlyWait(checkpointer);
    expect(await send(site, `/approvals/${id}/approve`, { digest: "other" })).toBe(409);
    expect(await send(site, `/approvals/${id}/approve`, { digest, by: "boss" })).toBe(400);
    expect(await send(site, `/approvals/${id}/approve`, { digest })).toBe(200);
    expect((await onlyWait(checkpointer)).decision?.by).toBe("eve");
    await site.close();
  },
};

export const pausedIsKept: ApprovalsGuarantee = {
  name: "new input over HTTP does not drop what a thread waits for",
  check: async (library) => {
    const [{ site, graph, checkpointer }] = processes(library, 1).made;
    await graph.invoke({ n: 1 }, { configurable: { thread_id: "t" } });
    expect(await send(site, "/threads/t/runs", { assistant_id: "graph", input: { n: 2 } })).toBe(409);
    const config = { configurable: { on_paused: "supersede" } };
    expect(await send(site, "/threads/t/runs", { assistant_id: "graph", input: { n: 2 }, config })).toBe(422);
    await site.close();
    expect((await onlyWait(checkpointer)).status).toBe("open");
  },
};
