/** What a worker asks of the store while it has nothing to do. */

import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { type Backend, Checkpointer } from "holdfast";
import { createRuntime } from "holdfast/runs";
import pg from "pg";
import { expect, inject, onTestFinished, test } from "vitest";
import { postgresBackend } from "../../checkpointers/postgres/backend.ts";
import { accept, run, runRow, wait, waitRow } from "../../src/testing/backend-rows.ts";
import { countingStatements } from "../backends/statements.ts";
import { newSchema } from "../servers/schemas.ts";

/** The looks of a worker, counted: each ends with a question for due runs. */
function counting(backend: Backend): { readonly backend: Backend; look(n: number): Promise<void> } {
  let looks = 0;
  let seen = (): void => {};
  const counted = new Proxy(backend, {
    get(target, name) {
      const value = Reflect.get(target, name, target) as unknown;
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        const answer: unknown = value.apply(target, args);
        if (name !== "dueRuns") return answer;
        return (answer as Promise<unknown>).finally(() => {
          looks += 1;
          seen();
        });
      };
    },
  });
  const look = async (n: number) => {
    while (looks < n)
      await new Promise<void>((resolve) => {
        seen = resolve;
      });
  };
  return { backend: counted, look };
}

test("a worker at rest sends three statements a look, and a fourth every sixth one, however many runs and waits there are", async () => {
  const pool = new pg.Pool({ connectionString: inject("postgresUrl"), max: 1 });
  onTestFinished(() => pool.end());
  const postgres = await postgresBackend(pool, { schema: await newSchema(), leaseMs: 3_600_000 });
  onTestFinished(() => postgres.close());
  const later = 1e13;
  const ids = Array.from({ length: 500 }, (_, i) => `${i}`);
  await accept(postgres, ...ids.map((id) => run(runRow(id, { thread: id, status: "waiting", due: undefined }), null)));
  await accept(postgres, ...ids.map((id) => run(runRow(`q${id}`, { thread: `q${id}`, due: later }), null)));
  await accept(postgres, ...ids.map((id) => wait(waitRow(id, { thread: id, due: later }), null)));
  const { backend, look } = counting(postgres);
  const checkpointer = new Checkpointer(backend);
  const State = Annotation.Root({ n: Annotation<number>() });
  const graphs = {
    graph: new StateGraph(State)
      .addNode("step", () => ({}))
      .addEdge(START, "step")
      .compile({ checkpointer }),
  };
  const runtime = createRuntime({ checkpointer, graphs });
  const worker = runtime.worker({ pollMs: 50, takeoverMs: 50 });
  const statements = countingStatements(pool);
  worker.start();
  await look(13);
  // Thirteen looks: due waits, running runs and due runs in each; answers in the first, seventh and thirteenth; once the clock.
  expect(statements.count).toBe(13 * 3 + 3 + 1);
  await runtime.close();
});
