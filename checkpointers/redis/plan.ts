/**
 * Compares the writes of a commit with what is stored of their tasks, as the contract's `planWrites` does: values as JSON,
 * which is not for a script. The plan is sent with a digest of the rows it was made from; where they have changed
 * meanwhile the script answers "look" once more.
 */

import { type Commit, planWrites, type Verdict, type WriteRow } from "holdfast";
import type { Planned, PlannedWrites } from "./commit-args.ts";
import type { Connection } from "./connection.ts";
import { threadDigest, writesPrefix } from "./ids.ts";
import { unpackWrites } from "./rows.ts";
import { lua, script } from "./script.ts";

export interface Look {
  readonly planned: Planned;
  /** By the place of the operation that is refused. */
  readonly refusals: ReadonlyMap<number, Verdict>;
}

/** Per task: a digest as the commit script makes it, then members and values. */
const lookScript = script(lua`
local found = {}
for k = 1, #ARGV, 2 do
  local T, prefix = ARGV[k], ARGV[k + 1]
  local members = alive(T) and begins(Z .. T, prefix) or {}
  local values = mget(H .. T, members)
  found[#found + 1] = { redis.sha1hex(table.concat(members) .. table.concat(values)), members, values }
end
return found
`);

interface Task {
  readonly thread: string;
  readonly prefix: string;
  rows: readonly WriteRow[];
}

export async function lookAndPlan(connection: Connection, commit: Commit): Promise<Look> {
  const tasks = tasksOf(commit);
  const args = [...tasks.values()].flatMap((task) => [threadDigest(task.thread), task.prefix]);
  const found = (await connection.runLast(lookScript, ...args)) as [Buffer, Buffer[], Buffer[]][];
  const guards = [...tasks.values()].map((task, at) => {
    const [sha, members, values] = found[at] as [Buffer, Buffer[], Buffer[]];
    const { checkpoint, prefixBytes } = task;
    task.rows = members.map((member, row) =>
      unpackWrites(checkpoint, member.subarray(prefixBytes), values[row] as Buffer),
    );
    return { thread: task.thread, prefix: task.prefix, sha: sha.toString() };
  });
  const rows = new Map<number, PlannedWrites>();
  const refusals = new Map<number, Verdict>();
  for (const [at, op] of commit.entries()) {
    if (op.kind === "deleteThread") {
      for (const task of tasks.values()) if (task.thread === op.thread) task.rows = [];
    }
    if (op.kind !== "writes") continue;
    const task = tasks.get(keyOf(op)) as Task;
    const { row, verdict } = planWrites(op, task.rows);
    if (verdict !== undefined) {
      rows.set(at, { kind: "refused" });
      refusals.set(at, verdict);
      break;
    }
    rows.set(at, row === undefined ? { kind: "nothing" } : { kind: "put", slot: row.slot, body: row.body });
    if (row !== undefined) task.rows = [...task.rows.filter((old) => old.slot !== row.slot), row];
  }
  return { planned: { rows, guards }, refusals };
}

type WritesOp = Extract<Commit[number], { kind: "writes" }>;

const keyOf = (op: WritesOp) => `${op.thread.length} ${op.thread}${writesPrefix(op.ns, op.checkpoint, op.task)}`;

function tasksOf(commit: Commit): Map<string, Task & { readonly checkpoint: string; readonly prefixBytes: number }> {
  const tasks = new Map<string, Task & { readonly checkpoint: string; readonly prefixBytes: number }>();
  for (const op of commit) {
    if (op.kind !== "writes" || tasks.has(keyOf(op))) continue;
    const prefix = writesPrefix(op.ns, op.checkpoint, op.task);
    // Members are read from where the task stands.
    const prefixBytes = Buffer.byteLength(writesPrefix(op.ns, op.checkpoint, op.task)) - taskBytes(op.task);
    tasks.set(keyOf(op), { thread: op.thread, prefix, rows: [], checkpoint: op.checkpoint, prefixBytes });
  }
  return tasks;
}

function taskBytes(task: string): number {
  const bytes = Buffer.byteLength(task);
  return bytes + 1 + `${bytes}`.length;
}
