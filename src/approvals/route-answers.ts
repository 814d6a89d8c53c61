/** Answers of routes, as the OpenAPI document states them. */

import type { ZodType } from "zod";
import { errorSchema } from "./wait-schemas.ts";

const DESCRIPTIONS = {
  400: "The request is not what is expected.",
  401: "Nobody is known to have sent it.",
  403: "Only this machine is served.",
  404: "There is no such thing, or it is another owner's.",
  409: "The state of things refuses it; the details say what it is.",
  413: "The body is too large.",
  415: "The body is not said to be JSON.",
  422: "It is understood, and cannot be accepted.",
  503: "The storage cannot answer at the moment.",
} as const;

type Status = keyof typeof DESCRIPTIONS;

export function jsonAnswer<T extends ZodType>(description: string, schema: T) {
  return { description, content: { "application/json": { schema } } };
}

/** Failures, by status. */
export function answers(...statuses: readonly Status[]) {
  return Object.fromEntries(statuses.map((status) => [status, jsonAnswer(DESCRIPTIONS[status], errorSchema)] as const));
}

export function jsonBody<T extends ZodType>(schema: T) {
  return { required: true as const, content: { "application/json": { schema } } };
}
