/** Whoever listens is told of commits that it may be waiting for: memory, SQLite, Postgres and Redis. */

import { join } from "node:path";
import type { Backend } from "holdfast";
import { memoryBackend } from "holdfast/checkpointers/memory";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { MemoryState } from "../../checkpointers/memory/state.ts";
import { postgresBackend } from "../../checkpointers/postgres/backend.ts";
import { redisBackend } from "../../checkpointers/redis/backend.ts";
import { sqliteBackend } from "../../checkpointers/sqlite/backend.ts";
import { accept, checkpoint, move, moved, run, runRow, wait, waitRow } from "../../src/testing/backend-rows.ts";
import { redisAvailable, removeRedisStore, sharedRedis } from "../servers/redis.ts";
import { newSchema } from "../servers/schemas.ts";
import { scratchDirectory } from "./scratch.ts";
import { watching } from "./wakes.ts";

/** Opens a store again and again, as processes would. */
const stores: Readonly<Record<string, () => Promise<() => Promise<Backend>>>> = {
  async memory() {
    const state = new MemoryState();
    return async () => memoryBackend({ state });
  },
  async SQLite() {
    const file = join(await scratchDirectory(), "wakes.db");
    return () => sqliteBackend(file);
  },
  async Postgres() {
    const schema = await newSchema();
    return () => postgresBackend(inject("postgresUrl"), { schema });
  },
  async Redis() {
    const { url, prefix } = await sharedRedis();
    onTestFinished(() => removeRedisStore(url, prefix));
    return () => redisBackend(url, { prefix });
  },
};

const names = Object.keys(stores).filter((name) => name !== "Redis" || redisAvailable);

describe.each(names)("a watch on %s", (name) => {
  async function fresh() {
    const openOne = await stores[name]?.();
    if (openOne === undefined) throw new TypeError(name);
    return async () => {
      const backend = await openOne();
      onTestFinished(() => backend.close());
      return backend;
    };
  }

  test("is woken when another process answers a wait, or leaves a run that is due, also by ending the one before it", async () => {
    const open = await fresh();
    const [backend, other] = [await open(), await open()];
    const now = await backend.now();
    const [a, b, c] = ["a", "b", "c"].map((id) => runRow(id, { createdAt: now, due: now }));
    const [later, open_] = [runRow("later", { thread: "u", due: now + 1e6, status: "waiting" }), waitRow("w")];
    if (a === undefined || b === undefined || c === undefined) throw new TypeError();
    const heard = await watching(backend);
    await heard.after(() => accept(other, run(a, null)));
    await accept(other, move(a, "running"), run(b, null), run(c, null), wait(open_, null), run(later, null));
    await heard.after(() => accept(other, move(moved(a, "running"), "succeeded")));
    await accept(other, move(b, "running"));
    await heard.after(() => accept(other, move(moved(b, "running"), "retrying", { due: now - 1 })));
    await accept(other, move({ ...moved(moved(b, "running"), "retrying"), due: now - 1 }, "running", { epoch: 2 }));
    await heard.after(() => accept(other, move(later, "queued", { due: now })));
    await heard.after(() => accept(other, wait({ ...open_, status: "answered", decision: 1, rev: 1 }, 0)));
    await heard.after(() => accept(backend, run(runRow("own", { thread: "own", due: now }), null)));
  });

  test("is woken too where the commit is judged together with one that is refused", async () => {
    const open = await fresh();
    const backend = await open();
    const heard = await watching(await open());
    const refused = [checkpoint("x", { heads: ["none"] })];
    await heard.after(async () => {
      const verdicts = await backend.commit([[run(runRow("r", { due: 5 }), null)], refused]);
      expect(verdicts.map((verdict) => verdict?.code)).toEqual([undefined, "HEAD_MOVED"]);
    });
  });

  test("that is closed hears nothing more, and those beside it do", async () => {
    const open = await fresh();
    const [backend, other] = [await open(), await open()];
    const [first, second, third] = [await watching(backend), await watching(backend), await watching(other)];
    const start = (id: string) => accept(other, run(runRow(id, { thread: id, due: 5 }), null));
    await Promise.all([first.after(() => start("1")), second.after(async () => {}), third.after(async () => {})]);
    await first.close();
    const count = first.count;
    await Promise.all([second.after(() => start("2")), third.after(async () => {})]);
    await second.close();
    await third.after(() => start("3"));
    expect(first.count).toBe(count);
    const again = await watching(backend);
    await again.after(() => start("4"));
  });

  test("ends with its backend, and a closed one takes none: CLOSED", async () => {
    const open = await fresh();
    const [backend, other] = [await open(), await open()];
    const [gone, heard] = [await watching(backend), await watching(other)];
    await backend.close();
    await heard.after(() => accept(other, run(runRow("r", { due: 5 }), null)));
    expect(gone.count).toBe(0);
    await expect(backend.watch?.(() => {})).rejects.toMatchObject({ code: "CLOSED" });
  });
});
