/** A disk that is full or broken, and a process that dies, at every change the JSONL backend makes to its files. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Backend, Op } from "holdfast";
import { expect, onTestFinished, test, vi } from "vitest";
import { jsonlBackend } from "../../checkpointers/jsonl/index.ts";
import { type FaultPlan, FaultyFiles } from "./faulty-files.ts";
import { scratchDirectory } from "./scratch.ts";

const checkpoint = (thread: string, id: string, body = "json/1 {}"): Op => ({
  ...{ kind: "checkpoint", thread, era: 0, ns: "", id, parent: undefined, source: "loop", body, heads: undefined },
});

/** What a reader can see, as one value. */
async function contents(backend: Backend): Promise<string[]> {
  const seen: string[] = [];
  for await (const row of backend.checkpoints({})) seen.push(`${row.thread} ${row.id} ${row.body}`);
  for (const thread of ["t", "gone"]) seen.push(`era of ${thread}: ${(await backend.load(thread, "", undefined)).era}`);
  return seen.sort();
}

/** Commit groups that append, replace, delete and so make the log be written anew, each of them to be repeated safely. */
const groups: readonly (readonly Op[])[] = [
  [checkpoint("t", "1")],
  [checkpoint("gone", "1", `json/1 "${"g".repeat(300)}"`)],
  [checkpoint("t", "2", 'json/1 "é😀"')],
  ...Array.from({ length: 4 }, (_, at) => [checkpoint("t", "replaced", `json/1 "${"x".repeat(400)}${at}"`)]),
  [{ kind: "deleteThread", thread: "gone" }],
  [checkpoint("t", "3")],
];

interface Outcome {
  readonly injected: boolean;
  /** By group: what a reader saw in memory afterwards, and whether the group was acknowledged. */
  readonly steps: readonly { readonly acknowledged: boolean; readonly seen: readonly string[] }[];
}

/** Commits operations that nothing refuses; what the disk did to them. */
async function failureOf(backend: Backend, ops: readonly Op[]): Promise<unknown> {
  try {
    expect(await backend.commit([ops])).toEqual([undefined]);
    return undefined;
  } catch (error) {
    return error;
  }
}

/** Commits all groups over a disk with this fault; a group that fails is not tried again. */
async function commitAll(directory: string, plan: FaultPlan): Promise<Outcome> {
  const files = new FaultyFiles(plan);
  const steps: { acknowledged: boolean; seen: string[] }[] = [];
  const backend = await jsonlBackend(directory, { files, compactBytesMin: 0 }).catch((error: unknown) => {
    expect(error).toMatchObject({ code: "CANNOT_OPEN", cause: expect.anything() });
  });
  if (backend === undefined) return { injected: files.injected, steps };
  for (const group of groups) {
    const error = await failureOf(backend, group);
    if (error !== undefined)
      expect(error).toMatchObject({ code: "STORAGE_FAILED", retryable: true, cause: { code: plan.code } });
    steps.push({ acknowledged: error === undefined, seen: await contents(backend) });
  }
  await backend.close();
  return { injected: files.injected, steps };
}

/** What the groups up to this one leave, on a good disk. */
async function expectedAfter(count: number): Promise<string[]> {
  const backend = await jsonlBackend(await scratchDirectory(), { fsync: false });
  for (const group of groups.slice(0, count)) await backend.commit([group]);
  const seen = await contents(backend);
  await backend.close();
  return seen;
}

function silenceWarnings(): void {
  const spy = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  onTestFinished(() => spy.mockRestore());
}

const faults: Pick<FaultPlan, "code" | "how">[] = [
  { code: "ENOSPC", how: "before" },
  { code: "ENOSPC", how: "partly" },
  { code: "EIO", how: "after" },
];

test.each(faults)(
  "$code ($how), from any change on and for ever, loses nothing acknowledged and changes nothing else",
  async ({ code, how }) => {
    silenceWarnings();
    const expected = await Promise.all(Array.from({ length: groups.length + 1 }, (_, count) => expectedAfter(count)));
    for (let at = 1; ; at++) {
      const directory = await scratchDirectory();
      const { injected, steps } = await commitAll(directory, { at, code, how, times: Number.POSITIVE_INFINITY });
      const acknowledged = steps.findIndex((step) => !step.acknowledged);
      const count = acknowledged < 0 ? steps.length : acknowledged;
      expect(
        steps.slice(count).every((step) => !step.acknowledged),
        "after a failure nothing is acknowledged",
      ).toBe(true);
      // In memory: what is acknowledged, and the failed group only where the files hold it already.
      const possible = [expected[count], expected[count + 1]];
      for (const step of steps.slice(count)) expect(possible).toContainEqual(step.seen);
      const again = await jsonlBackend(directory);
      const found = await contents(again);
      expect(possible, `change ${at}`).toContainEqual(found);
      await again.commit([[checkpoint("t", "later")]]);
      await again.close();
      const last = await jsonlBackend(directory);
      expect((await last.load("t", "", undefined)).head).toBe("later");
      await last.close();
      if (!injected) {
        expect(count).toBe(groups.length);
        expect(at, "the sweep went through the whole scenario").toBeGreaterThan(25);
        return;
      }
    }
  },
);

/** A disk that is well again after so many failed changes: fewer groups or as many are lost, and no other. */
const outages = faults.flatMap((fault) => [1, 2, 3, 5, 8].map((times) => ({ ...fault, times })));

test.each(outages)(
  "$code ($how), $times changes long, fails the groups it meets and no other, wherever it begins",
  async ({ code, how, times }) => {
    silenceWarnings();
    for (let at = 1; ; at++) {
      const directory = await scratchDirectory();
      const { injected, steps } = await commitAll(directory, { at, code, how, times });
      expect(steps.filter((step) => !step.acknowledged).length, `change ${at}`).toBeLessThanOrEqual(times);
      const again = await jsonlBackend(directory, { fsync: false });
      const found = await contents(again);
      // The last group came after the outage, unless that lasted to the end: then the files may hold what memory has not.
      if (steps.at(-1)?.acknowledged) expect(found, `change ${at}`).toEqual(steps.at(-1)?.seen);
      for (const [step, [op]] of groups.entries()) {
        if (!steps[step]?.acknowledged || op?.kind !== "checkpoint" || op.thread === "gone") continue;
        expect((await again.load("t", "", op.id)).checkpoint, `change ${at}, group ${step}`).toBeDefined();
      }
      if (steps[7]?.acknowledged) expect((await again.load("gone", "", undefined)).era, `change ${at}`).toBe(1);
      await again.close();
      if (!injected) return;
    }
  },
);

test("a deletion that dies at any change of the files leaves the whole old log or the whole new one", async () => {
  silenceWarnings();
  const outcomes = new Set<string>();
  for (const how of ["before", "partly", "after"] as const) {
    for (let at = 1; ; at++) {
      const directory = await scratchDirectory();
      const before = await jsonlBackend(directory, { fsync: false });
      await before.commit([[checkpoint("t", "1")], [checkpoint("gone", "the-id-of-gone")], [checkpoint("u", "1")]]);
      await before.close();
      const files = new FaultyFiles({ at, code: "EIO", how, times: Number.POSITIVE_INFINITY });
      const dying = await jsonlBackend(directory, { files }).catch(() => undefined);
      const deletion: readonly Op[] = [{ kind: "deleteThread", thread: "gone" }];
      const acknowledged = dying !== undefined && (await failureOf(dying, deletion)) === undefined;
      await dying?.close();
      const again = await jsonlBackend(directory);
      const found = await contents(again);
      const [kept, era] = [
        found.some((row) => row.includes("the-id-of-gone")),
        (await again.load("gone", "", undefined)).era,
      ];
      expect([kept, era]).toEqual(kept ? [true, 0] : [false, 1]);
      if (acknowledged) expect(kept).toBe(false);
      expect(found.filter((row) => row.endsWith("{}"))).toHaveLength(kept ? 3 : 2);
      outcomes.add(`${acknowledged ? "acknowledged" : "failed"}, ${kept ? "kept" : "deleted"}`);
      const places = readdirSync(directory).filter((name) => name !== "lock");
      expect(places, "an unfinished rewrite is removed").toEqual(["log.jsonl"]);
      await again.close();
      if (!kept) expect(readFileSync(join(directory, "log.jsonl")).includes("the-id-of-gone")).toBe(false);
      if (!files.injected) break;
    }
  }
  expect([...outcomes].sort()).toEqual(["acknowledged, deleted", "failed, deleted", "failed, kept"]);
});

test("where a broken write cannot even be taken back, nothing more is acknowledged until it can", async () => {
  const directory = await scratchDirectory();
  const good = await jsonlBackend(directory);
  await good.commit([[checkpoint("t", "1")]]);
  await good.close();
  // Changes when opened: remove. Then: write (partly), and no truncate from there on.
  const files = new FaultyFiles({ at: 2, code: "EIO", how: "partly", times: Number.POSITIVE_INFINITY });
  const backend = await jsonlBackend(directory, { files });
  const size = readFileSync(join(directory, "log.jsonl")).length;
  for (let at = 0; at < 3; at++) {
    await expect(backend.commit([[checkpoint("t", `${at}`)]])).rejects.toMatchObject({ code: "STORAGE_FAILED" });
  }
  expect(files.asked).toEqual(["remove", "write", "truncate", "truncate", "truncate"]);
  expect((await backend.load("t", "", undefined)).head).toBe("1");
  expect(readFileSync(join(directory, "log.jsonl")).length, "half of a record is left").toBeGreaterThan(size);
  silenceWarnings();
  await backend.close();
  const again = await jsonlBackend(directory);
  expect((await again.load("t", "", undefined)).head).toBe("1");
  await again.close();
});

test("a rename that reports an error is believed only after a look at the files", async () => {
  const directory = await scratchDirectory();
  const good = await jsonlBackend(directory);
  await good.commit([[checkpoint("t", "1")], [checkpoint("gone", "1")]]);
  await good.close();
  // Changes: remove, then the rewrite's create, write, sync, rename.
  const files = new FaultyFiles({ at: 5, code: "EIO", how: "after", times: 1 });
  const size = files.size;
  const backend = await jsonlBackend(directory, { files });
  files.size = async (path) => {
    if (path.endsWith(".new")) throw Object.assign(new Error("EIO"), { code: "EIO" });
    return size(path);
  };
  await expect(backend.commit([[{ kind: "deleteThread", thread: "gone" }]])).rejects.toMatchObject({
    code: "STORAGE_FAILED",
  });
  const acknowledged = ["era of gone: 0", "era of t: 0", "gone 1 json/1 {}", "t 1 json/1 {}"];
  expect(await contents(backend)).toEqual(acknowledged);
  // The open file has no name now: what is appended to it would be lost.
  await backend.commit([[checkpoint("t", "2")]]);
  await backend.close();
  const again = await jsonlBackend(directory);
  expect(await contents(again)).toEqual([...acknowledged, "t 2 json/1 {}"]);
  await again.close();
});

test("after a sync that failed the log is written anew before anything else is acknowledged", async () => {
  const directory = await scratchDirectory();
  // Changes of a first opening: create, write, sync, rename, sync directory. Then: write, sync.
  const files = new FaultyFiles({ at: 7, code: "EIO", how: "before", times: 1 });
  const backend = await jsonlBackend(directory, { files });
  await expect(backend.commit([[checkpoint("t", "1")]])).rejects.toMatchObject({ code: "STORAGE_FAILED" });
  expect(files.asked.slice(5)).toEqual(["write", "sync", "create", "write", "sync", "rename", "sync directory"]);
  expect((await backend.load("t", "", undefined)).head).toBeUndefined();
  await backend.commit([[checkpoint("t", "2")]]);
  await backend.close();
  const again = await jsonlBackend(directory);
  expect(await contents(again)).toEqual(["era of gone: 0", "era of t: 0", "t 2 json/1 {}"]);
  await again.close();
});

test("a failed rewrite that was to save space warns, keeps the log, and fails no commit", async () => {
  const directory = await scratchDirectory();
  const seen: unknown[] = [];
  const spy = vi.spyOn(process, "emitWarning").mockImplementation((warning) => void seen.push(warning));
  onTestFinished(() => spy.mockRestore());
  // create, write, sync, rename, sync directory; four appends of write and sync; then the rewrite's create.
  const files = new FaultyFiles({ at: 14, code: "ENOSPC", how: "before", times: 1 });
  const backend = await jsonlBackend(directory, { files, compactBytesMin: 500 });
  for (let at = 0; at < 6; at++)
    expect(await backend.commit([[checkpoint("t", "1", `json/1 "${"x".repeat(200)}${at}"`)]])).toEqual([undefined]);
  await backend.close();
  expect(seen).toEqual([expect.stringContaining("ENOSPC")]);
  const again = await jsonlBackend(directory);
  expect((await again.load("t", "", "1")).checkpoint?.body).toContain("x5");
  await again.close();
  expect(existsSync(join(directory, "log.jsonl.new"))).toBe(false);
});

test("a group of commits costs one write and one sync, and without fsync none", async () => {
  for (const fsync of [true, false]) {
    const files = new FaultyFiles({ at: 1e9, code: "EIO", how: "before", times: 1 });
    const backend = await jsonlBackend(await scratchDirectory(), { files, fsync });
    const opened = files.asked.length;
    await backend.commit(Array.from({ length: 10 }, (_, at) => [checkpoint("t", `${at}`)]));
    expect(files.asked.slice(opened)).toEqual(fsync ? ["write", "sync"] : ["write"]);
    await backend.commit([[{ ...checkpoint("t", "x"), heads: ["unknown"] } as Op]]);
    expect(files.asked.length, "a refusal costs nothing").toBe(opened + (fsync ? 2 : 1));
    await backend.close();
  }
});

test("a reader never sees a commit whose write has not come to its end", async () => {
  const directory = await scratchDirectory();
  let finish: () => void = () => {};
  let begun: () => void = () => {};
  const syncing = new Promise<void>((resolve) => (begun = resolve));
  const files = new FaultyFiles({ at: 1e9, code: "EIO", how: "before", times: 1 });
  const open = files.open.bind(files);
  let gate = Promise.resolve();
  files.open = async (path, mode) => {
    // Without the operations that are done when they return: between those nobody reads.
    const { now: _, ...file } = await open(path, mode);
    return {
      ...file,
      async sync() {
        begun();
        await gate;
        await file.sync();
      },
    };
  };
  const backend = await jsonlBackend(directory, { files });
  gate = new Promise((resolve) => (finish = resolve));
  const commit = backend.commit([[checkpoint("t", "1")]]);
  await syncing;
  expect((await backend.load("t", "", undefined)).head).toBeUndefined();
  finish();
  await commit;
  expect((await backend.load("t", "", undefined)).head).toBe("1");
  await backend.close();
});
