/** Holdfast: durable execution for LangGraph.js. */
export {
  type Backend,
  type BackendDurability,
  type Capabilities,
  type CheckpointQuery,
  type Commit,
  closedError,
  type EffectQuery,
  entriesOf,
  judgeEffect,
  judgeEra,
  judgeHead,
  judgeItems,
  type Loaded,
  type Op,
  planWrites,
  type StoredCheckpoint,
  type Verdict,
} from "./backend.ts";
export {
  EffectInDoubtError,
  EffectMismatchError,
  type ErrorCode,
  type ErrorOptions,
  errorCodes,
  ForkedEffectError,
  HoldfastError,
  isHoldfastError,
  NotExecuted,
} from "./errors.ts";
export { type CommitEvent, channels, type EffectEvent, type LargeCheckpointEvent } from "./events.ts";
export type {
  CheckpointRow,
  EffectRow,
  EffectStatus,
  Encoded,
  ItemsRow,
  ListBase,
  ThreadRow,
  WriteRow,
} from "./model.ts";
