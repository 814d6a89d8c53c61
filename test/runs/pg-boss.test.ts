/** pg-boss as the delivery of runs, on a real Postgres. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { Checkpointer } from "holdfast";
import { postgresBackend } from "holdfast/checkpointers/postgres";
import { createRuntime, type WorkerOptions } from "holdfast/runs";
import { type PgBossOptions, pgBoss } from "holdfast/runs/pg-boss";
import PgBoss from "pg-boss";
import { afterAll, beforeAll, expect, inject, onTestFinished, test, vi } from "vitest";
import { kitFile, type ServingChild, serve } from "../../src/testing/child.ts";
import type { CounterReport } from "../../src/testing/counter-server.ts";
import { compiled } from "../backends/scratch.ts";
import { newSchema, query } from "../servers/schemas.ts";
import { blind } from "./blind.ts";
import { charging } from "./programs/charging.ts";

const LEASE_MS = 1000;
/** Never within a test. */
const RARELY = { pollMs: 3_600_000, takeoverMs: 3_600_000 };

let counter: ServingChild;
let worlds = 0;
beforeAll(async () => {
  counter = await serve(kitFile("counter-server"));
});
afterAll(() => counter.stop());

/** A store and a queue of one test. */
async function world() {
  const schema = await newSchema();
  const bossSchema = `boss_${process.pid}_${++worlds}`;
  const url = `${counter.line}/boss-${process.pid}-${worlds}`;
  process.env["HOLDFAST_COUNTER_URL"] = url;
  const boss = new PgBoss({
    connectionString: inject("postgresUrl"),
    schema: bossSchema,
    maintenanceIntervalSeconds: 1,
    schedule: false,
  });
  const failures: unknown[] = [];
  boss.on("error", (error) => void failures.push(error));
  onTestFinished(async () => {
    await boss.stop({ graceful: false });
    await query(`drop schema if exists ${bossSchema} cascade`);
    expect(failures).toEqual([]);
  });
  await boss.start();
  const counts = async () => {
    const { counts } = (await (await fetch(`${url}/report`, { method: "POST" })).json()) as CounterReport;
    return Object.fromEntries(Object.entries(counts).map(([identity, { times }]) => [identity, times]));
  };
  const states = async () =>
    (await query(`select state::text from ${bossSchema}.job where name = 'runs' order by created_on`)).map(
      ({ state }) => state,
    );
  return { schema, bossSchema, boss, counts, states };
}

type World = Awaited<ReturnType<typeof world>>;

/** A process as far as the store knows. */
async function processOn({ schema, boss }: World, { sees = false, options = {} as Partial<PgBossOptions> } = {}) {
  const backend = await postgresBackend(inject("postgresUrl"), { schema, leaseMs: LEASE_MS });
  const checkpointer = new Checkpointer(sees ? backend : blind(backend));
  onTestFinished(() => checkpointer.close());
  const delivery = pgBoss(boss, { queue: "runs", pollMs: 20, expireSeconds: 1, laterSeconds: 1, ...options });
  const errors: unknown[] = [];
  const graphs = { charge: charging(checkpointer) };
  const runtime = createRuntime({ checkpointer, graphs, delivery, onError: (error) => void errors.push(error) });
  onTestFinished(() => runtime.close());
  const begin = async (thread = "t") => (await runtime.start("charge", { receipt: "" }, { threadId: thread })).run.id;
  const work = (worker: WorkerOptions = RARELY) => runtime.worker(worker).start();
  return { checkpointer, delivery, runtime, begin, work, errors };
}

test("the run of a worker that is killed is finished by the one that its message comes to next, and its effect happens once", async () => {
  const place = await world();
  const { runtime, begin, work } = await processOn(place);
  const id = await begin();
  const child = spawn(
    process.execPath,
    [compiled("test/runs/programs/boss-worker.ts"), place.schema, place.bossSchema, `${LEASE_MS}`],
    { env: { ...process.env, HOLDFAST_TEST_POSTGRES: inject("postgresUrl") }, stdio: ["ignore", "pipe", "inherit"] },
  );
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child.stdout, "data");
  // Its message has not expired for long, and comes again while it lives: that takes nothing from it.
  const worker = work();
  const expired = await vi.waitFor(
    async () => {
      const [row] = await query(`select retry_count from ${place.bossSchema}.job where name = 'runs'`);
      expect(row?.["retry_count"]).toBeGreaterThan(0);
      return row;
    },
    { timeout: 30_000 },
  );
  expect(expired).toBeDefined();
  expect(await runtime.get(id)).toMatchObject({ status: "running", epoch: 1 });
  child.kill("SIGKILL");
  expect(await runtime.wait(id)).toMatchObject({ status: "succeeded", epoch: 2, deaths: 0 });
  expect(await place.counts()).toEqual({ "card 1": 1 });
  expect(worker.counts).toMatchObject({ claimed: 1, takenOver: 1 });
  await vi.waitFor(async () => expect(await place.states()).toEqual(["completed"]));
});

test("messages of one run that come again and again execute it once, and are all acknowledged", async () => {
  const place = await world();
  const { delivery, runtime, begin, work } = await processOn(place);
  const id = await begin();
  for (let i = 0; i < 3; i += 1) await delivery.send(id, { at: new Date() });
  work();
  expect(await runtime.wait(id)).toMatchObject({ status: "succeeded", epoch: 1 });
  await vi.waitFor(async () => expect(await place.states()).toEqual(Array(4).fill("completed")), { timeout: 20_000 });
  expect(await place.counts()).toEqual({ "card 1": 1 });
});

test("a run whose message is lost is found by the look of a worker", async () => {
  const place = await world();
  const { runtime, begin, work } = await processOn(place, { sees: true });
  const id = await begin();
  await place.boss.purgeQueue("runs");
  expect(await place.states()).toEqual([]);
  work({ ...RARELY, pollMs: 20 });
  expect(await runtime.wait(id)).toMatchObject({ status: "succeeded", epoch: 1 });
});

test("a message for a run that has ended or was deleted, and one that names no run, are acknowledged and dropped", async () => {
  const place = await world();
  const { checkpointer, runtime, begin, work, errors } = await processOn(place);
  await runtime.cancel(await begin(), { by: "ana" });
  await begin("deleted");
  await checkpointer.deleteThread("deleted");
  await place.boss.send("runs", { order: 1 });
  const worker = work();
  await vi.waitFor(async () => expect(await place.states()).toEqual(Array(3).fill("completed")));
  expect(worker.counts.claimed).toBe(0);
  expect(errors).toMatchObject([{ code: "INVALID_ARGUMENT" }]);
});

test("a message of a run that is due later is handed out then, and not before", async () => {
  const place = await world();
  const { runtime } = await processOn(place);
  const at = new Date(Date.now() + 3_600_000);
  await runtime.start("charge", { receipt: "" }, { threadId: "t", at });
  const [row] = await query(`select start_after, retry_limit from ${place.bossSchema}.job where name = 'runs'`);
  expect(row?.["start_after"]).toEqual(at);
});

test("a worker that has drained takes no further message", async () => {
  const place = await world();
  const { runtime, begin, work } = await processOn(place);
  const worker = work();
  await runtime.wait(await begin());
  await worker.drain();
  await begin("u");
  expect(await place.states()).toEqual(["completed", "created"]);
});

test("a worker holds no more messages than it has places, and all runs are executed", async () => {
  const place = await world();
  const { runtime, begin, work } = await processOn(place);
  const ids = [];
  for (let i = 0; i < 9; i += 1) ids.push(await begin(`${i}`));
  work({ ...RARELY, concurrency: 2 });
  for (const id of ids) expect((await runtime.wait(id)).status).toBe("succeeded");
});

test.each([
  ["a queue without a name", { queue: "" }],
  ["a queue whose name pg-boss does not take", { queue: "a b" }],
  ["a time that is none", { queue: "runs", pollMs: 0 }],
  ["an option it does not have", { queue: "runs", retries: 3 }],
])("%s is refused", (_what, options) => {
  const refused = () => pgBoss({} as PgBoss, options as PgBossOptions);
  expect(refused).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
});
