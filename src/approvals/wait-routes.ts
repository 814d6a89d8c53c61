/** Reading waits: the list, one of them, and the chain of decisions of its thread. */

import { createRoute, type z } from "@hono/zod-openapi";
import type { WaitQuery } from "../backend.ts";
import { durationMs } from "../durations.ts";
import { isHoldfastError } from "../errors.ts";
import type { WaitRow } from "../model.ts";
import type { HttpApp, HttpParts } from "./http-app.ts";
import { Problem } from "./problem.ts";
import { answers, jsonAnswer } from "./route-answers.ts";
import { chainSchema, listQuerySchema, okSchema, pageSchema, waitParam, waitSchema } from "./wait-schemas.ts";
import { brokenView, decisionView, isOverdue, viewsOf, waitView } from "./wait-view.ts";

type ListQuery = z.output<typeof listQuerySchema>;
type Place = NonNullable<WaitQuery["after"]>;

const ok = createRoute({
  method: "get",
  path: "/ok",
  summary: "Whether the store is open",
  responses: { 200: jsonAnswer("It is.", okSchema), ...answers(503) },
});

const list = createRoute({
  method: "get",
  path: "/approvals",
  summary: "Waits of all threads, oldest first",
  description: "A page may hold fewer than `limit`; the end is where `next` is null.",
  request: { query: listQuerySchema },
  responses: { 200: jsonAnswer("A page.", pageSchema), ...answers(400, 401, 403) },
});

const one = createRoute({
  method: "get",
  path: "/approvals/{id}",
  summary: "A wait, with its decision",
  request: { params: waitParam },
  responses: { 200: jsonAnswer("The wait.", waitSchema), ...answers(401, 403, 404) },
});

const chain = createRoute({
  method: "get",
  path: "/approvals/{id}/decisions",
  summary: "Every decision of the wait's thread, and whether the chain is what was recorded",
  request: { params: waitParam },
  responses: { 200: jsonAnswer("The chain.", chainSchema), ...answers(401, 403, 404) },
});

export function waitRoutes(app: HttpApp, { checkpointer, report }: HttpParts): void {
  const { waitLedger } = checkpointer;

  app.openapi(ok, (c) => {
    if (checkpointer.closed) throw new Problem("UNAVAILABLE", "The store is closed.");
    return c.json({ ok: true as const }, 200);
  });

  app.openapi(list, async (c) => {
    const query = c.req.valid("query");
    const { rows, next } = await page(
      (part) => waitLedger.rows(part),
      query,
      c.var.identity.owner,
      waitLedger.now(),
      async (row) => isOverdue((await waitLedger.read(row)).record, waitLedger.now()),
    );
    const waits = await viewsOf(waitLedger, rows, (error, { thread }) => report(error, { thread }));
    return c.json({ waits, next }, 200);
  });

  app.openapi(one, async (c) => {
    const { record } = await waitLedger.find(c.req.valid("param").id, c.var.identity.owner);
    return c.json(waitView(record, waitLedger.now()), 200);
  });

  app.openapi(chain, async (c) => {
    const { row } = await waitLedger.find(c.req.valid("param").id, c.var.identity.owner);
    const { checked, broken } = await checkpointer.verifyDecisions({ thread: row.thread });
    const decisions = [];
    for await (const decision of waitLedger.decisions(row.thread)) decisions.push(decisionView(decision));
    return c.json({ decisions, checked, broken: broken.map(brokenView) }, 200);
  });
}

/** Rows looked through for one page at most, where a filter cannot be left to the store. */
const LOOKED_AT_MAX = 1000;

async function page(
  rowsOf: (query: WaitQuery) => Promise<readonly WaitRow[]>,
  query: ListQuery,
  owner: string | undefined,
  now: number,
  overdue: (row: WaitRow) => Promise<boolean>,
): Promise<{ readonly rows: readonly WaitRow[]; readonly next: string | null }> {
  const { status, kind, graph, assignee, thread, dueBefore, limit } = query;
  const dueBy = dueBefore === undefined ? undefined : Date.parse(dueBefore);
  const fixed: WaitQuery = { status, kind, graph, assignee, thread, owner, dueBy };
  const openedBy = query.age === undefined ? undefined : now - ageMs(query.age);
  const found: WaitRow[] = [];
  let after = query.cursor === undefined ? undefined : placeOf(query.cursor);
  for (let looked = 0; looked < LOOKED_AT_MAX; ) {
    const rows = await rowsOf({ ...fixed, after, limit: limit + 1 });
    for (const row of rows.slice(0, limit)) {
      if (openedBy !== undefined && row.openedAt > openedBy) return { rows: found, next: null };
      if (found.length === limit) return { rows: found, next: cursorOf(after as Place) };
      after = { openedAt: row.openedAt, id: row.id };
      if (query.overdue === undefined || (await overdue(row)) === query.overdue) found.push(row);
    }
    if (rows.length <= limit) return { rows: found, next: null };
    if (found.length === limit) break;
    looked += limit;
  }
  return { rows: found, next: cursorOf(after as Place) };
}

function ageMs(age: string): number {
  try {
    return durationMs("age", age);
  } catch (error) {
    if (!isHoldfastError(error)) throw error;
    throw new Problem("INVALID_REQUEST", `age is ${JSON.stringify(age)}; use a duration like "2 hours" or "3 days".`);
  }
}

const cursorOf = ({ openedAt, id }: Place): string => Buffer.from(JSON.stringify([openedAt, id])).toString("base64url");

function placeOf(cursor: string): Place {
  try {
    const [openedAt, id, ...rest] = JSON.parse(Buffer.from(cursor, "base64url").toString("utf8")) as unknown[];
    if (typeof openedAt === "number" && typeof id === "string" && rest.length === 0) return { openedAt, id };
  } catch {
    // Refused below, like everything else that no answer has given.
  }
  throw new Problem("INVALID_REQUEST", "cursor is none that an answer has given as `next`.");
}
