import { existsSync, readFileSync, writeFileSync } from "node:fs";
import Module from "node:module";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { acquireLock, lockHeld } from "../../checkpointers/process-lock.ts";
import { compiled, runChild, scratchDirectory } from "./scratch.ts";

/** A process that takes the lock, says so, and keeps it until it dies. */
function holder(path: string) {
  return runChild(`
    import { acquireLock } from ${JSON.stringify(compiled("checkpointers/process-lock.ts"))};
    const lock = await acquireLock(${JSON.stringify(path)});
    console.log(lock === undefined ? "refused" : "held");
    process.stdin.resume();
    globalThis.keep = lock;
  `);
}

test("a lock is held until it is released, once at a time", async () => {
  const path = join(await scratchDirectory(), "lock");
  expect(lockHeld(path)).toBe(false);
  expect(existsSync(path), "asking creates no file").toBe(false);
  const lock = await acquireLock(path);
  expect(lockHeld(path)).toBe(true);
  expect(await acquireLock(path)).toBeUndefined();
  lock?.release();
  lock?.release();
  expect(lockHeld(path)).toBe(false);
  const again = await acquireLock(path);
  expect(again).toBeDefined();
  again?.release();
});

test("of many that want a lock at once exactly one gets it", async () => {
  const path = join(await scratchDirectory(), "lock");
  const locks = await Promise.all(Array.from({ length: 8 }, () => acquireLock(path)));
  expect(locks.filter((lock) => lock !== undefined)).toHaveLength(1);
  for (const lock of locks) lock?.release();
});

test("asking whether a lock is held does not take it from others that ask", async () => {
  const path = join(await scratchDirectory(), "lock");
  (await acquireLock(path))?.release();
  expect(Array.from({ length: 50 }, () => lockHeld(path))).toEqual(Array(50).fill(false));
});

test("a lock dies with its process, also by SIGKILL", async () => {
  const path = join(await scratchDirectory(), "lock");
  const child = holder(path);
  expect(await child.line()).toBe("held");
  expect(lockHeld(path)).toBe(true);
  expect(await acquireLock(path)).toBeUndefined();
  await child.signal("SIGKILL");
  expect(lockHeld(path)).toBe(false);
  const lock = await acquireLock(path);
  expect(lock).toBeDefined();
  lock?.release();
});

test("a stopped process keeps its lock", async () => {
  const path = join(await scratchDirectory(), "lock");
  const child = holder(path);
  expect(await child.line()).toBe("held");
  await child.signal("SIGSTOP");
  expect(lockHeld(path)).toBe(true);
  expect(await acquireLock(path)).toBeUndefined();
  await child.signal("SIGCONT");
  expect(lockHeld(path)).toBe(true);
});

test("two processes that want a lock at once do not both get it", async () => {
  const path = join(await scratchDirectory(), "lock");
  const answers = await Promise.all([holder(path), holder(path), holder(path)].map((child) => child.line()));
  expect(answers.sort()).toEqual(["held", "refused", "refused"]);
});

test("a lock leaves nothing but its empty file", async () => {
  const directory = await scratchDirectory();
  const path = join(directory, "lock");
  (await acquireLock(path))?.release();
  expect(readFileSync(path)).toHaveLength(0);
  expect(existsSync(`${path}-journal`)).toBe(false);
});

test("a file that is no lock file, and a directory that is not there, are refused with CANNOT_OPEN", async () => {
  const directory = await scratchDirectory();
  const path = join(directory, "notes.txt");
  writeFileSync(
    path,
    "these are notes, and they are longer than a database header of one hundred bytes is: ".repeat(9),
  );
  await expect(acquireLock(path)).rejects.toMatchObject({ code: "CANNOT_OPEN", details: { path } });
  expect(() => lockHeld(path)).toThrow(expect.objectContaining({ code: "CANNOT_OPEN" }));
  await expect(acquireLock(join(directory, "missing", "lock"))).rejects.toMatchObject({ code: "CANNOT_OPEN" });
});

test.each([
  ["is not installed", "MODULE_NOT_FOUND", "npm install better-sqlite3"],
  ["was built for another version of Node", "ERR_DLOPEN_FAILED", "npm rebuild better-sqlite3"],
])("where better-sqlite3 %s, DRIVER_MISSING says what to do", async (_, code, remedy) => {
  // `_load` is what `require` calls.
  const loader = Module as unknown as { _load: (name: string, ...rest: unknown[]) => unknown };
  const load = loader._load;
  onTestFinished(() => {
    loader._load = load;
  });
  loader._load = (name, ...rest) => {
    if (name === "better-sqlite3") throw Object.assign(new Error(`cannot load ${name}`), { code });
    return load.call(Module, name, ...rest);
  };
  const path = join(await scratchDirectory(), "lock");
  await expect(acquireLock(path)).rejects.toMatchObject({
    code: "DRIVER_MISSING",
    message: expect.stringContaining(remedy),
    cause: { code },
  });
});
