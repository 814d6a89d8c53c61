/** The forms of requests and answers about waits, for validation and for the OpenAPI document. */

import { z } from "@hono/zod-openapi";

const json = z.unknown().openapi({ description: "Any JSON." });
const moment = z.string().openapi({ format: "date-time" });

export const errorSchema = z
  .object({
    error: z.object({
      code: z.string().openapi({ description: "A stable identifier of the kind of failure.", example: "UNKNOWN_WAIT" }),
      message: z.string(),
      details: z.record(z.string(), z.unknown()).optional(),
    }),
  })
  .openapi("Error");

export const decisionSchema = z
  .object({
    seq: z.number().int().openapi({ description: "Place in the thread's chain, from 1." }),
    thread: z.string(),
    wait: z.string(),
    type: z.string().openapi({
      description: "approve, edit, reject, respond; deliver, due, settle, supersede or reopen where nobody was asked.",
    }),
    value: json,
    comment: z.string().nullable(),
    by: z.string().openapi({ description: "As authentication said it." }),
    via: z.string().nullable(),
    at: moment,
    digest: z.string().openapi({ description: "Of what was decided upon." }),
    hash: z.string(),
  })
  .openapi("Decision");

export const waitSchema = z
  .object({
    id: z.string(),
    thread: z.string(),
    graph: z.string().nullable(),
    path: z
      .array(z.string())
      .openapi({ description: "Nodes around the question, outermost first; empty in the graph itself." }),
    kind: z.string(),
    name: z.string(),
    question: z.string(),
    status: z.string(),
    value: json,
    details: json,
    allow: z.array(z.string()),
    schema: json,
    digest: z.string(),
    problem: z.string().nullable().openapi({ description: "Why an earlier answer was not accepted." }),
    assignee: z.string().nullable(),
    openedAt: moment,
    deadline: moment.nullable(),
    due: moment.nullable(),
    onDeadline: json,
    overdue: z.boolean(),
    task: z.string(),
    checkpoint: z.string(),
    decision: decisionSchema.nullable(),
  })
  .openapi("Wait");

export const pageSchema = z
  .object({
    waits: z.array(waitSchema),
    next: z.string().nullable().openapi({ description: "Give it as `cursor` to go on; null at the end." }),
  })
  .openapi("WaitPage");

export const answeredSchema = z
  .object({
    wait: waitSchema,
    decision: decisionSchema,
    replayed: z.boolean().openapi({ description: "The same decision had been recorded before." }),
  })
  .openapi("Answered");

export const chainSchema = z
  .object({
    decisions: z.array(decisionSchema),
    checked: z.number().int(),
    broken: z.array(z.object({ seq: z.number().int(), wait: z.string(), problem: z.string() })),
  })
  .openapi("DecisionChain");

/** One value, or a repeated key, of a query. */
const several = <const T extends readonly [string, ...string[]]>(values: T) =>
  z.union([z.enum(values), z.array(z.enum(values))]).transform((given) => [given].flat() as T[number][]);

const limit = z.coerce.number().int().min(1).max(100).default(50);

export const listQuerySchema = z.strictObject({
  status: several(["open", "answered", "consumed", "superseded"]).default(["open"]),
  kind: several(["question", "interrupt", "event", "timer", "settle"]).optional(),
  graph: z.string().optional(),
  assignee: z.string().optional(),
  thread: z.string().optional(),
  overdue: z
    .enum(["true", "false", "1", "0"])
    .transform((given) => given === "true" || given === "1")
    .optional()
    .openapi({ description: "Only waits whose deadline has passed." }),
  dueBefore: z.iso.datetime({ offset: true }).optional().openapi({ description: "Only with a due time up to then." }),
  age: z.string().optional().openapi({ description: "Only waits open at least so long.", example: "2 hours" }),
  cursor: z.string().optional(),
  limit,
});

export const waitParam = z.object({ id: z.string().min(1).max(200) });

const comment = z.string().max(10_000).optional();
const digest = z
  .string()
  .optional()
  .openapi({ description: "Of what was shown to who decides: refused where the question is another by now." });

/** `approve` and `reject`. */
export const verdictBodySchema = z.strictObject({ comment, digest });

/** `edit` and `respond`; that `value` is there is checked apart, since every value is one, also null. */
export const valueBodySchema = z
  .strictObject({ comment, digest, value: json })
  .refine((body) => Object.hasOwn(body, "value"), { message: "is required", path: ["value"] });

export const eventBodySchema = z.strictObject({ value: json.optional(), thread: z.string().optional() });

export const deliveredSchema = z.object({ waits: z.array(waitSchema) }).openapi("Delivered");

export const okSchema = z.object({ ok: z.literal(true) }).openapi("Ok");
