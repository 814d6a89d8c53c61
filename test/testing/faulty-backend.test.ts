import { isHoldfastError } from "holdfast";
import { memoryBackend } from "holdfast/checkpointers/memory";
import { type FaultPlan, FaultyBackend, faultSweep } from "holdfast/testing";
import { expect, test } from "vitest";
import type { Backend, Commit } from "../../src/backend.ts";

/** A commit that can be seen afterwards: a checkpoint of a thread of this name. */
function commitOf(thread: string): Commit {
  return [
    {
      kind: "checkpoint",
      thread,
      era: 0,
      ns: "",
      id: "1",
      parent: undefined,
      source: "input",
      body: "json/1 {}",
      heads: [null],
    },
  ];
}

const threads = ["a", "b", "c", "d"] as const;

/** Commits four threads; which were acknowledged, which failed with what, and which are stored. */
async function commitFour(plan: FaultPlan) {
  const backend = memoryBackend();
  const faulty = new FaultyBackend(backend, plan);
  const failed: string[] = [];
  const errors: unknown[] = [];
  for (const thread of threads) {
    await faulty.commit([commitOf(thread)]).catch((error: unknown) => {
      failed.push(thread);
      errors.push(error);
    });
  }
  const stored: string[] = [];
  for (const thread of threads) {
    if ((await backend.load(thread, "", undefined)).head !== undefined) stored.push(thread);
  }
  return { failed, stored, errors, commits: faulty.commits, injected: faulty.injected };
}

test("mode before: the commit fails and nothing of it is stored", async () => {
  const { errors, ...seen } = await commitFour({ commit: 2, mode: "before" });
  expect(seen).toEqual({ failed: ["b"], stored: ["a", "c", "d"], commits: 4, injected: 1 });
  expect(isHoldfastError(errors[0], "STORAGE_FAILED")).toBe(true);
});

test("mode after: the commit fails although all of it is stored", async () => {
  const { errors, ...seen } = await commitFour({ commit: 2, mode: "after" });
  expect(seen).toEqual({ failed: ["b"], stored: ["a", "b", "c", "d"], commits: 4, injected: 1 });
  expect(isHoldfastError(errors[0], "STORAGE_FAILED")).toBe(true);
});

test("a fault for ever fails every later commit too", async () => {
  expect(await commitFour({ commit: 2, mode: "before", times: "forever" })).toMatchObject({
    failed: ["b", "c", "d"],
    stored: ["a"],
    injected: 3,
  });
  expect(await commitFour({ commit: 3, mode: "after", times: "forever" })).toMatchObject({
    failed: ["c", "d"],
    stored: ["a", "b", "c", "d"],
    injected: 2,
  });
});

test("a plan may bring an error of its own", async () => {
  const full = Object.assign(new Error("no space left"), { code: "ENOSPC" });
  const { errors } = await commitFour({ commit: 4, mode: "before", error: () => full });
  expect(errors).toEqual([full]);
});

test("mode gate: the commit is done, its answer comes when the gate opens", async () => {
  const backend = memoryBackend();
  let open: () => void = () => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const faulty = new FaultyBackend(backend, { commit: 1, mode: "gate", gate });
  let answered = false;
  const answer = faulty.commit([commitOf("a")]).finally(() => {
    answered = true;
  });
  await faulty.commit([commitOf("b")]);
  expect((await backend.load("a", "", undefined)).head).toBe("1");
  expect(answered).toBe(false);
  open();
  expect(await answer).toEqual([undefined]);
});

test("a plan without a commit to fail is refused", () => {
  expect(() => new FaultyBackend(memoryBackend(), { commit: 0, mode: "before" })).toThrow("whole number from 1");
  expect(() => new FaultyBackend(memoryBackend(), { commit: 1, mode: "gate" })).toThrow("needs the promise");
});

/** Three commits; the sweep's own arithmetic. */
function threeCommits() {
  const backend = memoryBackend();
  return {
    backend,
    run: async (faulty: Backend) => {
      for (const thread of ["a", "b", "c"]) await faulty.commit([commitOf(thread)]);
    },
    recover: async () => {
      const heads = await Promise.all(["a", "b", "c"].map((thread) => backend.load(thread, "", undefined)));
      return heads.filter(({ head }) => head !== undefined).length;
    },
  };
}

test("the sweep fails each commit once in each mode, and ends where nothing is left to fail", async () => {
  const seen: string[] = [];
  const lines: string[] = [];
  const report = await faultSweep({
    scenario: threeCommits,
    check: ({ mode, commit, result, injected, error }) => {
      expect(error !== undefined).toBe(injected);
      seen.push(`${mode} ${commit}: ${result}`);
    },
    print: (line) => lines.push(line),
  });
  expect(seen).toEqual([
    ...["before-once 1: 0", "before-once 2: 1", "before-once 3: 2", "before-once 4: 3"],
    ...["before-forever 1: 0", "before-forever 2: 1", "before-forever 3: 2", "before-forever 4: 3"],
    ...["after-once 1: 1", "after-once 2: 2", "after-once 3: 3", "after-once 4: 3"],
    ...["after-forever 1: 1", "after-forever 2: 2", "after-forever 3: 3", "after-forever 4: 3"],
  ]);
  expect(report).toEqual({
    injected: 12,
    byMode: { "before-once": 3, "before-forever": 3, "after-once": 3, "after-forever": 3 },
  });
  expect(lines).toEqual([
    "fault sweep: 12 failures injected (before-once 3, before-forever 3, after-once 3, after-forever 3)",
  ]);
});

test("an error of the check names the mode and the commit", async () => {
  const sweep = faultSweep({
    scenario: threeCommits,
    check: ({ mode, commit }) => {
      if (mode === "after-once" && commit === 2) throw new Error("two are not enough");
    },
    print: () => {},
  });
  await expect(sweep).rejects.toThrow("fault sweep, after-once of commit 2, check: two are not enough");
});
