/**
 * A backend whose commits fail on demand, in front of any real one.
 *
 * Faults come from wrapping, never from hooks in production code. One commit group of a plan fails:
 * - `before`: nothing reached the backend; the caller gets an error.
 * - `after`: the backend has done it; the caller gets an error all the same, as when an answer is lost.
 * - `gate`: the backend has done it; the caller gets the true answer when the plan's promise says so.
 * Database transactions count as commit groups. Reads and `close` always reach the backend.
 */

import type {
  Backend,
  Capabilities,
  CheckpointQuery,
  Commit,
  DueRunsQuery,
  EffectQuery,
  Loaded,
  RunQuery,
  Verdict,
  WaitQuery,
} from "../backend.ts";
import { HoldfastError } from "../errors.ts";

export interface FaultPlan {
  /** The commit group that fails, from 1; counted from the construction of the {@link FaultyBackend}. */
  readonly commit: number;
  readonly mode: "before" | "after" | "gate";
  /** `once`: only that group. `forever`: that one and every later one. Default `once`. */
  readonly times?: "once" | "forever";
  /** What the caller gets. Default: a {@link HoldfastError} with code STORAGE_FAILED. */
  readonly error?: () => unknown;
  /** For mode `gate`: the answer waits for it. A rejection of it becomes the answer. */
  readonly gate?: Promise<void>;
}

export class FaultyBackend implements Backend {
  readonly #backend: Backend;
  readonly #plan: FaultPlan;
  #commits = 0;
  #injected = 0;
  readonly transaction?: NonNullable<Backend["transaction"]>;
  readonly watch?: NonNullable<Backend["watch"]>;
  readonly heartbeat?: NonNullable<Backend["heartbeat"]>;

  /** Everything goes to `backend`, which is not closed by anything but {@link close}. */
  constructor(backend: Backend, plan: FaultPlan) {
    if (!Number.isInteger(plan.commit) || plan.commit < 1) {
      throw new HoldfastError(
        "INVALID_ARGUMENT",
        `A fault plan's commit is a whole number from 1, not ${plan.commit}.`,
      );
    }
    if (plan.mode === "gate" && plan.gate === undefined) {
      throw new HoldfastError("INVALID_ARGUMENT", 'A fault plan of mode "gate" needs the promise `gate`.');
    }
    this.#backend = backend;
    this.#plan = plan;
    const transaction = backend.transaction?.bind(backend);
    const watch = backend.watch?.bind(backend);
    const heartbeat = backend.heartbeat?.bind(backend);
    if (watch !== undefined) this.watch = watch;
    if (heartbeat !== undefined) this.heartbeat = heartbeat;
    if (transaction !== undefined) this.transaction = (body) => this.#faulty(() => transaction(body));
  }

  /** Commit groups seen so far. */
  get commits(): number {
    return this.#commits;
  }

  /** Faults injected so far. */
  get injected(): number {
    return this.#injected;
  }

  get name(): string {
    return this.#backend.name;
  }

  get capabilities(): Capabilities {
    return this.#backend.capabilities;
  }

  get owner(): string {
    return this.#backend.owner;
  }

  commit(group: readonly Commit[]): Promise<readonly Verdict[]> {
    return this.#faulty(async () => this.#backend.commit(group));
  }

  load(thread: string, ns: string, id: string | undefined): Promise<Loaded> {
    return this.#backend.load(thread, ns, id);
  }

  checkpoints(query: CheckpointQuery): ReturnType<Backend["checkpoints"]> {
    return this.#backend.checkpoints(query);
  }

  ancestors(thread: string, ns: string, id: string): ReturnType<Backend["ancestors"]> {
    return this.#backend.ancestors(thread, ns, id);
  }

  items(thread: string, list: string, length: number): ReturnType<Backend["items"]> {
    return this.#backend.items(thread, list, length);
  }

  blobs(thread: string, hashes: readonly string[]): ReturnType<Backend["blobs"]> {
    return this.#backend.blobs(thread, hashes);
  }

  effects(query: EffectQuery): ReturnType<Backend["effects"]> {
    return this.#backend.effects(query);
  }

  waits(query: WaitQuery): ReturnType<Backend["waits"]> {
    return this.#backend.waits(query);
  }

  decisions(query: Parameters<Backend["decisions"]>[0]): ReturnType<Backend["decisions"]> {
    return this.#backend.decisions(query);
  }

  decision(thread: string, seq: number | undefined): ReturnType<Backend["decision"]> {
    return this.#backend.decision(thread, seq);
  }

  runs(query: RunQuery): ReturnType<Backend["runs"]> {
    return this.#backend.runs(query);
  }

  dueRuns(query: DueRunsQuery): ReturnType<Backend["dueRuns"]> {
    return this.#backend.dueRuns(query);
  }

  nextDue(query: Parameters<Backend["nextDue"]>[0]): ReturnType<Backend["nextDue"]> {
    return this.#backend.nextDue(query);
  }

  now(): ReturnType<Backend["now"]> {
    return this.#backend.now();
  }

  ownerAlive(owner: string): Promise<boolean> {
    return this.#backend.ownerAlive(owner);
  }

  close(): Promise<void> {
    return this.#backend.close();
  }

  async #faulty<T>(commit: () => Promise<T>): Promise<T> {
    this.#commits += 1;
    const number = this.#commits;
    const { mode, times = "once", gate } = this.#plan;
    const hit = times === "once" ? number === this.#plan.commit : number >= this.#plan.commit;
    if (!hit) return commit();
    this.#injected += 1;
    if (mode === "before") throw this.#error(number);
    const answer = await commit();
    if (mode === "after") throw this.#error(number);
    await gate;
    return answer;
  }

  #error(number: number): unknown {
    const { mode, error } = this.#plan;
    if (error !== undefined) return error();
    const what = mode === "before" ? "nothing of it was stored" : "it was stored, and this answer says otherwise";
    return new HoldfastError("STORAGE_FAILED", `Injected failure of commit group ${number}: ${what}.`, {
      details: { commit: number, mode },
    });
  }
}
