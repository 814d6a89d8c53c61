/** Who gets in, what is looked at before anything else, and what never leaves. */

import { serve as listen } from "@hono/node-server";
import { Hono } from "hono";
import { once } from "node:events";
import { networkInterfaces } from "node:os";
import type { AddressInfo } from "node:net";
import { createServer, request as httpRequest } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { createApprovals } from "holdfast/approvals";
import { isHoldfastError, timeTravel, waitFor } from "holdfast";
import { memory } from "holdfast/checkpointers/memory";
import { describe, expect, onTestFinished, test } from "vitest";
import { local, oneNode, payment, served, thread } from "./served.ts";

const at = (remoteAddress: string | undefined) => ({ incoming: { socket: { remoteAddress } } });

describe("without authenticate", () => {
  test.each(["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"])(
    "a program on this machine is served: %s",
    async (address) => {
      const { get } = await served((saver) => ({ payment: payment(saver) }));
      expect((await get("/approvals", { connection: at(address) })).status).toBe(200);
    },
  );

  test.each([
    ["another machine", at("192.168.1.7")],
    ["another machine, by IPv6", at("::ffff:10.0.0.1")],
    ["an address that is none", at("localhost")],
    ["a connection whose address is not known", at(undefined)],
    ["a server that tells nothing", {}],
    ["no server", undefined],
    ["something else", { incoming: "127.0.0.1" }],
  ])("nobody else is: %s", async (_, connection) => {
    const { get, post } = await served((saver) => ({ payment: payment(saver) }));
    const everything = [
      ...[
        "/",
        "/ok",
        "/openapi.json",
        "/approvals",
        "/approvals/1",
        "/approvals/1/decisions",
        "/threads/t/state",
        "/x",
      ].map((path) => get(path, { connection })),
      ...["/approvals/1/approve", "/events/e", "/threads/t/runs"].map((path) => post(path, {}, { connection })),
    ];
    for (const answer of await Promise.all(everything))
      expect([answer.status, answer.body.error?.code]).toEqual([403, "FORBIDDEN"]);
  });

  test.each([
    ["a Host of a name that was rebound to this machine", { host: "evil.example:3000" }],
    ["a Host that is not that of the address", { host: "localhost:9999" }],
    ["a proxy", { "x-forwarded-for": "127.0.0.1" }],
    ["a proxy that names itself", { via: "1.1 gateway" }],
    ["a proxy with the standard's header", { forwarded: "for=127.0.0.1" }],
    ["a page of another site", { origin: "https://evil.example" }],
    ["a page of another port", { origin: "http://localhost:5173" }],
    ["a page without an origin", { origin: "null" }],
    ["a page of another site that hides its origin", { "sec-fetch-site": "cross-site" }],
  ])("a local connection is refused with %s", async (_, headers) => {
    const { graphs, open, post, get } = await served((saver) => ({ payment: payment(saver) }));
    await graphs.payment.invoke({ amount: 1 }, thread("t"));
    const { id } = await open();
    expect((await post(`/approvals/${id}/approve`, {}, { headers })).status).toBe(403);
    expect((await get("/approvals", { headers })).status).toBe(403);
    expect((await open()).id).toBe(id);
  });

  test("the page's own requests are served", async () => {
    const { get } = await served((saver) => ({ payment: payment(saver) }));
    const headers = { host: "localhost:3000", origin: "http://localhost:3000", "sec-fetch-site": "same-origin" };
    expect((await get("/approvals", { headers })).status).toBe(200);
  });

  test("on a real server, a loopback address is let in and the machine's own outer address is not", async () => {
    const { approvals } = await served((saver) => ({ payment: payment(saver) }));
    const server = listen({ fetch: approvals.fetch, port: 0, hostname: "0.0.0.0" });
    onTestFinished(() => void server.close());
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    expect((await fetch(`http://127.0.0.1:${port}/approvals`)).status).toBe(200);
    expect((await fetch(`http://localhost:${port}/approvals`)).status).toBe(200);
    const outer = Object.values(networkInterfaces())
      .flatMap((all) => all ?? [])
      .find(({ internal, family }) => !internal && family === "IPv4");
    if (outer !== undefined) expect((await fetch(`http://${outer.address}:${port}/approvals`)).status).toBe(403);
    const rebound = httpRequest({
      host: "127.0.0.1",
      port,
      path: "/approvals",
      headers: { host: `evil.example:${port}` },
    });
    rebound.end();
    const [response] = await once(rebound, "response");
    response.resume();
    expect(response.statusCode).toBe(403);
  });
});

describe("with authenticate", () => {
  const options = {
    authenticate: async ({ headers }: Request) => {
      const token = headers.get("authorization");
      if (token === "login") return new Response("log in", { status: 302, headers: { location: "/login" } });
      if (token === "broken") throw new Error("the session store at redis://10.0.0.7 is down");
      if (token === "empty") return { user: "" };
      return token === null ? undefined : { user: token };
    },
  };

  test("whoever is unknown gets no further, from wherever they come", async () => {
    const { get, post } = await served((saver) => ({ payment: payment(saver) }), { options });
    for (const path of ["/", "/openapi.json", "/approvals", "/threads/t/state", "/nowhere"]) {
      const answer = await get(path);
      expect([answer.status, answer.body.error.code]).toEqual([401, "UNAUTHENTICATED"]);
    }
    expect((await post("/approvals/1/approve", "{", {})).status).toBe(401);
    const headers = { authorization: "ada" };
    expect((await get("/approvals", { headers, connection: at("203.0.113.9") })).status).toBe(200);
    expect((await get("/ok")).body).toEqual({ ok: true });
  });

  test("a Response of its own is sent as it is; a failure or a nameless user lets nobody in, and is told", async () => {
    const { get, failures } = await served((saver) => ({ payment: payment(saver) }), { options });
    const login = await get("/", { headers: { authorization: "login" } });
    expect([login.status, login.headers.get("location")]).toEqual([302, "/login"]);
    for (const authorization of ["broken", "empty"]) {
      const answer = await get("/approvals", { headers: { authorization } });
      expect(answer.status).toBe(500);
      expect(JSON.stringify(answer.body)).not.toMatch(/redis|session|stack|authenticate/);
    }
    expect(failures).toMatchObject([{ error: { message: /redis/ } }, { error: { code: "INVALID_ARGUMENT" } }]);
  });

  test("one owner's waits, threads, events and decisions are not there for another", async () => {
    const authenticate = ({ headers }: Request) => {
      const [user = "", owner] = (headers.get("authorization") ?? "").split("@");
      return user === "" ? undefined : { user, owner };
    };
    const { approvals, graphs, get, post } = await served((saver) => ({ payment: payment(saver) }), {
      options: { authenticate },
    });
    const ada = { headers: { authorization: "ada@red" } };
    const bob = { headers: { authorization: "bob@blue" } };
    const admin = { headers: { authorization: "root" } };
    for (const [name, who] of [
      ["of-ada", ada],
      ["of-bob", bob],
    ] as const) {
      const run = await post(`/threads/${name}/runs`, { assistant_id: "payment", input: { amount: 5 } }, who);
      expect(run.status).toBe(200);
    }
    await graphs.payment.invoke({ amount: 6 }, thread("of-nobody"));
    await approvals.idle();
    const threads = async (who: typeof ada) => (await get("/approvals", who)).body.waits.map((wait) => wait.thread);
    expect(await threads(ada)).toEqual(["of-ada"]);
    expect(await threads(bob)).toEqual(["of-bob"]);
    expect(await threads(admin)).toEqual(["of-ada", "of-bob", "of-nobody"]);
    const [wait] = (await get("/approvals", ada)).body.waits;
    const foreign = await Promise.all([
      get(`/approvals/${wait?.id}`, bob),
      get(`/approvals/${wait?.id}/decisions`, bob),
      post(`/approvals/${wait?.id}/approve`, {}, bob),
      post(`/approvals/${wait?.id}/reject`, {}, bob),
      get("/threads/of-ada/state", bob),
      get("/threads/of-nobody/state", bob),
      post("/threads/of-ada/runs", { assistant_id: "payment", input: { amount: 9 } }, bob),
      post("/threads/of-ada/runs", { assistant_id: "payment", input: null }, bob),
      post("/threads/of-ada/runs", { assistant_id: "payment", command: { resume: true } }, bob),
      post("/threads/of-bob/runs", { assistant_id: "payment", command: { resume: { [wait?.id ?? ""]: true } } }, bob),
    ]);
    expect(foreign.map(({ status }) => status)).toEqual(foreign.map(() => 404));
    expect((await get("/threads/of-ada/state", ada)).status).toBe(200);
    // What goes on after a decision still belongs to its owner, also where an administrator has decided.
    expect((await post(`/approvals/${wait?.id}/edit`, { value: { amount: 0 } }, admin)).status).toBe(200);
    await approvals.idle();
    expect((await get("/threads/of-ada/state", bob)).status).toBe(404);
    expect((await get("/threads/of-ada/state", ada)).body).toMatchObject({ next: [] });
  });

  test("what is edited, forked and rolled back still belongs to its owner, and so does what runs after that", async () => {
    const { approvals, graphs, get, post } = await served((saver) => ({ payment: payment(saver) }), {
      options: { authenticate: ({ headers }) => ({ user: "u", owner: headers.get("x-owner") ?? undefined }) },
    });
    const red = { headers: { "x-owner": "red" } };
    const blue = { headers: { "x-owner": "blue" } };
    await post("/threads/t/runs", { assistant_id: "payment", input: { amount: 5 } }, red);
    await approvals.idle();
    const seen = async (id: string) => [
      (await get(`/threads/${id}/state`, red)).status,
      (await get(`/threads/${id}/state`, blue)).status,
    ];
    await graphs.payment.updateState(thread("t"), { log: ["edited"] });
    expect(await seen("t")).toEqual([200, 404]);
    await graphs.payment.invoke(null, thread("t"));
    expect(await seen("t")).toEqual([200, 404]);
    const first = (await graphs.payment.getState(thread("t"))).parentConfig?.configurable?.["checkpoint_id"];
    const travel = timeTravel(graphs.payment);
    await travel.fork("t", first, { to: "branch", values: { amount: 6 } });
    expect(await seen("branch")).toEqual([200, 404]);
    await travel.rollbackTo("t", first);
    expect(await seen("t")).toEqual([200, 404]);
  });

  test("an event of one owner reaches no thread of another", async () => {
    const { graphs, get, post } = await served((saver) => ({ one: oneNode(saver, () => waitFor("paid")) }), {
      options: { authenticate: ({ headers }) => ({ user: "u", owner: headers.get("x-owner") ?? undefined }) },
    });
    await graphs.one.invoke({}, thread("red", { owner: "red" }));
    await graphs.one.invoke({}, thread("blue", { owner: "blue" }));
    const red = { headers: { "x-owner": "red" } };
    expect((await post("/events/paid", { value: 1, thread: "blue" }, red)).status).toBe(404);
    expect((await post("/events/paid", { value: 1 }, red)).body.waits).toMatchObject([{ thread: "red" }]);
    expect((await get("/approvals?status=open")).body.waits).toMatchObject([{ thread: "blue" }]);
  });
});

describe("requests", () => {
  test("a change that is not said to be JSON is refused, as a form of another site would be", async () => {
    const { get, graphs, open, post } = await served((saver) => ({ payment: payment(saver) }));
    await graphs.payment.invoke({ amount: 1 }, thread("t"));
    const { id } = await open();
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]) {
      const answer = await post(`/approvals/${id}/approve`, "{}", { headers: { "content-type": type } });
      expect([answer.status, answer.body.error.code]).toEqual([415, "UNSUPPORTED_MEDIA_TYPE"]);
    }
    expect((await get(`/approvals/${id}`)).body.status).toBe("open");
    const headers = { "content-type": "Application/JSON; charset=utf-8" };
    expect((await post(`/approvals/${id}/approve`, "{}", { headers })).status).toBe(200);
  });

  test.each([
    ["no JSON", "{"],
    ["nothing", ""],
    ["a list", "[]"],
    ["a text", '"approve"'],
    ["null", "null"],
    ["a comment that is no text", '{"comment":1}'],
    ["a field that it does not know", '{"commment":"typo"}'],
    ["a polluting key", '{"__proto__":{"comment":"x"}}'],
    ["a comment without an end", JSON.stringify({ comment: "x".repeat(10_001) })],
  ])("a body that is %s is refused with 400, and nothing is recorded", async (_, body) => {
    const { graphs, open, post, get, failures } = await served((saver) => ({ payment: payment(saver) }));
    await graphs.payment.invoke({ amount: 1 }, thread("t"));
    const { id } = await open();
    const answer = await post(`/approvals/${id}/approve`, body);
    expect([answer.status, answer.body.error.code]).toEqual([400, "INVALID_REQUEST"]);
    expect((await get(`/approvals/${id}`)).body.decision).toBeNull();
    expect(failures).toEqual([]);
  });

  test("an edit and a response need their value, and null is one", async () => {
    const { graphs, open, post } = await served((saver) => ({ payment: payment(saver) }));
    await graphs.payment.invoke({ amount: 1 }, thread("t"));
    const { id } = await open();
    const missing = await post(`/approvals/${id}/respond`, { comment: "no value" });
    expect([missing.status, missing.body.error.code]).toEqual([400, "INVALID_REQUEST"]);
    expect((await post(`/approvals/${id}/respond`, { value: null })).body.decision.value).toBeNull();
  });

  test("a body of more than its limit is refused with 413, with and without a stated length", async () => {
    const { approvals, post } = await served((saver) => ({ payment: payment(saver) }), {
      options: { bodyBytesMax: 1000 },
    });
    const large = JSON.stringify({ comment: "x".repeat(1000) });
    expect((await post("/approvals/1/approve", large)).status).toBe(413);
    const length = { headers: { "content-length": String(large.length) } };
    expect((await post("/approvals/1/approve", large, length)).status).toBe(413);
    const server = createServer(getRequestListener(approvals.fetch)).listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/approvals/1/approve`;
    const chunks = async function* () {
      for (let i = 0; i < 100; i++) yield new TextEncoder().encode("x".repeat(100));
    };
    const streamed = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: ReadableStream.from(chunks()),
      duplex: "half",
    } as RequestInit);
    expect([streamed.status, ((await streamed.json()) as { error: { code: string } }).error.code]).toEqual([
      413,
      "BODY_TOO_LARGE",
    ]);
  });

  test("a body of a hundred thousand brackets is refused, and brackets in a text are not counted", async () => {
    const { graphs, open, post } = await served((saver) => ({ payment: payment(saver) }));
    await graphs.payment.invoke({ amount: 1 }, thread("t"));
    const { id } = await open();
    const nested = `{"value":${"[".repeat(100_000)}${"]".repeat(100_000)}}`;
    const answer = await post(`/approvals/${id}/respond`, nested);
    expect([answer.status, answer.body.error.code]).toEqual([400, "INVALID_REQUEST"]);
    const text = '\\"['.repeat(500);
    const accepted = await post(`/approvals/${id}/respond`, { value: text });
    expect(accepted.body.decision.value).toBe(text);
  });

  test("what is thrown inside never leaves: the answer has an id, and onError the same one with the error", async () => {
    const { checkpointer, failures, get } = await served((saver) => ({ payment: payment(saver) }));
    checkpointer.backend.waits = async () => {
      throw new Error("SELECT password FROM accounts failed");
    };
    const { status, body } = await get("/approvals");
    expect([status, body.error]).toEqual([
      500,
      { code: "INTERNAL", message: expect.any(String), details: { id: failures[0]?.context.id } },
    ]);
    expect(JSON.stringify(body)).not.toMatch(/password|SELECT|at .*\.ts/);
    expect(failures).toMatchObject([{ error: { message: /password/ } }]);
  });

  test("a store that cannot answer is 503, and /ok says so once it is closed", async () => {
    const { checkpointer, get } = await served((saver) => ({ payment: payment(saver) }));
    expect((await get("/ok")).status).toBe(200);
    await checkpointer.close();
    for (const path of ["/ok", "/approvals"]) {
      const { status, body } = await get(path);
      expect([status, body.error.code]).toEqual([503, "UNAVAILABLE"]);
    }
  });

  test("every answer says that it is not to be kept, framed or guessed at", async () => {
    const { get, post } = await served((saver) => ({ payment: payment(saver) }));
    const all = [
      await get("/"),
      await get("/approvals"),
      await get("/nowhere"),
      await post("/approvals/1/approve", "{"),
    ];
    for (const { headers } of all) {
      expect(headers.get("cache-control")).toBe("no-store");
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("x-frame-options")).toBe("DENY");
      expect(headers.get("referrer-policy")).toBe("no-referrer");
      expect(headers.get("content-security-policy")).toContain("default-src 'none'");
      expect(headers.get("access-control-allow-origin")).toBeNull();
    }
    expect((await get("/nowhere")).body.error.code).toBe("NOT_FOUND");
  });
});

describe("mounting", () => {
  test("the endpoints answer below a path of another application, on one server with it", async () => {
    const { approvals, graphs } = await served((saver) => ({ payment: payment(saver) }));
    await graphs.payment.invoke({ amount: 1 }, thread("t"));
    const outer = new Hono().get("/", (c) => c.text("outer")).mount("/desk", approvals.fetch);
    const answer = async (path: string) => outer.fetch(new Request(`http://localhost:3000${path}`), local);
    expect(await (await answer("/")).text()).toBe("outer");
    expect(await (await answer("/desk/approvals")).json()).toMatchObject({ waits: [{ question: "Pay 1?" }] });
    expect((await answer("/desk")).headers.get("content-type")).toContain("text/html");
  });

  test.each([
    ["an unknown option", { graph: {} }],
    ["no graphs", { graphs: undefined }],
    ["a graph that is none", { graphs: { a: {} } }],
    ["an interval of nothing", { intervalMs: 0 }],
    ["a limit that is no number", { bodyBytesMax: "1mb" }],
    ["an authenticate that is no function", { authenticate: "token" }],
    ["no checkpointer", { checkpointer: {} }],
  ])("%s is refused at once", (_, wrong) => {
    const checkpointer = memory();
    const options = { checkpointer, graphs: {}, ...wrong } as unknown as Parameters<typeof createApprovals>[0];
    const failure = () => {
      try {
        createApprovals(options);
      } catch (error) {
        return isHoldfastError(error) ? error.code : error;
      }
      return undefined;
    };
    expect(failure()).toBe("INVALID_ARGUMENT");
  });

  test("a graph with another checkpointer is refused: two could not tell each other who runs a thread", () => {
    expect(() => createApprovals({ checkpointer: memory(), graphs: { payment: payment(memory()) } })).toThrow(
      "FOREIGN_CHECKPOINTER",
    );
  });
});
