/**
 * Applies groups of commits.
 *
 * The ordinary way is one statement, one round trip: `holdfast_commit_1` with a plan that assumes that nothing refuses any
 * of the group. Where an assumption fails, nothing was stored, and the group is judged row by row under the locks of its
 * threads (`judged-commit.ts`).
 *
 * A group whose answer was lost is looked up by its number in the owner's row before it is sent again; a late arrival of the
 * first sending is refused by the same row. So a lost connection costs a retry, and never a second application.
 */

import { setTimeout as wait } from "node:timers/promises";
import { channels, type Commit, HoldfastError, type Verdict } from "holdfast";
import type { Connections } from "./connections.ts";
import {
  BEGIN,
  CONFLICTS_MAX,
  GIVEN_UP,
  isConflict,
  isConnectionLost,
  isEntryTooLarge,
  isTransient,
  ONE_SNAPSHOT,
  sqlState,
  storageError,
} from "./failure.ts";
import { JudgedCommit } from "./judged-commit.ts";
import type { CheckedOptions } from "./options.ts";
import type { Owner } from "./owners.ts";
import { planGroup } from "./plan.ts";
import type { Plan } from "./planner.ts";
import { statement } from "./statement.ts";

const PAUSE_MS_MAX = 300;

export class Committer {
  readonly #connections: Connections;
  readonly #owner: Owner;
  readonly #options: CheckedOptions;
  /** Number of the last group that was sent. */
  #sent = 0;
  /** Whether the ordinary way has to begin a transaction of its own, because the role's would have one snapshot. */
  #begins = false;
  #last: Promise<unknown> = Promise.resolve();

  constructor(connections: Connections, owner: Owner, options: CheckedOptions) {
    this.#connections = connections;
    this.#owner = owner;
    this.#options = options;
  }

  /** Groups are applied in the order of the calls: each when the one before it has been answered. */
  commit(group: readonly Commit[]): Promise<readonly Verdict[]> {
    const verdicts = this.#last.then(() => this.#commit(group));
    this.#last = verdicts.catch(() => {});
    return verdicts;
  }

  /** Resolves when everything that was handed over has been answered. */
  async idle(): Promise<void> {
    await this.#last;
  }

  async #commit(group: readonly Commit[]): Promise<readonly Verdict[]> {
    if (group.length === 0) return [];
    const plan = planGroup(group);
    const accepted = group.map(() => undefined);
    if (plan !== undefined && (await this.#stored((number) => this.#send(plan, number)))) return accepted;
    const judged = new JudgedCommit(this.#connections, this.#options.schema, group);
    const stored = await this.#stored(async (number) => {
      await judged.attempt(this.#owner.stamp(number));
      return true;
    });
    if (!stored) throw new TypeError("a judged commit assumes nothing");
    return judged.verdicts;
  }

  /** Sends until it is certain that the group was applied once, or (false) that an assumption of it does not hold. */
  async #stored(send: (number: number) => Promise<boolean>): Promise<boolean> {
    const giveUpAt = performance.now() + this.#options.retryForMs;
    for (let tries = 0, conflicts = 0; ; tries++) {
      this.#sent += 1;
      const number = this.#sent;
      try {
        return await send(number);
      } catch (error) {
        if (isTransient(error) || isConflict(error)) {
          conflicts += 1;
          if (conflicts >= CONFLICTS_MAX) throw storageError(this.#connections.name, error);
        } else if (isConnectionLost(error)) {
          if (await this.#lookUp(number, giveUpAt, error)) return true;
          if (performance.now() >= giveUpAt) throw storageError(this.#connections.name, error);
        } else if (sqlState(error) === GIVEN_UP && tries < CONFLICTS_MAX) {
          // The owner's row was removed: it had been dead for days by the server's clock.
          await this.#connections.retrying(() => this.#owner.register());
        } else {
          throw storageError(this.#connections.name, error);
        }
        await wait(Math.random() * Math.min(PAUSE_MS_MAX, 5 * 2 ** tries));
      }
    }
  }

  /** Whether a group has happened whose answer was lost. Rejects where it cannot be found out in time. */
  async #lookUp(number: number, giveUpAt: number, lost: unknown): Promise<boolean> {
    const look = () => this.#owner.hasHappened(number);
    const happened = await this.#connections.retrying(look, { giveUpAt, alsoClosed: true });
    if (happened !== undefined) return happened;
    throw new HoldfastError(
      "STORAGE_FAILED",
      `${this.#connections.name} lost the answer to a commit, and the row that would say whether it has happened is gone. ` +
        "Read the thread's state before anything is repeated.",
      { cause: lost },
    );
  }

  async #send(plan: Plan, number: number): Promise<boolean> {
    const parts = { ...plan.parts, owner: this.#owner.stamp(number) };
    publishInside();
    const [text, values] = statement(this.#options.schema, parts, plan);
    try {
      await (this.#begins ? this.#inTransaction(text, values) : this.#connections.once(text, values));
      return true;
    } catch (error) {
      if (isConflict(error) || isEntryTooLarge(error)) return false;
      if (sqlState(error) !== ONE_SNAPSHOT || this.#begins) throw error;
      this.#begins = true;
      return this.#send(plan, number);
    }
  }

  #inTransaction(text: string, values: unknown[]): Promise<void> {
    return this.#connections.using(async (client) => {
      await client.query(BEGIN);
      try {
        await client.query(text, values);
      } catch (error) {
        await client.query("rollback").catch(() => {});
        throw error;
      }
      await client.query("commit");
    });
  }
}

function publishInside(): void {
  if (channels.commitInside.hasSubscribers) channels.commitInside.publish(undefined);
}
