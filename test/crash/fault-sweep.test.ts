import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { type Backend, Checkpointer, effect, isHoldfastError, run } from "holdfast";
import { memoryBackend } from "holdfast/checkpointers/memory";
import { sqliteBackend } from "holdfast/checkpointers/sqlite";
import { type FaultScenario, faultSweep } from "holdfast/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

/** Three nodes, two effects; the outside world is a map that counts. */
class World {
  readonly executed = new Map<string, number>();
  readonly keys = new Set<string>();

  readonly #verified = effect("verified", {
    input: z.string(),
    run: (what, { idempotencyKey }) => this.#act(what, idempotencyKey),
    verify: (what, { idempotencyKey }) => (this.keys.has(idempotencyKey) ? `did ${what}` : undefined),
  });

  readonly #blind = effect("blind", {
    input: z.string(),
    run: (what, { idempotencyKey }) => this.#act(what, idempotencyKey),
  });

  #act(what: string, key: string): string {
    this.executed.set(what, (this.executed.get(what) ?? 0) + 1);
    this.keys.add(key);
    return `did ${what}`;
  }

  graph(checkpointer: Checkpointer) {
    return new StateGraph(State)
      .addNode("charge", async () => ({ log: [await this.#verified("charge")] }))
      .addNode("think", () => ({ log: ["thought ".repeat(100)] }))
      .addNode("mail", async () => ({ log: [await this.#blind("mail")] }))
      .addEdge(START, "charge")
      .addEdge("charge", "think")
      .addEdge("think", "mail")
      .addEdge("mail", END)
      .compile({ checkpointer });
  }
}

const finalLog = ["input", "did charge", "thought ".repeat(100), "did mail"];

interface Recovered {
  readonly world: World;
  readonly log: unknown;
  /** Whether the thread was finished before anything was recovered. */
  readonly finishedBefore: boolean;
}

async function play(world: World, checkpointer: Checkpointer, durability: "sync" | "async") {
  const app = world.graph(checkpointer);
  const config = { configurable: { thread_id: "swept" }, durability };
  const { createdAt } = await app.getState(config);
  return run(app, createdAt === undefined ? { log: ["input"] } : null, config);
}

/** Goes on until the thread is finished; what parks is settled by looking at the world. */
async function recover(world: World, backend: Backend, durability: "sync" | "async"): Promise<Recovered> {
  const checkpointer = new Checkpointer(backend);
  const before = await world.graph(checkpointer).getState({ configurable: { thread_id: "swept" } });
  const finishedBefore = before.createdAt !== undefined && before.tasks.length === 0;
  for (let tries = 0; tries < 5; tries++) {
    const { status, values } = await play(world, checkpointer, durability);
    if (status !== "parked") return { world, log: (values as { log: unknown }).log, finishedBefore };
    for (const { key, status: state, name } of await checkpointer.effects({ thread: "swept" })) {
      if (name !== "blind" || (state !== "intent" && state !== "failed")) continue;
      await checkpointer.settle(key, world.keys.has(key) ? { done: "did mail" } : { notDone: true }, {
        by: "operator",
      });
    }
  }
  throw new Error("still parked after five tries");
}

async function memoryScenario(durability: "sync" | "async"): Promise<FaultScenario<Recovered>> {
  const world = new World();
  const backend = memoryBackend();
  return {
    backend,
    run: (faulty) => play(world, new Checkpointer(faulty), durability),
    recover: () => recover(world, backend, durability),
  };
}

async function sqliteScenario(durability: "sync" | "async"): Promise<FaultScenario<Recovered>> {
  const world = new World();
  const dir = mkdtempSync(join(tmpdir(), "holdfast-sweep-"));
  const file = join(dir, "state.db");
  const backend = await sqliteBackend(file, { synchronous: "OFF" });
  let again: Backend | undefined;
  return {
    backend,
    run: (faulty) => play(world, new Checkpointer(faulty), durability),
    // Another owner on the same file, as after a restart.
    recover: async () => {
      await backend.close();
      again = await sqliteBackend(file, { synchronous: "OFF" });
      return recover(world, again, durability);
    },
    close: async () => {
      await backend.close();
      await again?.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

describe("whatever commit fails, in whatever way, nothing is lost, no effect repeated, and the error is typed", () => {
  for (const [name, scenario] of [
    ["memory", memoryScenario],
    ["sqlite", sqliteScenario],
  ] as const) {
    for (const durability of ["sync", "async"] as const) {
      test(`${name}, ${durability} durability`, { timeout: 300_000 }, async () => {
        const { byMode } = await faultSweep({
          scenario: () => scenario(durability),
          print: () => {},
          check: ({ error, injected, result: { world, log, finishedBefore } }) => {
            expect(log).toEqual(finalLog);
            expect(Object.fromEntries(world.executed)).toEqual({ charge: 1, mail: 1 });
            if (error !== undefined) expect(isHoldfastError(error), String(error)).toBe(true);
            // A run that reported success was durable, whatever failed on its way.
            if (error === undefined) expect(finishedBefore).toBe(true);
            if (!injected) expect(error).toBeUndefined();
          },
        });
        // Input, start, three nodes; intent and outcome of two effects.
        for (const count of Object.values(byMode)) expect(count).toBeGreaterThanOrEqual(durability === "sync" ? 8 : 5);
      });
    }
  }
});
