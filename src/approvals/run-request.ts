/**
 * The body of `POST /threads/{thread}/runs`: `RunCreate` of LangGraph's servers, as far as it is served here.
 *
 * Fields that would change what a run does and are not served are refused by name, never dropped. Those that only say
 * how a run is streamed are accepted and mean nothing: nobody streams here.
 */

import { hash } from "node:crypto";
import { z } from "@hono/zod-openapi";
import type { RunnableConfig } from "@langchain/core/runnables";
import { Problem } from "./problem.ts";

export const threadParam = z.object({ thread: z.string().min(1).max(4000) });

const nodes = z.union([z.literal("*"), z.array(z.string())]).nullish();
const unused = z.unknown().optional().openapi({ description: "Accepted and without meaning here." });
const refused = z.unknown().optional().openapi({ description: "Not served here: refused unless null." });

export const runBodySchema = z
  .strictObject({
    assistant_id: z.string().openapi({ description: "A graph's name, or its id as an assistant." }),
    input: z.unknown().optional().openapi({ description: "null: go on with what is unfinished." }),
    command: z
      .strictObject({
        resume: z.unknown().optional().openapi({ description: "An answer, or answers by the ids of their questions." }),
        update: refused,
        goto: refused,
      })
      .nullish(),
    config: z
      .strictObject({
        tags: z.array(z.string()).optional(),
        recursion_limit: z.number().int().min(1).max(100_000).optional(),
        configurable: z.record(z.string(), z.unknown()).optional(),
      })
      .nullish(),
    context: z.record(z.string(), z.unknown()).nullish(),
    metadata: z.record(z.string(), z.unknown()).nullish(),
    interrupt_before: nodes,
    interrupt_after: nodes,
    durability: z.enum(["sync", "async", "exit"]).nullish(),
    checkpoint_during: z.boolean().nullish(),
    if_not_exists: z.enum(["create", "reject"]).nullish(),
    multitask_strategy: z.enum(["reject", "interrupt", "rollback", "enqueue"]).nullish(),
    on_paused: z
      .enum(["refuse", "supersede"])
      .optional()
      .openapi({ description: "What a new input does to a thread that waits. Of Holdfast; default refuse." }),
    strict_resume: z.boolean().nullish().openapi({ description: "Always so here." }),
    stream_mode: unused,
    stream_subgraphs: unused,
    stream_resumable: unused,
    on_disconnect: unused,
    feedback_keys: unused,
    checkpoint: refused,
    checkpoint_id: refused,
    webhook: refused,
    after_seconds: refused,
    on_completion: refused,
    langsmith_tracer: refused,
  })
  .openapi("RunCreate");

export type RunBody = z.output<typeof runBodySchema>;

export const runSchema = z
  .object({
    run_id: z.string(),
    thread_id: z.string(),
    assistant_id: z.string(),
    created_at: z.string(),
    updated_at: z.string(),
    status: z.string(),
    metadata: z.record(z.string(), z.unknown()),
    multitask_strategy: z.string(),
  })
  .openapi("Run");

const REFUSED = [
  "checkpoint",
  "checkpoint_id",
  "webhook",
  "after_seconds",
  "on_completion",
  "langsmith_tracer",
] as const;

/** Keys of `configurable` that say who, where and by which rules: only the server sets them. */
const RESERVED =
  /^(?:__|checkpoint_|langgraph_|(?:thread_id|graph_id|assistant_id|run_id|owner|on_paused|effects|task_id)$)/;

/** @throws Problem UNSUPPORTED_FIELD */
export function checkRunBody(body: RunBody, queued: boolean): void {
  for (const field of REFUSED) if (body[field] !== undefined && body[field] !== null) throw unsupported(field);
  const { command, multitask_strategy, config } = body;
  if (command?.update !== undefined && command.update !== null) throw unsupported("command.update");
  if (command?.goto !== undefined && command.goto !== null) throw unsupported("command.goto");
  if (isResume(body) && body.input !== undefined && body.input !== null)
    throw new Problem("INVALID_REQUEST", "A run has an input or a command, not both.");
  if (!queued && multitask_strategy != null && multitask_strategy !== "reject")
    throw unsupported("multitask_strategy", 'only "reject" is served without a runtime');
  for (const key of Object.keys(config?.configurable ?? {}))
    if (RESERVED.test(key)) throw unsupported(`config.configurable.${key}`, "the server sets it");
}

export function isResume({ command }: RunBody): boolean {
  return command !== undefined && command !== null && Object.hasOwn(command, "resume");
}

/** LangGraph's config of the run that a body asks for. */
export function runConfig(body: RunBody, runId: string, user: string): RunnableConfig {
  const { config, context, metadata, interrupt_before, interrupt_after, checkpoint_during, durability, on_paused } =
    body;
  const stated = durability ?? (checkpoint_during === false ? "exit" : undefined);
  const given = {
    runId,
    tags: config?.tags,
    recursionLimit: config?.recursion_limit,
    context: context ?? undefined,
    metadata: metadata ?? undefined,
    interruptBefore: interrupt_before ?? undefined,
    interruptAfter: interrupt_after ?? undefined,
    durability: stated,
  };
  return {
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
    configurable: {
      ...config?.configurable,
      langgraph_auth_user_id: user,
      ...(on_paused === undefined ? {} : { on_paused }),
    },
  };
}

const ASSISTANTS = Buffer.from("6ba7b8219dad11d180b400c04fd430c8", "hex");

/** The id that LangGraph's servers give to a graph's own assistant: a UUID of version 5 of its name. */
export function assistantId(graph: string): string {
  const digest = hash("sha1", Buffer.concat([ASSISTANTS, Buffer.from(graph)]), "buffer").subarray(0, 16);
  digest[6] = ((digest[6] ?? 0) & 0x0f) | 0x50;
  digest[8] = ((digest[8] ?? 0) & 0x3f) | 0x80;
  return digest.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

export function unsupported(field: string, why = "it is not served here"): Problem {
  return new Problem("UNSUPPORTED_FIELD", `${field}: ${why}. Nothing was started.`, { field });
}
