/**
 * A worker on Postgres that is told of its runs by pg-boss and finds none by itself: `boss-worker.js <schema> <boss's schema>
 * <leaseMs>`. Its effect counts in the outside world, says "inside", and never returns.
 */

import { Checkpointer } from "holdfast";
import { postgresBackend } from "holdfast/checkpointers/postgres";
import { createRuntime } from "holdfast/runs";
import { pgBoss } from "holdfast/runs/pg-boss";
import PgBoss from "pg-boss";
import { blind } from "../blind.ts";
import { charging } from "./charging.ts";

const [schema = "", bossSchema = "", leaseMs = ""] = process.argv.slice(2);
const url = process.env["HOLDFAST_TEST_POSTGRES"] ?? "";
const hold = async () => {
  process.stdout.write("inside\n");
  await new Promise(() => {});
};

const checkpointer = new Checkpointer(blind(await postgresBackend(url, { schema, leaseMs: Number(leaseMs) })));
const boss = new PgBoss({ connectionString: url, schema: bossSchema, supervise: false, schedule: false });
await boss.start();
const delivery = pgBoss(boss, { queue: "runs", pollMs: 50, expireSeconds: 1, laterSeconds: 1 });
const graphs = { charge: charging(checkpointer, { after: hold }) };
createRuntime({ checkpointer, graphs, delivery }).worker({ pollMs: 3_600_000, takeoverMs: 3_600_000 }).start();
