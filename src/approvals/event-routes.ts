/** Handing events to the threads that wait for them. */

import { createRoute, z } from "@hono/zod-openapi";
import type { HttpApp, HttpParts } from "./http-app.ts";
import { answers, jsonAnswer, jsonBody } from "./route-answers.ts";
import { deliveredSchema, eventBodySchema } from "./wait-schemas.ts";
import { waitView } from "./wait-view.ts";

const deliver = createRoute({
  method: "post",
  path: "/events/{name}",
  summary: "Hand an event to the threads that wait for it, or to one of them",
  description: "Events are not kept for later: where nobody waits for it now, the answer is 404.",
  request: { params: z.object({ name: z.string().min(1).max(200) }), body: jsonBody(eventBodySchema) },
  responses: {
    200: jsonAnswer("The waits that took it.", deliveredSchema),
    ...answers(400, 401, 403, 404, 413, 415, 422),
  },
});

export function eventRoutes(app: HttpApp, { checkpointer, runner }: HttpParts): void {
  app.openapi(deliver, async (c) => {
    const { user, owner } = c.var.identity;
    const { value, thread } = c.req.valid("json");
    const waits = await checkpointer.deliver(c.req.valid("param").name, value, {
      by: user,
      via: "http",
      ...(thread === undefined ? {} : { thread }),
      ...(owner === undefined ? {} : { owner }),
    });
    for (const wait of waits) if (runner.concerns(wait.graph)) void runner.goOn(wait.thread);
    const now = checkpointer.waitLedger.now();
    return c.json({ waits: waits.map((wait) => waitView(wait, now)) }, 200);
  });
}
