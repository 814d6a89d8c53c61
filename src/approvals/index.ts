/** `holdfast/approvals`: people decide over HTTP, and threads go on. */

export type { Authenticate, Identity } from "./access.ts";
export type { ThreadRef } from "./back-off.ts";
export { type Approvals, type ApprovalsOptions, createApprovals, type FailureContext } from "./create-approvals.ts";
export type { SweepResult } from "./sweep.ts";
export type { Graphs, ServedGraph } from "./thread-runner.ts";
