/** `holdfast/runs`: runs that go on by themselves, and the workers that execute them. */

export type { Delivery, Handled, ReceiveOptions, Receiving } from "./delivery.ts";
export { type DiagnoseOptions, diagnose, type Finding, type FindingCode } from "./doctor.ts";
export type { Multitask } from "./multitask.ts";
export type { Cancellation, RunError, RunRecord } from "./run-record.ts";
export {
  createRuntime,
  type RunFilter,
  type Runtime,
  type RuntimeOptions,
  type Started,
  type StartOptions,
} from "./runtime.ts";
export type { Reason, ReasonCode } from "./why.ts";
export type { Worker } from "./worker.ts";
export type { WorkerCounts, WorkerOptions } from "./worker-parts.ts";
