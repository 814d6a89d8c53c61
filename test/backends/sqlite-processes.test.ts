import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setInterval } from "node:timers/promises";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { sqliteBackend } from "../../checkpointers/sqlite/backend.ts";
import { accept, blob, checkpoint, collect, headOf, writes } from "../../src/testing/backend-rows.ts";
import { type Child, compiled, runChild, scratchDirectory } from "./scratch.ts";

async function open(file: string, options?: Parameters<typeof sqliteBackend>[1]) {
  const backend = await sqliteBackend(file, options);
  onTestFinished(() => backend.close());
  return backend;
}

const library = JSON.stringify(compiled("checkpointers/sqlite/backend.ts"));

/** The start of a child's program: `file`, `sqliteBackend`, and `told()`, which waits for the parent's next line. */
const prelude = (file: string) => `
  import { createInterface } from "node:readline";
  import { sqliteBackend } from ${library};
  const file = ${JSON.stringify(file)};
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const told = () => lines.next();
`;

const tell = (child: Child) => child.process.stdin?.write("go\n");

/** A process that holds the write lock until it is told to end its transaction. */
async function lockedBy(file: string): Promise<Child> {
  const child = runChild(`
    ${prelude(file)}
    import Database from "better-sqlite3";
    const db = new Database(file);
    db.exec("begin immediate");
    console.log("locked");
    await told();
    db.exec("commit");
    console.log("released");`);
  expect(await child.line()).toBe("locked");
  return child;
}

test("six processes that open an empty file at once all come up and all store", async () => {
  const file = join(await scratchDirectory(), "x.db");
  const children = Array.from({ length: 6 }, (_, i) =>
    runChild(`
      ${prelude(file)}
      console.log("ready");
      await told();
      const backend = await sqliteBackend(file);
      await backend.commit([[${JSON.stringify(blob("hash", "data", { thread: `thread ${i}` }))}]]);
      console.log("stored");
      await backend.close();`),
  );
  for (const child of children) expect(await child.line()).toBe("ready");
  for (const child of children) tell(child);
  for (const child of children) expect(await child.line()).toBe("stored");
  const backend = await open(file);
  for (const i of children.keys()) expect((await backend.blobs(`thread ${i}`, ["hash"])).get("hash")).toBe("data");
});

test("while another process holds the write lock the event loop runs on, and the commit happens afterwards", async () => {
  const file = join(await scratchDirectory(), "x.db");
  const backend = await open(file);
  const child = await lockedBy(file);
  let done = false;
  const commit = accept(backend, checkpoint("1")).then(() => {
    done = true;
  });
  // Each turn waits for a timer: were the wait in SQLite, none would fire until the commit gives up.
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(done).toBe(false);
  expect(await headOf(backend)).toBeUndefined();
  tell(child);
  expect(await child.line()).toBe("released");
  await commit;
  expect(await headOf(backend)).toBe("1");
});

test("commits that wait for the lock are applied in the order of their calls", async () => {
  const file = join(await scratchDirectory(), "x.db");
  const backend = await open(file);
  const child = await lockedBy(file);
  const commits = ["1", "2", "3"].map((id, i, ids) => accept(backend, checkpoint(id, { heads: [ids[i - 1] ?? null] })));
  tell(child);
  await Promise.all(commits);
  expect(await headOf(backend)).toBe("3");
});

test("a commit that finds the lock held for busyTimeoutMs fails with BUSY and nothing of its group is stored", async () => {
  const file = join(await scratchDirectory(), "x.db");
  const backend = await open(file, { busyTimeoutMs: 50 });
  const child = await lockedBy(file);
  const commit = async () => backend.commit([[checkpoint("1")], [blob("hash", "data")]]);
  await expect(commit()).rejects.toMatchObject({
    code: "BUSY",
    message: expect.stringContaining("busyTimeoutMs (50 ms)"),
  });
  tell(child);
  expect(await child.line()).toBe("released");
  expect(await backend.load("t", "", undefined)).toMatchObject({ head: undefined });
  expect((await backend.blobs("t", ["hash"])).size).toBe(0);
  await accept(backend, checkpoint("1", { heads: [null] }));
});

test("opening waits for whoever holds the lock, and gives up with BUSY", async () => {
  const file = join(await scratchDirectory(), "x.db");
  const locker = new Database(file);
  onTestFinished(() => void locker.close());
  locker.exec("begin exclusive");
  await expect(sqliteBackend(file, { busyTimeoutMs: 20 })).rejects.toMatchObject({ code: "BUSY" });
  const opened = open(file);
  locker.exec("rollback");
  await accept(await opened, checkpoint("1"));
});

test("the owner of a killed process is dead, that of a stopped one is alive", async () => {
  const file = join(await scratchDirectory(), "x.db");
  const backend = await open(file);
  const start = async () => {
    const child = runChild(`
      ${prelude(file)}
      const backend = await sqliteBackend(file);
      console.log(backend.owner);
      await told();`);
    return { child, owner: await child.line() };
  };
  const [killed, stopped] = [await start(), await start()];
  for (const { owner } of [killed, stopped]) expect(await backend.ownerAlive(owner)).toBe(true);
  await stopped.child.signal("SIGSTOP");
  await killed.child.signal("SIGKILL");
  expect(await backend.ownerAlive(killed.owner)).toBe(false);
  expect(await backend.ownerAlive(stopped.owner)).toBe(true);
  expect(await backend.ownerAlive(backend.owner)).toBe(true);
  expect(await backend.ownerAlive("../x")).toBe(false);

  // The next one to open the file removes what the dead have left, and only that.
  const next = await open(file);
  const locks = readdirSync(`${file}-owners`).sort();
  expect(locks).toEqual([backend.owner, stopped.owner, next.owner].map((owner) => `${owner}.lock`).sort());
  expect(await next.ownerAlive(stopped.owner)).toBe(true);
});

test("an owner that gives signs of life counts as gone while it is stopped for longer than its lease, and not because it is busy", async () => {
  const file = join(await scratchDirectory(), "x.db");
  const backend = await open(file);
  const child = runChild(`
    ${prelude(file)}
    const backend = await sqliteBackend(file, { leaseMs: 1000 });
    await backend.heartbeat();
    console.log(backend.owner);
    const until = process.hrtime.bigint() + 3_000_000_000n;
    while (process.hrtime.bigint() < until);
    console.log("was busy");
    await told();`);
  const owner = await child.line();
  const beats = `${file}-owners/${owner}.beat`;
  // Each sign of life is another moment; of two, one was given while the event loop was busy.
  const next = async (than: string) => {
    for await (const _ of setInterval(10)) if (readFileSync(beats, "utf8") !== than) return readFileSync(beats, "utf8");
    throw new Error("the interval has ended");
  };
  await next(await next(readFileSync(beats, "utf8")));
  expect(await backend.ownerAlive(owner)).toBe(true);
  await child.line();
  expect(await backend.ownerAlive(owner)).toBe(true);
  await child.signal("SIGSTOP");
  const last = BigInt(readFileSync(beats, "utf8").trim());
  for await (const _ of setInterval(10)) if (process.hrtime.bigint() / 1_000_000n > last) break;
  expect(await backend.ownerAlive(owner)).toBe(false);
  await child.signal("SIGCONT");
  await next(`${last}`.padStart(20));
  expect(await backend.ownerAlive(owner)).toBe(true);
});

test("nothing is left beside a file that everybody has closed", async () => {
  const directory = await scratchDirectory();
  const file = join(directory, "x.db");
  const [one, other] = [await open(file), await open(file)];
  await accept(one, checkpoint("1"));
  await one.close();
  expect(existsSync(`${file}-owners`)).toBe(true);
  expect(await other.ownerAlive(one.owner)).toBe(false);
  await other.close();
  expect(readdirSync(directory)).toEqual(["x.db"]);
});

test("two processes make 1,000 mixed writes and neither is ever told that the file is busy", async () => {
  const file = join(await scratchDirectory(), "x.db");
  const writer = (thread: string) =>
    runChild(`
      ${prelude(file)}
      const backend = await sqliteBackend(file, { synchronous: "NORMAL" });
      console.log("ready");
      await told();
      const place = { thread: ${JSON.stringify(thread)}, era: 0, ns: "" };
      let parent;
      for (let i = 0; i < 250; i++) {
        const id = String(i).padStart(4, "0");
        const verdicts = await backend.commit([
          [{ kind: "writes", ...place, checkpoint: parent ?? id, task: "a", path: "", slot: undefined, run: "r", body: 'json/1 [[' + i + ',"c",1]]' }],
          [
            { kind: "blob", ...place, hash: "hash" + id, data: "data " + id },
            { kind: "checkpoint", ...place, id, parent, source: "loop", body: "json/1 {}", heads: [parent ?? null] },
          ],
        ]);
        for (const verdict of verdicts) if (verdict !== undefined) throw verdict;
        if (i % 50 === 0) for await (const row of backend.checkpoints({ thread: ${JSON.stringify(thread)} })) void row;
        parent = id;
      }
      await backend.close();
      console.log("done");`);
  const children = [writer("one"), writer("two")];
  for (const child of children) await child.line();
  for (const child of children) tell(child);
  for (const child of children) expect(await child.line()).toBe("done");
  const backend = await open(file);
  for (const thread of ["one", "two"]) {
    const rows = await collect(backend.checkpoints({ thread }));
    expect(rows.map((row) => Number(row.id))).toEqual(Array.from({ length: 250 }, (_, i) => 249 - i));
    expect(rows.flatMap((row) => row.writes)).toHaveLength(250);
  }
});

test("a process that is killed between two statements of a commit leaves nothing of it", async () => {
  const file = join(await scratchDirectory(), "x.db");
  const child = runChild(`
    ${prelude(file)}
    import { channels } from "holdfast";
    const backend = await sqliteBackend(file);
    await backend.commit([[${JSON.stringify(checkpoint("1"))}]]);
    channels.commitInside.subscribe(() => process.kill(process.pid, "SIGKILL"));
    console.log("ready");
    await backend.commit([[${JSON.stringify(blob("hash", "data"))}, ${JSON.stringify(checkpoint("2"))}]]);
    console.log("survived");`);
  await child.line();
  await expect(child.line()).rejects.toThrow();
  const backend = await open(file);
  expect(await headOf(backend)).toBe("1");
  expect((await backend.blobs("t", ["hash"])).size).toBe(0);
});

test("where a file cannot grow the commit fails, nothing of it is stored, and everything before it is kept", async () => {
  const file = join(await scratchDirectory(), "x.db");
  // The limit of the shell holds for every file its child writes: the kernel refuses to extend the log.
  const program = `
    ${prelude(file)}
    const backend = await sqliteBackend(file);
    for (let i = 0; ; i++) {
      const data = "x".repeat(20_000);
      try {
        await backend.commit([[{ kind: "blob", thread: "t", era: 0, hash: "a" + i, data }, { kind: "blob", thread: "t", era: 0, hash: "b" + i, data }]]);
      } catch (error) {
        console.log(error.code + " " + i);
        break;
      }
    }
    await told();`;
  const limit = runChild(`
    import { spawn } from "node:child_process";
    const script = "trap '' XFSZ; ulimit -f 400; exec \\"$0\\" --input-type=module --eval \\"$1\\"";
    spawn("sh", ["-c", script, process.execPath, ${JSON.stringify(program)}], { stdio: "inherit" });`);
  const [code, count] = (await limit.line()).split(" ");
  expect(code).toBe("STORAGE_FAILED");
  tell(limit);
  const backend = await open(file);
  const hashes = Array.from({ length: Number(count) }, (_, i) => [`a${i}`, `b${i}`]).flat();
  expect(hashes.length).toBeGreaterThan(2);
  expect((await backend.blobs("t", hashes)).size).toBe(hashes.length);
  expect((await backend.blobs("t", [`a${count}`, `b${count}`])).size).toBe(0);
  await accept(backend, checkpoint("1"), writes([[0, "c", 1]]));
});
