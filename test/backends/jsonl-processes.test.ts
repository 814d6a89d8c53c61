/** Two real processes and one directory. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { jsonlBackend } from "../../checkpointers/jsonl/index.ts";
import { compiled, runChild, scratchDirectory } from "./scratch.ts";

/** A process that opens the directory and commits a checkpoint per line it reads, or says why it cannot. */
function writer(directory: string, inside = "") {
  return runChild(`
    import { createInterface } from "node:readline";
    import { channels } from "holdfast";
    import { jsonlBackend } from ${JSON.stringify(compiled("checkpointers/jsonl/index.ts"))};
    const checkpoint = (id) => ({
      kind: "checkpoint", thread: "t", era: 0, ns: "", id, parent: undefined, source: "loop", body: "json/1 {}", heads: undefined,
    });
    try {
      const backend = await jsonlBackend(${JSON.stringify(directory)});
      console.log("open");
      for await (const id of createInterface({ input: process.stdin })) {
        ${inside}
        await backend.commit([[checkpoint(id)]]);
        console.log("stored " + id);
      }
    } catch (error) {
      console.log(error.code);
    }
  `);
}

async function idsOf(directory: string): Promise<string[]> {
  const backend = await jsonlBackend(directory);
  const ids: string[] = [];
  for await (const row of backend.checkpoints({})) ids.push(row.id);
  await backend.close();
  return ids.reverse();
}

test("of two processes that append to one directory the second is refused, and the first goes on undisturbed", async () => {
  const directory = await scratchDirectory();
  const first = writer(directory);
  expect(await first.line()).toBe("open");
  const second = writer(directory);
  expect(await second.line()).toBe("LOCKED");
  await expect(jsonlBackend(directory)).rejects.toMatchObject({ code: "LOCKED" });
  for (const id of ["1", "2"]) {
    first.process.stdin?.write(`${id}\n`);
    expect(await first.line()).toBe(`stored ${id}`);
  }
  await first.signal("SIGKILL");
  expect(await idsOf(directory)).toEqual(["1", "2"]);
});

test("a killed process leaves its directory open to the next one with everything it acknowledged", async () => {
  const directory = await scratchDirectory();
  const child = writer(directory);
  expect(await child.line()).toBe("open");
  child.process.stdin?.write("1\n");
  expect(await child.line()).toBe("stored 1");
  await child.signal("SIGKILL");
  const backend = await jsonlBackend(directory);
  expect((await backend.load("t", "", undefined)).head).toBe("1");
  await backend.close();
});

test("a stopped process keeps its directory", async () => {
  const directory = await scratchDirectory();
  const child = writer(directory);
  expect(await child.line()).toBe("open");
  await child.signal("SIGSTOP");
  await expect(jsonlBackend(directory)).rejects.toMatchObject({ code: "LOCKED" });
  await child.signal("SIGCONT");
  child.process.stdin?.write("1\n");
  expect(await child.line()).toBe("stored 1");
});

test("a process killed when half of a record is written loses that record whole", async () => {
  const directory = await scratchDirectory();
  const die = `if (id === "2") channels.commitInside.subscribe(() => process.kill(process.pid, "SIGKILL"));`;
  const child = writer(directory, die);
  expect(await child.line()).toBe("open");
  child.process.stdin?.write("1\n");
  expect(await child.line()).toBe("stored 1");
  const before = readFileSync(join(directory, "log.jsonl")).length;
  child.process.stdin?.write("2\n");
  await expect(child.line()).rejects.toThrow();
  const half = readFileSync(join(directory, "log.jsonl")).length;
  expect(half).toBeGreaterThan(before);
  const warn = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  expect(await idsOf(directory)).toEqual(["1"]);
  expect(warn).toHaveBeenCalledWith(expect.stringContaining(`line 3, ${half - before} bytes`), expect.anything());
  warn.mockRestore();
});
