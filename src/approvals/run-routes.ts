/** Runs of a runtime over HTTP, in the shapes of LangGraph's servers: `runs.get`, `list`, `cancel` and `join` of its client. */

import { createRoute, z } from "@hono/zod-openapi";
import { isEnded } from "../model.ts";
import type { RunRecord } from "../runs/run-record.ts";
import type { Runtime } from "../runs/runtime.ts";
import type { HttpApp, HttpParts } from "./http-app.ts";
import { Problem } from "./problem.ts";
import { findRun, firstRun, isTheirs, runView, statusesOf } from "./queued-runs.ts";
import { answers, jsonAnswer } from "./route-answers.ts";
import { runSchema, threadParam } from "./run-request.ts";
import { type Snapshot, threadState } from "./thread-state.ts";

const runParam = threadParam.extend({ run: z.string().min(1).max(4000) });
const flag = z.enum(["true", "false", "1", "0"]).optional();

const list = createRoute({
  method: "get",
  path: "/threads/{thread}/runs",
  summary: "The thread's runs, oldest first",
  request: {
    params: threadParam,
    query: z.object({
      limit: z.coerce.number().int().min(1).max(1000).default(10),
      offset: z.coerce.number().int().min(0).max(10_000).default(0),
      status: z.enum(["pending", "running", "error", "success", "timeout", "interrupted"]).optional(),
    }),
  },
  responses: { 200: jsonAnswer("The runs.", z.array(runSchema)), ...answers(400, 401, 403, 404) },
});

const get = createRoute({
  method: "get",
  path: "/threads/{thread}/runs/{run}",
  summary: "One run",
  request: { params: runParam },
  responses: { 200: jsonAnswer("The run.", runSchema), ...answers(401, 403, 404) },
});

const cancel = createRoute({
  method: "post",
  path: "/threads/{thread}/runs/{run}/cancel",
  summary: "Cancel a run; with `wait`, answered when it has ended",
  request: {
    params: runParam,
    query: z.object({
      wait: flag,
      action: z.enum(["interrupt", "rollback"]).optional(),
      reason: z.string().optional(),
    }),
  },
  responses: {
    200: jsonAnswer("The run: its cancel is recorded.", runSchema),
    ...answers(400, 401, 403, 404, 409, 415, 422),
  },
});

const join = createRoute({
  method: "get",
  path: "/threads/{thread}/runs/{run}/join",
  summary: "Answered when the run has ended or waits, with the thread's values",
  request: { params: runParam, query: z.object({ cancel_on_disconnect: flag }) },
  responses: {
    200: jsonAnswer(
      "The values; `__interrupt__` where it waits, `__error__` where it failed.",
      z.record(z.string(), z.unknown()).openapi("RunResult"),
    ),
    ...answers(401, 403, 404, 409),
  },
});

export function runRoutes(app: HttpApp, parts: HttpParts, runtime: Runtime): void {
  app.openapi(list, async (c) => {
    const { thread } = c.req.valid("param");
    const { limit, offset, status } = c.req.valid("query");
    const first = await firstRun(runtime, thread);
    if (first === undefined || !isTheirs(first, c.var.identity)) return c.json([], 200);
    const statuses = status === undefined ? undefined : statusesOf(status);
    const found = await runtime.list({ thread, owner: c.var.identity.owner, status: statuses, limit: offset + limit });
    const views = found.map(runView).filter((view) => status === undefined || view.status === status);
    return c.json(views.slice(offset, offset + limit), 200);
  });

  app.openapi(get, async (c) => {
    const { thread, run } = c.req.valid("param");
    return c.json(runView(await findRun(runtime, thread, run, c.var.identity)), 200);
  });

  app.openapi(cancel, async (c) => {
    const { thread, run } = c.req.valid("param");
    const { wait, action, reason } = c.req.valid("query");
    if (action === "rollback")
      throw new Problem("UNSUPPORTED_FIELD", 'action: start the next run with `"multitask_strategy": "rollback"`.', {
        field: "action",
      });
    await findRun(runtime, thread, run, c.var.identity);
    const why = reason === undefined ? {} : { reason };
    let record = await runtime.cancel(run, { by: c.var.identity.user, ...why });
    if (wait === "1" || wait === "true") while (!isEnded(record.status)) record = await runtime.wait(run);
    return c.json(runView(record), 200);
  });

  app.openapi(join, async (c) => {
    const { thread, run } = c.req.valid("param");
    await findRun(runtime, thread, run, c.var.identity);
    return c.json(await resultOf(parts, await runtime.wait(run, { signal: c.req.raw.signal })), 200);
  });
}

/** What `runs.wait` and `runs.join` of LangGraph's client resolve with, or throw of. */
export async function resultOf({ graphs }: HttpParts, run: RunRecord): Promise<Record<string, unknown>> {
  if (run.status === "failed" || run.status === "cancelled") {
    const { name = "Cancelled", message = run.cancellation?.reason ?? "The run was cancelled." } = run.error ?? {};
    return { __error__: { error: name, message } };
  }
  const graph = graphs[run.graph];
  if (graph === undefined)
    throw new Problem("UNKNOWN_GRAPH", "Its graph is not served here, so its values cannot be read.");
  const { values, tasks } = threadState(
    (await graph.getState({ configurable: { thread_id: run.thread } })) as Snapshot,
  );
  const asked = tasks.flatMap(({ interrupts }) => (Array.isArray(interrupts) ? (interrupts as unknown[]) : []));
  return { ...(values as object), ...(asked.length > 0 ? { __interrupt__: asked } : {}) };
}
