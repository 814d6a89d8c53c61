/** The OpenAPI document: every route, with every form and every answer. */

import { createRuntime } from "holdfast/runs";
import { expect, test } from "vitest";
import { httpApp } from "../../src/approvals/http-app.ts";
import { payment, serve, served, thread } from "./served.ts";

interface Operation {
  readonly summary?: string;
  readonly requestBody?: { readonly content: Record<string, { readonly schema: unknown }> };
  readonly responses: Record<string, { readonly content?: Record<string, { readonly schema: unknown }> }>;
}

interface Document {
  readonly openapi: string;
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: { readonly schemas: Record<string, { readonly properties?: Record<string, unknown> }> };
}

const document = async () => {
  const { get } = await served((saver) => ({ payment: payment(saver) }));
  return (await get("/openapi.json")).body as unknown as Document;
};

test("lists every route that is served", async () => {
  const { checkpointer, graphs } = await served((saver) => ({ payment: payment(saver) }));
  const parts = { checkpointer, graphs, authenticate: undefined, bodyBytesMax: 1, report: () => "", runner: undefined };
  const routes = httpApp(parts as never)
    .routes.filter(({ path }) => path !== "/*" && path !== "/openapi.json")
    .map(({ method, path }) => `${method.toLowerCase()} ${path.replaceAll(/:(\w+)/g, "{$1}")}`);
  const { paths } = await document();
  const listed = Object.entries(paths).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method} ${path}`),
  );
  expect([...new Set(routes)].sort()).toEqual(listed.sort());
  expect(listed.sort()).toEqual([
    "get /",
    "get /approvals",
    "get /approvals/{id}",
    "get /approvals/{id}/decisions",
    "get /ok",
    "get /threads/{thread}/state",
    "post /approvals/{id}/approve",
    "post /approvals/{id}/edit",
    "post /approvals/{id}/reject",
    "post /approvals/{id}/respond",
    "post /events/{name}",
    "post /threads/{thread}/runs",
  ]);
});

test("with a runtime it lists the routes of runs too", async () => {
  const { checkpointer, graphs } = await served((saver) => ({ payment: payment(saver) }));
  const { get } = serve(checkpointer, graphs, { runtime: createRuntime({ checkpointer, graphs }) });
  const { paths } = (await get("/openapi.json")).body as unknown as Document;
  const added = Object.keys(paths).filter((path) => path.startsWith("/threads/{thread}/runs"));
  expect(added.sort()).toEqual([
    "/threads/{thread}/runs",
    "/threads/{thread}/runs/wait",
    "/threads/{thread}/runs/{run}",
    "/threads/{thread}/runs/{run}/cancel",
    "/threads/{thread}/runs/{run}/join",
  ]);
});

test("every operation says what it does, what it takes and what it answers", async () => {
  const { openapi, paths, components } = await document();
  expect(openapi).toBe("3.1.0");
  for (const [path, item] of Object.entries(paths)) {
    for (const [method, { summary, requestBody, responses }] of Object.entries(item)) {
      const where = `${method} ${path}`;
      expect([where, typeof summary]).toEqual([where, "string"]);
      expect([where, requestBody !== undefined]).toEqual([where, method === "post"]);
      const statuses = Object.keys(responses);
      if (path !== "/ok") expect([where, statuses]).toEqual([where, expect.arrayContaining(["200", "401", "403"])]);
      if (method === "post") expect([where, statuses]).toEqual([where, expect.arrayContaining(["400", "413", "415"])]);
      for (const [status, { content }] of Object.entries(responses))
        expect([where, status, content !== undefined]).toEqual([where, status, true]);
    }
  }
  expect(Object.keys(components.schemas).sort()).toEqual(
    [
      "Answered",
      "Decision",
      "DecisionChain",
      "Delivered",
      "Error",
      "Ok",
      "RunCreate",
      "Run",
      "ThreadState",
      "Wait",
      "WaitPage",
    ].sort(),
  );
});

test("the fields of a wait in an answer are those of the document", async () => {
  const { graphs, open, get } = await served((saver) => ({ payment: payment(saver) }));
  await graphs.payment.invoke({ amount: 1 }, thread("t"));
  const { components } = (await get("/openapi.json")).body as unknown as Document;
  expect(Object.keys(await open()).sort()).toEqual(Object.keys(components.schemas["Wait"]?.properties ?? {}).sort());
});
