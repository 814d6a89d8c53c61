/** R6: why a run is where it is, in one reason, and what has to happen next. */

import type { Checkpointer } from "../checkpointer.ts";
import type { WaitRecord } from "../wait-record.ts";
import { ACTIVE } from "./multitask.ts";
import type { RunLedger } from "./run-ledger.ts";
import type { StoredRun } from "./run-record.ts";

export type ReasonCode =
  | "due-later"
  | "behind"
  | "unclaimed"
  | "executing"
  | "worker-gone"
  | "cancelling"
  | "waits"
  | "breakpoint"
  | "retries"
  | "settle"
  | "crash-loop"
  | "succeeded"
  | "failed"
  | "cancelled";

export interface Reason {
  readonly code: ReasonCode;
  /** For people. */
  readonly text: string;
  /** What the run waits for. */
  readonly waits: readonly WaitRecord[];
  /** The run that comes before it. */
  readonly behind?: string;
}

export async function reasonOf(ledger: RunLedger, checkpointer: Checkpointer, stored: StoredRun): Promise<Reason> {
  const { row, record, notes } = stored;
  const reason = (code: ReasonCode, text: string): Reason => ({ code, text, waits: [] });
  switch (row.status) {
    case "queued":
      return queued(ledger, stored);
    case "retrying":
      return reason(
        "retries",
        `It failed ${notes.failures} times (${notes.error?.message}) and is tried again at ${record.due?.toISOString()}.`,
      );
    case "running":
      if (notes.cancel !== undefined)
        return reason("cancelling", `${notes.cancel.by} has cancelled it; its worker has yet to end it.`);
      return (await ledger.backend.ownerAlive(row.worker ?? ""))
        ? reason("executing", `Worker ${row.worker} executes it.`)
        : reason(
            "worker-gone",
            `Its worker ${row.worker} is gone; the next worker that serves ${row.graph} takes it over.`,
          );
    case "waiting":
    case "parked":
      return waiting(checkpointer, stored);
    case "succeeded":
      return reason("succeeded", "It has ended.");
    case "failed":
      return reason("failed", `It has failed: ${notes.error?.message}.`);
    case "cancelled":
      return reason("cancelled", `${notes.cancel?.by} has cancelled it${why(notes.cancel?.reason)}.`);
    default: {
      const never: never = row.status;
      return never;
    }
  }
}

const why = (text: string | undefined): string => (text === undefined ? "" : `: ${text}`);

async function queued(ledger: RunLedger, { row, record }: StoredRun): Promise<Reason> {
  const [first] = await ledger.rows({ thread: row.thread, status: ACTIVE, limit: 1 });
  if (first !== undefined && first.id !== row.id) {
    const text = `Run ${first.id} of the same thread (${first.status}) comes before it.`;
    return { code: "behind", text, waits: [], behind: first.id };
  }
  if (row.due !== undefined && row.due > (await ledger.backend.now()))
    return { code: "due-later", text: `It is due at ${record.due?.toISOString()}.`, waits: [] };
  return { code: "unclaimed", text: `It is due; no worker that serves ${row.graph} has claimed it yet.`, waits: [] };
}

async function waiting(checkpointer: Checkpointer, { row, notes }: StoredRun): Promise<Reason> {
  if (row.status === "parked" && notes.error !== undefined) {
    const text = `${notes.error.message} Find out why, then cancel it, and start another run of the thread.`;
    return { code: "crash-loop", text, waits: [] };
  }
  const waits = await checkpointer.waits({ thread: row.thread, status: ["open", "answered"] });
  if (waits.length === 0)
    return {
      code: "breakpoint",
      text: "It stopped at a breakpoint; cancel it, and start a run without input to go on.",
      waits,
    };
  const names = waits.map(({ kind, name, status }) => `${kind} ${JSON.stringify(name)} (${status})`).join(", ");
  return { code: row.status === "parked" ? "settle" : "waits", text: `It waits for ${names}.`, waits };
}
