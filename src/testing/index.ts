/**
 * `holdfast/testing`: prove your own backend and your own graphs.
 *
 * Programs under the crash matrix import this file too, outside of any test runner: nothing here may load one.
 */

export type { Violation, ViolationKind } from "./crash-checks.ts";
export { type CrashEnd, type CrashMatrixOptions, type CrashProgress, crashMatrix } from "./crash-matrix.ts";
export { CrashMatrixError, type CrashReport } from "./crash-report.ts";
export { faultPoint, watchFaultPoints } from "./fault-points.ts";
export {
  type FaultMode,
  type FaultOutcome,
  type FaultScenario,
  type FaultSweepOptions,
  type FaultSweepReport,
  faultModes,
  faultSweep,
} from "./fault-sweep.ts";
export { type FaultPlan, FaultyBackend } from "./faulty-backend.ts";
export {
  type CountOptions,
  count,
  counted,
  nodeStarted,
  reportResult,
  START_AGAIN,
  stateDirectory,
} from "./program.ts";
export {
  type BackendCase,
  backendCases,
  describeBackend,
  type OpenedBackend,
  runBackendCase,
} from "./describe-backend.ts";
