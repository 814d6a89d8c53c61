/**
 * The HTTP application: what holds for every request, and the routes, which stand in a file for each concern.
 *
 * In this order: headers, who asks (access.ts), that a change is JSON, its size and depth, then the route. Every failure is
 * answered as `{ error: { code, message, details? } }`; what is not meant for the asker is told to `report` only.
 */

import { OpenAPIHono } from "@hono/zod-openapi";
import type { Context, MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { HTTPException } from "hono/http-exception";
import type { Checkpointer } from "../checkpointer.ts";
import type { Runtime } from "../runs/runtime.ts";
import { type Authenticate, type Identity, identify, requireJson } from "./access.ts";
import { answerRoutes } from "./answer-routes.ts";
import { eventRoutes } from "./event-routes.ts";
import { pageRoute } from "./page-route.ts";
import { answerOf, Problem } from "./problem.ts";
import { runRoutes } from "./run-routes.ts";
import { threadRoutes } from "./thread-routes.ts";
import type { Graphs, Report, ThreadRunner } from "./thread-runner.ts";
import { waitRoutes } from "./wait-routes.ts";

export interface HttpParts {
  readonly checkpointer: Checkpointer;
  readonly graphs: Graphs;
  readonly runner: ThreadRunner;
  /** Whose workers execute the runs that are asked for; without one, this process does. */
  readonly runtime: Runtime | undefined;
  readonly authenticate: Authenticate | undefined;
  readonly report: Report;
  readonly bodyBytesMax: number;
}

/** What a request carries through the handlers. */
export interface HttpEnv {
  readonly Variables: { identity: Identity };
}

export type HttpApp = OpenAPIHono<HttpEnv>;

const HEADERS: Readonly<Record<string, string>> = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

/** Deepest nesting of a request: what is deeper cannot be stored, checked and shown without a stack overflow. */
const DEEPEST = 100;

export function httpApp(parts: HttpParts): HttpApp {
  const app: HttpApp = new OpenAPIHono<HttpEnv>({
    defaultHook: (result) => {
      if (result.success) return;
      const issues = result.error.issues.map(({ path, message }) => ({ path: path.map(String).join("."), message }));
      throw new Problem("INVALID_REQUEST", `The ${PARTS[result.target] ?? result.target} is not what is expected.`, {
        issues,
      });
    },
  });
  app.onError((error, c) => answerFailure(error, c, parts.report));
  app.notFound((c) => {
    throw new Problem("NOT_FOUND", `There is no ${c.req.method} ${c.req.path}.`);
  });
  app.use(withHeaders, access(parts.authenticate), json(parts.bodyBytesMax));
  pageRoute(app);
  waitRoutes(app, parts);
  answerRoutes(app, parts);
  eventRoutes(app, parts);
  threadRoutes(app, parts);
  if (parts.runtime !== undefined) runRoutes(app, parts, parts.runtime);
  app.doc31("/openapi.json", {
    openapi: "3.1.0",
    info: {
      title: "Holdfast approvals",
      version: "1",
      description: "Questions that threads wait for, and the decisions about them.",
    },
  });
  return app;
}

const PARTS: Readonly<Record<string, string>> = { json: "body", query: "query", param: "path" };

const withHeaders: MiddlewareHandler<HttpEnv> = async (c, next) => {
  await next();
  for (const [name, value] of Object.entries(HEADERS)) if (!c.res.headers.has(name)) c.header(name, value);
};

/** `/ok` says nothing but that somebody answers: whoever may connect may ask it, where there is authentication. */
function access(authenticate: Authenticate | undefined): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    if (authenticate !== undefined && c.req.path === "/ok") return next();
    const identity = await identify(c.req.raw, c.env, authenticate);
    if (identity instanceof Response) return identity;
    c.set("identity", identity);
    return next();
  };
}

function json(bodyBytesMax: number): MiddlewareHandler<HttpEnv> {
  const limited = bodyLimit({
    maxSize: bodyBytesMax,
    onError: () => {
      throw new Problem("BODY_TOO_LARGE", `A request may have at most ${bodyBytesMax} bytes.`);
    },
  });
  return async (c, next) => {
    if (c.req.method === "GET" || c.req.method === "HEAD") return next();
    if (!isBare(c.req.raw)) requireJson(c.req.raw);
    return limited(c, async () => {
      if (depthOf(await c.req.text()) > DEEPEST)
        throw new Problem("INVALID_REQUEST", `The body is nested more than ${DEEPEST} deep.`);
      await next();
    });
  };
}

/** A cancel of LangGraph's client has no body. A page of another site could send such a request, and then names itself. */
function isBare({ headers, url }: Request): boolean {
  if (headers.has("content-type") || Number(headers.get("content-length") ?? 0) !== 0) return false;
  const origin = headers.get("origin");
  return new URL(url).pathname.endsWith("/cancel") && (origin === null || origin === new URL(url).origin);
}

/** Of JSON text; brackets inside of strings do not count. */
function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/gs)) {
    if (token === "[" || token === "{") depth += 1;
    else if (token === "]" || token === "}") depth -= 1;
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}

function answerFailure(error: unknown, c: Context, report: Report): Response {
  const known = error instanceof HTTPException && error.status === 400;
  const failure = known ? new Problem("INVALID_REQUEST", "The body is no JSON.") : error;
  const { status, body } = answerOf(failure, () => report(error, {}));
  return c.json(body, status);
}
