/** Operations as arguments of the commit script. */

import type { Commit, Op } from "holdfast";
import { wellFormed } from "../ids.ts";
import * as ids from "./ids.ts";
import {
  digitsBefore,
  packCheckpoint,
  packData,
  packDecision,
  packEffect,
  packItems,
  packRun,
  packText,
  packWait,
  packWrites,
} from "./rows.ts";

type OpOf<K extends Op["kind"]> = Extract<Op, { kind: K }>;
export type Argument = string | Buffer;

/** What was decided outside about the writes of a commit, see `plan.ts`. */
export interface Planned {
  /** By the place of the operation in the commit. */
  readonly rows: ReadonlyMap<number, PlannedWrites>;
  /** What the plan is made from: refused where it has changed since. */
  readonly guards: readonly { readonly thread: string; readonly prefix: string; readonly sha: string }[];
}

export type PlannedWrites =
  | { readonly kind: "put"; readonly slot: number; readonly body: string }
  | { readonly kind: "nothing" }
  | { readonly kind: "refused" };

/** Threads of a group: each is sent once and named by its number. */
export class ThreadNumbers {
  readonly args: Argument[] = [];
  readonly #numbers = new Map<string, string>();

  get count(): number {
    return this.#numbers.size;
  }

  of(thread: string): string {
    let number = this.#numbers.get(thread);
    if (number === undefined) {
      this.args.push(ids.threadDigest(thread), thread);
      number = `${this.#numbers.size + 1}`;
      this.#numbers.set(thread, number);
    }
    return number;
  }
}

/** The commit with its size before it. @throws {HoldfastError} INVALID_ID */
export function commitArgs(commit: Commit, threads: ThreadNumbers, planned?: Planned): Argument[] {
  const args: Argument[] = [`${commit.length + (planned?.guards.length ?? 0)}`];
  for (const { thread, prefix, sha } of planned?.guards ?? []) args.push("G", threads.of(thread), prefix, sha);
  for (const [at, op] of commit.entries()) {
    const plan = planned?.rows.get(at);
    if (op.kind === "deleteThread") args.push("K", threads.of(op.thread));
    else if (plan !== undefined) pushPlanned(args, op as OpOf<"writes">, threads, plan);
    else pushOp(args, op, threads);
  }
  args.unshift(`${args.length}`);
  return args;
}

function pushPlanned(args: Argument[], op: OpOf<"writes">, threads: ThreadNumbers, plan: PlannedWrites): void {
  const place = [threads.of(op.thread), `${op.era}`];
  switch (plan.kind) {
    case "put":
      args.push("P", ...place, ...writesPut(op, plan.slot, plan.body));
      return;
    case "nothing":
      args.push("N", ...place);
      return;
    case "refused":
      args.push("R", ...place);
      return;
    default: {
      const never: never = plan;
      return never;
    }
  }
}

function pushOp(args: Argument[], op: Exclude<Op, { kind: "deleteThread" }>, threads: ThreadNumbers): void {
  const place = [threads.of(op.thread), `${op.era}`];
  switch (op.kind) {
    case "checkpoint": {
      const heads = op.heads?.map((head) => (head === null ? "-" : `+${head}`)) ?? [];
      args.push("C", ...place, op.heads === undefined ? "-1" : `${heads.length}`, ...heads);
      args.push(op.ns, op.id, ids.checkpointField(op.ns, op.id), packCheckpoint(op));
      return;
    }
    case "writes":
      if (op.slot !== undefined) args.push("P", ...place, ...writesPut(op, op.slot, op.body));
      else args.push("W", ...place, ...writesPut(op, 0, op.body), isRegular(op) ? "1" : "0");
      return;
    case "items": {
      args.push("I", ...place, ids.itemsField(op.list, op.start), packItems(op), ids.listPrefix(op.list));
      if (op.base === undefined) args.push("", "");
      else args.push(ids.baseField(op.list), `${op.base.length}:${wellFormed(op.base.list)}`);
      return;
    }
    case "blob":
      args.push("B", ...place, ids.blobField(op.hash), packData(op.data));
      return;
    case "effect":
      args.push("E", ...place, wellFormed(op.row.key), op.expect === null ? "" : `${op.expect}`);
      args.push(op.row.ordinal === -1 ? "g" : "", packEffect(op.row));
      return;
    case "wait":
      args.push("Q", ...place, wellFormed(op.row.id), op.expect === null ? "" : `${op.expect}`, packWait(op.row));
      return;
    case "endWait":
      args.push("X", ...place, wellFormed(op.id));
      return;
    case "decision":
      args.push("D", ...place, `${op.row.seq}`, ids.decisionField(op.row.seq), packDecision(op.row));
      return;
    case "run":
      args.push("U", ...place, wellFormed(op.row.id), op.expect === null ? "" : `${op.expect}`);
      args.push(digitsBefore(op.row.status), packRun(op.row), packText(op.row.body));
      return;
    case "fence":
      args.push("F", ...place, wellFormed(op.run), `${op.epoch}`);
      return;
    default: {
      const never: never = op;
      return never;
    }
  }
}

function writesPut(op: OpOf<"writes">, slot: number, body: string): string[] {
  const prefix = ids.writesPrefix(op.ns, op.checkpoint, op.task);
  return [prefix, prefix + ids.slotName(slot), packWrites({ path: op.path, run: op.run, body })];
}

/** Whether no index is negative, as those of special writes are: then these take no place of theirs. In doubt, not. */
function isRegular(op: OpOf<"writes">): boolean {
  return !/\[\s*-\d/.test(op.body);
}
