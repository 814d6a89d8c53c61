/**
 * Judges a group as the contract says, commit by commit, inside one transaction that holds the locks of its threads: reads
 * what the operations ask for, asks the contract's judges, stores the changes of what they accept.
 *
 * Slow, several round trips, and rare: it runs where a commit is likely to be refused, and for deletions.
 */

import { type Commit, type HoldfastError, isHoldfastError, type Verdict } from "holdfast";
import type { Change } from "../memory/change.ts";
import { Draft, judge } from "../memory/judge.ts";
import { lockThreads } from "./commit-function.ts";
import type { Connections } from "./connections.ts";
import type { PgClient } from "./driver.ts";
import { BEGIN, idTooLong, isEntryTooLarge } from "./failure.ts";
import { assertIds, type ChangeOf, planChanges } from "./plan.ts";
import { statement } from "./statement.ts";
import { StoredView } from "./stored-view.ts";
import { packId, quote } from "./text.ts";

export class JudgedCommit {
  readonly #connections: Connections;
  readonly #schema: string;
  readonly #group: readonly Commit[];
  /** Refused before they are judged, by their place in the group. */
  readonly #refused = new Map<number, HoldfastError>();
  #verdicts: Verdict[] = [];
  /** The effects and runs that this transaction has stored, see {@link nameOf}. */
  readonly #made = new Set<string>();

  constructor(connections: Connections, schema: string, group: readonly Commit[]) {
    this.#connections = connections;
    this.#schema = schema;
    this.#group = group;
    for (const [at, commit] of group.entries()) {
      const error = idError(commit);
      if (error !== undefined) this.#refused.set(at, error);
    }
  }

  /** Of the last attempt. */
  get verdicts(): readonly Verdict[] {
    return this.#verdicts;
  }

  /** One transaction. Throws what pg throws; may be called again then. */
  async attempt(owner: readonly [id: string, group: number, seconds: number]): Promise<void> {
    for (;;) {
      const tooLarge = await this.#connections.using((client) => this.#transaction(client, owner));
      if (tooLarge === undefined) return;
      this.#refused.set(tooLarge, idTooLong(this.#connections.name));
    }
  }

  /** Resolves with the place of a commit whose ids are too long, where nothing was stored because of it. */
  async #transaction(client: PgClient, owner: readonly unknown[]): Promise<number | undefined> {
    // Where the network fails half way, the server does not keep the locks until it notices.
    await client.query(
      `${BEGIN}; set local idle_in_transaction_session_timeout = ${this.#connections.answerTimeoutMs}`,
    );
    try {
      this.#verdicts = [];
      // The owner's row first, then the threads: the order in which every commit takes its locks.
      await client.query(...statement(this.#schema, { owner, threads: [] }, { texts: [], bytes: [] }));
      await this.inside(client);
      await client.query("commit");
      return undefined;
    } catch (error) {
      await client.query("rollback").catch(() => {});
      if (isEntryTooLarge(error) && this.#verdicts.length > 0) return this.#verdicts.length - 1;
      throw error;
    }
  }

  /** Judges and stores inside the transaction that is open. Throws what pg throws. */
  async inside(client: PgClient): Promise<void> {
    this.#verdicts = [];
    const commits = this.#group.filter((_, place) => !this.#refused.has(place));
    const threads = [...new Set(commits.flat().map((op) => op.thread))].map((id) => [packId(id)]);
    await client.query(`select ${lockThreads("$1")}`, [JSON.stringify(threads)]);
    const view = await StoredView.read(client, this.#schema, commits);
    const draft = new Draft(view);
    const isNew = (change: Shared) => !isStored(view, change) && !this.#made.has(nameOf(change));
    this.#made.clear();
    for (const [at, commit] of this.#group.entries()) {
      const refused = this.#refused.get(at);
      const { verdict, changes } = refused === undefined ? judge(draft, commit) : { verdict: refused, changes: [] };
      this.#verdicts.push(verdict);
      for (const change of changes) draft.apply(change);
      await this.#store(client, changes, draft, isNew);
    }
  }

  async #store(
    client: PgClient,
    changes: readonly Change[],
    draft: Draft,
    isNew: (change: Shared) => boolean,
  ): Promise<void> {
    for (const part of split(changes)) {
      if ("deleted" in part) {
        const { thread, digest, era } = part.deleted;
        await client.query(`select ${quote(this.#schema)}.holdfast_delete_thread_1($1, $2, $3)`, [
          packId(thread),
          digest,
          era,
        ]);
      } else {
        // Changes before a deletion of their thread belong to the era before it.
        const plan = planChanges(part.changes, (thread) => part.eras.get(thread) ?? draft.era(thread), isNew);
        await client.query(...statement(this.#schema, plan.parts, plan));
        for (const change of part.changes) if (isShared(change)) this.#made.add(nameOf(change));
      }
    }
  }
}

/** What is unique in the whole store, while locks are those of threads. */
type Shared = ChangeOf<"effect" | "run">;

const isShared = (change: Change): change is Shared => change.kind === "effect" || change.kind === "run";
const nameOf = (change: Shared) => `${change.kind} ${change.kind === "effect" ? change.row.key : change.row.id}`;
const isStored = (view: StoredView, change: Shared) =>
  (change.kind === "effect" ? view.effect(change.row.key) : view.run(change.row.id)) !== undefined;

type Deletion = ChangeOf<"delete">;
type Part =
  | { readonly changes: readonly Change[]; readonly eras: ReadonlyMap<string, number> }
  | { readonly deleted: Deletion };

/** Deletions, and what lies between them, in order. */
function split(changes: readonly Change[]): Part[] {
  const parts: Part[] = [];
  let after: Change[] = [];
  const eras = new Map<string, number>();
  for (const change of changes.toReversed()) {
    if (change.kind !== "delete") {
      after.push(change);
      continue;
    }
    if (after.length > 0) parts.push({ changes: after.toReversed(), eras: new Map(eras) });
    after = [];
    parts.push({ deleted: change });
    eras.set(change.thread, change.era - 1);
  }
  if (after.length > 0) parts.push({ changes: after.toReversed(), eras });
  return parts.toReversed();
}

function idError(commit: Commit): HoldfastError | undefined {
  try {
    assertIds(commit);
    return undefined;
  } catch (error) {
    if (isHoldfastError(error, "INVALID_ID")) return error;
    throw error;
  }
}
