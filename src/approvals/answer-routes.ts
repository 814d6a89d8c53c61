/**
 * Deciding: approve, edit, reject, respond.
 *
 * The approver is who authentication says. A decision is durable when it is answered; the thread goes on after that, in
 * this process, or (if it dies first) in the next one that sweeps.
 */

import { createRoute } from "@hono/zod-openapi";
import type { Decision } from "../wait-record.ts";
import type { Identity } from "./access.ts";
import type { HttpApp, HttpParts } from "./http-app.ts";
import { record } from "./recording.ts";
import { answers, jsonAnswer, jsonBody } from "./route-answers.ts";
import { answeredSchema, valueBodySchema, verdictBodySchema, waitParam } from "./wait-schemas.ts";
import { decisionView, waitView } from "./wait-view.ts";

const responses = {
  200: jsonAnswer("The decision that holds: this one, or the same one from before.", answeredSchema),
  ...answers(400, 401, 403, 404, 409, 413, 415, 422),
};

const verdict = <const T extends string>(type: T, summary: string) =>
  createRoute({
    method: "post",
    path: `/approvals/{id}/${type}` as const,
    summary,
    request: { params: waitParam, body: jsonBody(verdictBodySchema) },
    responses,
  });

const withValue = <const T extends string>(type: T, summary: string) =>
  createRoute({
    method: "post",
    path: `/approvals/{id}/${type}` as const,
    summary,
    request: { params: waitParam, body: jsonBody(valueBodySchema) },
    responses,
  });

const approve = verdict("approve", "Approve what is shown, as it is shown");
const reject = verdict("reject", "Reject what is shown");
const edit = withValue("edit", "Approve it with a value in its place");
const respond = withValue("respond", "Answer with a value");

interface Body {
  readonly comment?: string | undefined;
  readonly digest?: string | undefined;
}

export function answerRoutes(app: HttpApp, parts: HttpParts): void {
  const decide = async (id: string, decision: Decision, { digest }: Body, identity: Identity) => {
    const { replayed, decision: recorded, wait } = await record(parts, id, decision, digest, identity);
    // A repeated decision goes on with the thread too: who made it first may have died before that.
    if (wait.status === "answered" && parts.runner.concerns(wait.graph)) void parts.runner.goOn(wait.thread);
    return {
      wait: waitView(wait, parts.checkpointer.waitLedger.now()),
      decision: decisionView(recorded),
      replayed,
    };
  };

  app.openapi(approve, async (c) => {
    const body = c.req.valid("json");
    const decision = { type: "approve", comment: body.comment } as const;
    return c.json(await decide(c.req.valid("param").id, decision, body, c.var.identity), 200);
  });

  app.openapi(reject, async (c) => {
    const body = c.req.valid("json");
    const decision = { type: "reject", comment: body.comment } as const;
    return c.json(await decide(c.req.valid("param").id, decision, body, c.var.identity), 200);
  });

  app.openapi(edit, async (c) => {
    const body = c.req.valid("json");
    const decision = { type: "edit", value: body.value, comment: body.comment } as const;
    return c.json(await decide(c.req.valid("param").id, decision, body, c.var.identity), 200);
  });

  app.openapi(respond, async (c) => {
    const body = c.req.valid("json");
    const decision = { type: "respond", value: body.value, comment: body.comment } as const;
    return c.json(await decide(c.req.valid("param").id, decision, body, c.var.identity), 200);
  });
}
