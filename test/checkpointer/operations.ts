/** What a caller can do with a thread, as data, and what comes of it, without the ids and times that differ. */

import { Command, RunControl } from "@langchain/langgraph";
import { type BaseCheckpointSaver, type CheckpointTuple, isDeltaSnapshot } from "@langchain/langgraph-checkpoint";
import * as fc from "fast-check";
import type { App, Failures, Shape, Snapshot } from "./shapes.ts";

export type Durability = "sync" | "async" | "exit";

/** `at`: 0 = the thread without a checkpoint id, k = the k-th newest checkpoint of the history, by its id. */
export type Operation =
  | { readonly kind: "invoke"; readonly at: number; readonly durability: Durability }
  | { readonly kind: "continue"; readonly at: number; readonly durability: Durability }
  | { readonly kind: "resume"; readonly durability: Durability }
  | { readonly kind: "command"; readonly node: number; readonly update: boolean; readonly durability: Durability }
  | {
      readonly kind: "update";
      readonly at: number;
      readonly asNode: number | "__copy__" | "__input__" | "__end__" | undefined;
    }
  | { readonly kind: "bulk" }
  | { readonly kind: "look"; readonly at: number }
  | { readonly kind: "drain"; readonly durability: Durability }
  | { readonly kind: "fail"; readonly node: number }
  | { readonly kind: "heal" };

const durability = fc.constantFrom<Durability>("sync", "async", "exit");
const at = fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.integer({ min: 1, max: 6 }) });
const node = fc.integer({ min: 0, max: 4 });

export const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("invoke" as const), at, durability }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("continue" as const), at, durability }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("resume" as const), durability }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("command" as const), node, update: fc.boolean(), durability }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("update" as const),
      at,
      asNode: fc.oneof(
        fc.constant(undefined),
        node,
        fc.constantFrom("__copy__" as const, "__input__" as const, "__end__" as const),
      ),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "bulk" as const }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("look" as const), at }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("drain" as const), durability }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("fail" as const), node }) },
  { weight: 1, arbitrary: fc.constant({ kind: "heal" as const }) },
);

const THREAD = "t";

/**
 * Where our default is another than LangGraph's: new input on a paused thread is refused unless it is said to supersede,
 * and a resume must name a question that is open.
 */
const PAUSED = { on_paused: "supersede", __pregel_strict_resume: true };

/** What came of it: a value, or an error in words. */
function settled(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error: error instanceof Error ? `${error.name}: ${error.message}` : String(error) }),
  );
}

/** One caller's thread on one saver. */
export class Player {
  readonly #shape: Shape;
  readonly #saver: BaseCheckpointSaver;
  readonly #failures: Failures = new Set();
  readonly #app: App;
  #count = 0;

  constructor(shape: Shape, saver: BaseCheckpointSaver) {
    this.#shape = shape;
    this.#saver = saver;
    this.#app = shape.build(saver, this.#failures);
  }

  /** Does the operation; what came of it, and the thread's state after it. Never throws. */
  async play(operation: Operation): Promise<unknown> {
    this.#count += 1;
    const outcome = await settled(this.#do(operation));
    // LangGraph refuses to show some states, for example one in which two pending writes meet in a plain channel.
    const state = await settled(this.#app.getState(this.#config(), { subgraphs: true }).then(plain));
    return { outcome, state };
  }

  /** Everything that can be read of the thread: the history, and every stored tuple of every namespace. */
  async everything(): Promise<unknown> {
    const history = await settled(this.#history().then((snapshots) => snapshots.map(plain)));
    const byNamespace = new Map<string, unknown[]>();
    const tuples: CheckpointTuple[] = [];
    for await (const tuple of this.#saver.list({ configurable: { thread_id: THREAD } })) tuples.push(tuple);
    // Savers list the namespaces one after the other or mixed; ids grow with time on both.
    tuples.sort((a, b) => (a.checkpoint.id < b.checkpoint.id ? 1 : -1));
    for (const tuple of tuples) {
      const ns = String(tuple.config.configurable?.["checkpoint_ns"] ?? "");
      byNamespace.set(ns, [...(byNamespace.get(ns) ?? []), plain(comparable(tuple))]);
    }
    return { history, tuples: [...byNamespace] };
  }

  #config(more: Record<string, unknown> = {}): { configurable: Record<string, unknown> } & Record<string, unknown> {
    return { configurable: { thread_id: THREAD, ...PAUSED }, recursionLimit: 12, ...more };
  }

  async #history(): Promise<Snapshot[]> {
    const history: Snapshot[] = [];
    for await (const snapshot of this.#app.getStateHistory(this.#config())) history.push(snapshot);
    return history;
  }

  async #at(index: number, more: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    const config = this.#config(more);
    if (index === 0) return config;
    const history = await this.#history().catch((): Snapshot[] => []);
    const chosen = history[(index - 1) % Math.max(1, history.length)];
    return chosen === undefined ? config : { ...config, configurable: { ...chosen.config.configurable, ...PAUSED } };
  }

  async #do(operation: Operation): Promise<unknown> {
    const { nodes } = this.#shape;
    const nodeAt = (index: number) => (nodes.length === 0 ? undefined : nodes[index % nodes.length]);
    const app = this.#app;
    switch (operation.kind) {
      case "invoke":
        return app.invoke(
          this.#shape.input(this.#count),
          await this.#at(operation.at, { durability: operation.durability }),
        );
      case "continue":
        return app.invoke(null, await this.#at(operation.at, { durability: operation.durability }));
      case "resume":
        return app.invoke(await this.#resume(), this.#config({ durability: operation.durability }));
      case "command": {
        const goto = nodeAt(operation.node);
        const update = operation.update ? { update: this.#shape.update(this.#count) } : {};
        return app.invoke(
          new Command({ ...(goto === undefined ? {} : { goto }), ...update } as never),
          this.#config({ durability: operation.durability }),
        );
      }
      case "update": {
        const asNode = typeof operation.asNode === "number" ? nodeAt(operation.asNode) : operation.asNode;
        const values =
          asNode === "__copy__" || asNode === "__end__"
            ? null
            : asNode === "__input__"
              ? this.#shape.input(this.#count)
              : this.#shape.update(this.#count);
        return app.updateState(await this.#at(operation.at), values, asNode);
      }
      case "bulk":
        return app.bulkUpdateState(this.#config(), [
          { updates: [{ values: this.#shape.input(this.#count), asNode: "__input__" }] },
          {
            updates: [
              { values: this.#shape.update(this.#count), ...(nodeAt(0) === undefined ? {} : { asNode: nodeAt(0) }) },
            ],
          },
        ]);
      case "look":
        return plain(await app.getState(await this.#at(operation.at)));
      case "drain": {
        const control = new RunControl();
        control.requestDrain("test");
        return app.invoke(null, this.#config({ control, durability: operation.durability }));
      }
      case "fail":
        this.#failures.add(nodeAt(operation.node) ?? "double");
        return "failing";
      case "heal":
        this.#failures.clear();
        return "healed";
      default: {
        const never: never = operation;
        return never;
      }
    }
  }

  /** Always by id: LangGraph's savers keep an answer without one for whatever asks next, ours does not (see waits). */
  async #resume(): Promise<Command> {
    const state = await this.#app.getState(this.#config(), { subgraphs: true });
    const pending = state.tasks.flatMap((task) => task.interrupts);
    const answers = Object.fromEntries(
      pending.slice(0, 1 + (this.#count % 2)).map(({ id }) => [id, `answer ${this.#count}`]),
    );
    return new Command({ resume: answers });
  }
}

/** Plain data: errors by their message, no times, no runtime objects. */
function plain(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, inner: unknown) => {
      if (key === "createdAt" || key === "ts" || key === "stack" || key === "lc_error_code") return undefined;
      // LangGraph's marks on its own classes, which MemorySaver does not keep; the snapshot of a look-up echoes its config.
      if (key === "lg_name" || key === "recursionLimit" || key === "durability" || key === "__pregel_checkpointer")
        return undefined;
      if (inner instanceof Error) return { message: inner.message };
      return isErrorLike(inner) ? { message: inner.message } : sorted(inner);
    }) ?? "null",
  );
}

/** A stored tuple without what savers may differ in. */
function comparable(tuple: CheckpointTuple): unknown {
  const { channel_values, channel_versions } = tuple.checkpoint;
  // A channel without a version was never written: what MemorySaver keeps of it is the default of its annotation.
  // A snapshot of a DeltaChannel may stand in every checkpoint of its version, or in the first only.
  const written = Object.entries(channel_values).filter(
    ([channel, value]) => Object.hasOwn(channel_versions, channel) && !isDeltaSnapshot(value),
  );
  // An answer under its question's id: LangGraph's savers keep the resume as a write, ours as a decision.
  const pendingWrites = tuple.pendingWrites?.filter(([task]) => !/^[0-9a-f]{32}$/.test(task));
  return {
    ...tuple,
    ...(pendingWrites === undefined ? {} : { pendingWrites }),
    checkpoint: { ...tuple.checkpoint, channel_values: Object.fromEntries(written) },
  };
}

/** The order of an object's keys is nobody's promise. */
function sorted(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** What LangGraph's own savers leave of an error. */
function isErrorLike(value: unknown): value is { message: string } {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const keys = Object.keys(value);
  return keys.includes("message") && keys.includes("name") && keys.length <= 3;
}

/** Replaces checkpoint, task, message and interrupt ids by the order in which they first appear. */
export function withoutIds(value: unknown): string {
  const names = new Map<string, string>();
  const text = JSON.stringify(value) ?? "null";
  const named = text.replaceAll(
    /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b/g,
    (id) => {
      if (id.startsWith("00000000-")) return id;
      const name = names.get(id) ?? `#${names.size}`;
      names.set(id, name);
      return name;
    },
  );
  return JSON.stringify(JSON.parse(named, specialWritesSorted), null, 1);
}

/** Special writes have no path, and so their order is that of random task ids. */
function specialWritesSorted(key: string, value: unknown): unknown {
  if (key !== "pendingWrites" || !Array.isArray(value)) return value;
  const isSpecial = ([, channel]: readonly unknown[]) =>
    ["__resume__", "__interrupt__", "__error__"].includes(String(channel));
  const finished = new Set(value.filter((write) => !isSpecial(write)).map(([task]) => task));
  // Answers written together with a result: MemorySaver replaces the earlier ones, LangGraph's other savers and ours keep
  // them. Nobody reads the answers of a task that has its result.
  const special = value
    .filter((write) => isSpecial(write) && !finished.has(write[0]))
    .map((write) => JSON.stringify(write));
  return [...value.filter((write) => !isSpecial(write)), ...special.sort()];
}
