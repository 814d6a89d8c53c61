/**
 * What interrupts of other libraries ask, and what they expect as resume value.
 *
 * Three shapes are known: `humanInTheLoopMiddleware` of langchain (`actionRequests` → `{ decisions }`), Agent Inbox
 * (`action_request` → `[{ type, args }]`), and anything else, which takes any value; there an approval is `true` and a
 * rejection `false`, unless the interrupt has a response schema: then it takes responses only.
 */

import type { DecisionRecord, DecisionType } from "./wait-record.ts";

/** What an interrupt's value says about its answers. */
export interface Asked {
  readonly name: string;
  readonly allow: readonly DecisionType[];
  /** What an edit begins with; undefined where there is nothing to edit. */
  readonly details?: unknown;
  readonly schema?: unknown;
  readonly assignee?: string | undefined;
}

interface ActionRequest {
  readonly name?: unknown;
  readonly args?: unknown;
}

interface ReviewConfig {
  readonly actionName?: unknown;
  readonly allowedDecisions?: readonly unknown[];
}

interface InboxRequest {
  readonly action_request: { readonly action?: unknown; readonly args?: unknown };
  readonly config?: Readonly<Record<string, unknown>>;
}

export function readInterrupt(value: unknown, responseSchema: unknown): Asked {
  const actions = actionRequests(value);
  if (actions !== undefined) return ofActions(actions, value as { reviewConfigs?: readonly ReviewConfig[] });
  const inbox = inboxRequest(value);
  if (inbox !== undefined) return ofInbox(inbox);
  const name = typeof value === "string" ? value : "interrupt";
  if (responseSchema !== undefined) return { name, allow: ["respond"], schema: responseSchema };
  return { name, allow: ["approve", "reject", "respond"] };
}

/** The value that LangGraph's `interrupt()` returns in the node. */
export function resumeValue(shown: unknown, decision: DecisionRecord): unknown {
  const actions = actionRequests(shown);
  if (actions !== undefined) return resumeActions(actions, decision);
  const inbox = inboxRequest(shown);
  if (inbox !== undefined) return resumeInbox(inbox, decision);
  switch (decision.type) {
    case "approve":
      return true;
    case "reject":
      return false;
    default:
      return decision.value;
  }
}

function actionRequests(value: unknown): readonly ActionRequest[] | undefined {
  const requests = (value as { actionRequests?: unknown } | null | undefined)?.actionRequests;
  return Array.isArray(requests) && requests.length > 0 ? (requests as ActionRequest[]) : undefined;
}

function ofActions(actions: readonly ActionRequest[], value: { reviewConfigs?: readonly ReviewConfig[] }): Asked {
  const every = (type: string) =>
    actions.every(({ name }) => {
      const config = value.reviewConfigs?.find(({ actionName }) => actionName === name);
      return config?.allowedDecisions === undefined || config.allowedDecisions.includes(type);
    });
  const allow: DecisionType[] = [];
  if (every("approve")) allow.push("approve");
  // An edit says what one action becomes; several are answered one by one, in a response.
  if (actions.length === 1 && every("edit")) allow.push("edit");
  if (every("reject")) allow.push("reject");
  allow.push("respond");
  const names = actions.map(({ name }) => String(name)).join(", ");
  return { name: names, allow, ...(actions.length === 1 ? { details: actions[0]?.args } : {}) };
}

function resumeActions(actions: readonly ActionRequest[], decision: DecisionRecord): unknown {
  switch (decision.type) {
    case "approve":
      return { decisions: actions.map(() => ({ type: "approve" })) };
    case "reject": {
      const message = decision.comment === undefined ? {} : { message: decision.comment };
      return { decisions: actions.map(() => ({ type: "reject", ...message })) };
    }
    case "edit":
      return { decisions: [{ type: "edit", editedAction: { name: actions[0]?.name, args: decision.value } }] };
    default:
      return decision.value;
  }
}

function inboxRequest(value: unknown): InboxRequest | undefined {
  const request: unknown = Array.isArray(value) ? value[0] : value;
  const action = (request as { action_request?: unknown } | null | undefined)?.action_request;
  return typeof action === "object" && action !== null ? (request as InboxRequest) : undefined;
}

function ofInbox({ action_request, config = {} }: InboxRequest): Asked {
  const allow: DecisionType[] = [];
  if (config["allow_accept"] !== false) allow.push("approve");
  if (config["allow_edit"] !== false) allow.push("edit");
  if (config["allow_ignore"] !== false) allow.push("reject");
  if (config["allow_respond"] !== false) allow.push("respond");
  return { name: String(action_request.action), allow, details: action_request.args };
}

function resumeInbox({ action_request }: InboxRequest, decision: DecisionRecord): unknown {
  switch (decision.type) {
    case "approve":
      return [{ type: "accept", args: null }];
    case "reject":
      return [{ type: "ignore", args: null }];
    case "edit":
      return [{ type: "edit", args: { action: action_request.action, args: decision.value } }];
    default:
      // A whole answer in Agent Inbox's own words, as a resume hands it over, stays what it is.
      return isInboxAnswer(decision.value) ? decision.value : [{ type: "response", args: decision.value }];
  }
}

function isInboxAnswer(value: unknown): boolean {
  const first: unknown = Array.isArray(value) ? value[0] : undefined;
  return ["accept", "ignore", "response", "edit"].includes(String((first as { type?: unknown } | undefined)?.type));
}
