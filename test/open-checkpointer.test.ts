import { join } from "node:path";
import { isHoldfastError } from "holdfast";
import { openCheckpointer } from "holdfast/checkpointers";
import { expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "./backends/scratch.ts";
import { ownRedisAvailable, startRedis } from "./servers/redis.ts";

test("a URL opens the checkpointer of its scheme", async () => {
  const directory = await scratchDirectory();
  const urls = ["memory:", `jsonl:${join(directory, "a: log")}`, `sqlite:${join(directory, "a:b.db")}`];
  for (const url of urls) {
    const checkpointer = await openCheckpointer(url);
    expect(checkpointer.backend.name).toBe(url);
    await checkpointer.close();
  }
});

test.skipIf(!ownRedisAvailable)("a URL of a server opens it, and its secrets are in no name", async () => {
  const server = await startRedis({}, true);
  onTestFinished(() => server.remove());
  const checkpointer = await openCheckpointer(server.url.replace("//", "//default:secret@"), { durability: "os" });
  expect(checkpointer.backend.name).toBe(server.url);
  expect(checkpointer.backend.capabilities.durability).toBe("os");
  await checkpointer.close();
});

test("options reach the backend", async () => {
  const checkpointer = await openCheckpointer(`jsonl:${await scratchDirectory()}`, { fsync: false });
  expect(checkpointer.backend.capabilities.durability).toBe("os");
  await checkpointer.close();
});

test.each([
  ["holdfast.db", '"memory:", "jsonl:directory", "sqlite:file.db" or "redis://host:6379"'],
  ["", '"memory:", "jsonl:directory", "sqlite:file.db" or "redis://host:6379"'],
  ["sqlite3:holdfast.db", 'Did you mean "sqlite:file.db"?'],
  ["SQLite:holdfast.db", 'Did you mean "sqlite:file.db"?'],
  ["json:dir", 'Did you mean "jsonl:directory"?'],
  ["postgres://localhost/x", 'Known are "memory:", "jsonl:directory", "sqlite:file.db" or "redis://host:6379".'],
  ["memory:x", 'Write "memory:"'],
  ["jsonl:", 'Write "jsonl:directory"'],
  ["redis:6379", "redis://host:6379"],
  ["sqlite://holdfast.db", '"sqlite:holdfast.db"'],
])("the URL %j is refused and told what to write", async (url, advice) => {
  const error = await openCheckpointer(url).catch((error: unknown) => error);
  expect(isHoldfastError(error, "INVALID_ARGUMENT")).toBe(true);
  expect(String(error)).toContain(advice);
});

test("an option that the scheme does not have is refused with the one that was meant", async () => {
  const directory = await scratchDirectory();
  const options = { fsnyc: false } as object;
  await expect(openCheckpointer(`jsonl:${directory}`, options)).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
    message: expect.stringContaining("Did you mean fsync?"),
  });
});
