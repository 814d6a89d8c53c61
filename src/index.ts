/** Holdfast: durable execution for LangGraph.js. */
export {
  type Backend,
  type BackendDurability,
  type Capabilities,
  type CheckpointQuery,
  type Commit,
  closedError,
  deletedWhileRead,
  type DueRunsQuery,
  type EffectQuery,
  type Loaded,
  type Op,
  type RunQuery,
  type StoredCheckpoint,
  type TransactionAnswer,
  type Verdict,
  type WaitQuery,
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
export {
  type CommitEvent,
  channels,
  type EffectEvent,
  type LargeCheckpointEvent,
  type SwallowedWaitEvent,
} from "./events.ts";
export {
  endedWait,
  entriesOf,
  judgeDecision,
  judgeEffect,
  judgeEra,
  judgeFence,
  judgeHead,
  judgeItems,
  judgeRun,
  judgeWait,
  planWrites,
  type RunFacts,
  type RunNeighbours,
} from "./judges.ts";
export {
  type CheckpointRow,
  type DecisionRow,
  type EffectRow,
  type EffectStatus,
  type Encoded,
  type ItemsRow,
  isEnded,
  type ListBase,
  LANGGRAPH_STATUS,
  RUN_MOVES,
  type RunRow,
  type RunStatus,
  type ThreadRow,
  type WaitKind,
  type WaitRow,
  type WaitStatus,
  type WriteRow,
} from "./model.ts";
export { Checkpointer, type CheckpointerOptions, isCheckpointer } from "./checkpointer.ts";
export { type DurableOptions, durable } from "./durable.ts";
export { type AdoptOptions, adopt } from "./adopt/adopt.ts";
export type { AdoptedThread, AdoptProgress, AdoptReport, AdoptStatus } from "./adopt/report.ts";
export type { AdoptSource, SourceCheckpoint, SourcePlace } from "./adopt/source.ts";
export {
  type Effect,
  type EffectContext,
  type EffectDefinition,
  effect,
  type OnFork,
  type OnUnknown,
  type Schema,
} from "./effect.ts";
export type { SettleRequest } from "./effect-refusals.ts";
export type { Outcome, SettleResult } from "./effect-ledger.ts";
export type { EffectLinks, EffectRecord, RecordedDecision, SettleDecision } from "./effect-record.ts";
export type { Change, DiffPath, TextEdit } from "./diff.ts";
export type { Plain } from "./diff-plain.ts";
export type { Forked, ForkOptions } from "./fork.ts";
export type { ForkableGraph } from "./fork-draft.ts";
export type { ForkMark } from "./fork-mark.ts";
export type { EffectForecast, Forecast, ForkPreview, Prediction } from "./fork-preview.ts";
export type { ForkQuestionDetails } from "./fork-question.ts";
export { stableTaskIds } from "./effect-site.ts";
export { type JournalEvent, type JournalEventName, readJournal } from "./journal.ts";
export { http4xx, nothingHappened } from "./not-executed.ts";
export { type RunnableGraph, type RunResult, type RunResultStatus, run } from "./run.ts";
export type { ValueType } from "./serde.ts";
export type { EffectDeed, HistoryEffect, HistoryEntry, HistoryOptions, HistoryWait } from "./history.ts";
export type { HistoryTask } from "./history-tasks.ts";
export type { ChannelDiff, StateDiff, StatePlace } from "./state-diff.ts";
export { type TimeTravel, timeTravel } from "./time-travel.ts";
export { type Transaction, type TransactionDefinition, transaction } from "./transaction.ts";
export { type Duration, durationMs } from "./durations.ts";
export {
  type Answer,
  type AskOptions,
  ask,
  type Received,
  sleep,
  sleepUntil,
  type WaitForOptions,
  waitFor,
} from "./wait.ts";
export type { AnswerOptions, AnswerResult, BrokenDecision, Decider } from "./wait-ledger.ts";
export type { Decision, DecisionKind, DecisionRecord, DecisionType, OnDeadline, WaitRecord } from "./wait-record.ts";
