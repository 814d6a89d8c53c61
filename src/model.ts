/**
 * The rows of Holdfast: what is kept, in plain data, the same for every backend.
 *
 * A backend stores these fields and never looks inside an {@link Encoded}. Three kinds of row are immutable once
 * written and may be shared by any number of branches: blobs, list items and (regular) writes.
 */

/** A value as text. Begins with the codec's name and version, see `serde.ts`. Opaque to backends. */
export type Encoded = string;

/** A thread: one lineage of checkpoints in the root namespace. Exists from its first row until it is deleted. */
export interface ThreadRow {
  readonly thread: string;
  /** How often this thread id has been deleted before: runs that loaded an earlier era are refused. */
  readonly era: number;
}

/** A stored checkpoint. Unique by (thread, ns, id). */
export interface CheckpointRow {
  readonly thread: string;
  /** Checkpoint namespace; "" is the root. */
  readonly ns: string;
  readonly id: string;
  readonly parent: string | undefined;
  /** LangGraph's `metadata.source`: "input" | "loop" | "update" | "fork". Decides what counts as committed. */
  readonly source: string;
  /** Everything else: versions, metadata, small values, references to items and blobs. */
  readonly body: Encoded;
}

/**
 * The writes of one `putWrites` call (regular), or one special write. Unique by (thread, ns, checkpoint, task, slot).
 * `body` is `[[idx, channel, value], …]`.
 */
export interface WriteRow {
  /** The checkpoint the task ran from. */
  readonly checkpoint: string;
  readonly task: string;
  /** LangGraph's task path, for the order of writes; "" for input and commands. */
  readonly path: string;
  /** 0, 1, … for regular calls; −1 … −4 for the special write of that LangGraph index. */
  readonly slot: number;
  /** The run that wrote it; undefined for writes made outside a run. */
  readonly run: string | undefined;
  readonly body: Encoded;
}

/** Consecutive items of a list. Unique by (thread, list, start). `body` is an array of `count` items. */
export interface ItemsRow {
  readonly list: string;
  readonly start: number;
  readonly count: number;
  readonly body: Encoded;
}

/** A list continues another one's first `length` items. */
export interface ListBase {
  readonly list: string;
  readonly length: number;
}

/**
 * An effect's state.
 *
 * `intent` begun, no outcome · `done` · `failed` the body threw, the outside may have seen it · `not-executed` nothing
 * happened (by the body's own word, by `verify` or by a person) · `given-up` by a person.
 */
export type EffectStatus = "intent" | "done" | "failed" | "not-executed" | "given-up";

/** A recorded side effect. Unique by key. */
export interface EffectRow {
  /** 64 hex digits, handed to the outside world as idempotency key. */
  readonly key: string;
  readonly thread: string;
  /** Namespace, checkpoint and task the call came from. */
  readonly ns: string;
  readonly checkpoint: string;
  readonly task: string;
  readonly name: string;
  /** Digest of the canonical input. */
  readonly digest: string;
  /** Place among the equal calls of the task, from 0; −1 where the key was given by the user. */
  readonly ordinal: number;
  readonly status: EffectStatus;
  /** Grows by one with every change; a change names the revision it was made from. */
  readonly rev: number;
  /** How often the body was begun. */
  readonly attempt: number;
  /** The owner of the last attempt, see `Backend.owner`. */
  readonly owner: string;
  /** Input, checkpoint map, and outcome, error or decision. */
  readonly body: Encoded;
}

/**
 * Why a thread does not go on by itself.
 *
 * `question` asked with `ask` · `interrupt` LangGraph's own `interrupt()`, or a pause of another library · `event`
 * `waitFor` · `timer` `sleep` · `settle` an effect whose outcome a person must tell.
 */
export type WaitKind = "question" | "interrupt" | "event" | "timer" | "settle";

/**
 * `open` nobody has decided · `answered` decided, and no run has taken the decision yet: the thread can go on ·
 * `consumed` a run went on with it · `superseded` the thread went on without it (new input, an edit, a fork).
 */
export type WaitStatus = "open" | "answered" | "consumed" | "superseded";

/** A question, a timer or an event that a thread waits for. Unique by id in the whole store. */
export interface WaitRow {
  /** 32 hex digits; also the id of the interrupt that LangGraph shows. */
  readonly id: string;
  readonly thread: string;
  /** Namespace, checkpoint and task that wait. */
  readonly ns: string;
  readonly checkpoint: string;
  readonly task: string;
  readonly kind: WaitKind;
  /** What it is called: the question, the event, the effect. */
  readonly name: string;
  /** Digest of what was shown. */
  readonly digest: string;
  readonly status: WaitStatus;
  /** Milliseconds since 1970 by the writer's clock. */
  readonly openedAt: number;
  /** When something happens by itself (deadline, timeout, wake-up), in milliseconds since 1970; undefined = never. */
  readonly due: number | undefined;
  readonly graph: string | undefined;
  /** Who is asked. */
  readonly assignee: string | undefined;
  /** Whose thread it is: queries of one owner never see another's. */
  readonly owner: string | undefined;
  /** Place of its decision in the thread's chain. */
  readonly decision: number | undefined;
  /** The backend owner that is taking the thread on, see `Backend.owner`; so that two do not. */
  readonly holder: string | undefined;
  /** Grows by one with every change; a change names the revision it was made from. */
  readonly rev: number;
  /** What was shown, and how an answer is checked. */
  readonly body: Encoded;
}

/** One link of a thread's chain of decisions. Unique by (thread, seq); never changed. */
export interface DecisionRow {
  readonly thread: string;
  /** 1, 2, 3 … without a gap. */
  readonly seq: number;
  /** The wait it decides. */
  readonly wait: string;
  /** 64 hex digits of SHA-256 over the hash before it, wait and body, see `decisionHash`. */
  readonly hash: string;
  readonly body: Encoded;
}

/**
 * `queued` may be claimed from `due` on · `running` a worker has it · `waiting` the thread waits for an answer, an event or a
 * timer · `retrying` failed, and is tried again from `due` on · `parked` needs a person · `succeeded`, `failed`, `cancelled`
 * ended.
 */
export type RunStatus = "queued" | "running" | "waiting" | "retrying" | "parked" | "succeeded" | "failed" | "cancelled";

/**
 * What may follow each status. From `running`: `queued` is handed back, `running` is asked to end or, in a new epoch, taken over
 * by another worker. From `queued`: `queued` is given another input before it has begun. Nothing follows an end.
 */
export const RUN_MOVES: Readonly<Record<RunStatus, readonly RunStatus[]>> = {
  queued: ["queued", "running", "cancelled"],
  running: ["queued", "running", "waiting", "retrying", "parked", "succeeded", "failed", "cancelled"],
  waiting: ["queued", "parked", "cancelled"],
  retrying: ["queued", "running", "parked", "cancelled"],
  parked: ["queued", "cancelled"],
  succeeded: [],
  failed: [],
  cancelled: [],
};

/**
 * The `Run.status` of LangGraph's servers that comes nearest to each. A run that its deadline has cancelled is `timeout` there.
 */
export const LANGGRAPH_STATUS = {
  queued: "pending",
  running: "running",
  waiting: "interrupted",
  retrying: "pending",
  parked: "interrupted",
  succeeded: "success",
  failed: "error",
  cancelled: "interrupted",
} as const satisfies Readonly<Record<RunStatus, string>>;

/** Whether nothing may follow this status. */
export function isEnded(status: RunStatus): boolean {
  return RUN_MOVES[status].length === 0;
}

/** A piece of work on a thread that a worker claims, executes and hands back. Unique by id in the whole store. */
export interface RunRow {
  readonly id: string;
  readonly thread: string;
  readonly graph: string;
  readonly status: RunStatus;
  /** Grows by one with every change; a change names the revision it was made from. */
  readonly rev: number;
  /** Grows by one with every claim; 0 = never claimed. What a worker does for the run is fenced by it. */
  readonly epoch: number;
  /** The backend owner that has claimed it, see `Backend.owner`; only while it is running. */
  readonly worker: string | undefined;
  /** While queued or retrying: from when on it may be claimed, in milliseconds since 1970 by the backend's clock. */
  readonly due: number | undefined;
  /** A whole number; higher ones are claimed first. */
  readonly priority: number;
  /** Idempotency key of the start. Unique in the whole store; never changes. */
  readonly key: string | undefined;
  /** Whose thread it is: queries of one owner never see another's. */
  readonly owner: string | undefined;
  /** Milliseconds since 1970 by the backend's clock. The runs of a thread go by (createdAt, id), so it never changes. */
  readonly createdAt: number;
  /** Input, options, and what became of it. */
  readonly body: Encoded;
}
