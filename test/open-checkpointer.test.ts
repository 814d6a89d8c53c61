import { join } from "node:path";
import { isHoldfastError } from "holdfast";
import { openCheckpointer } from "holdfast/checkpointers";
import { expect, inject, onTestFinished, test } from "vitest";
import { scratchDirectory } from "./backends/scratch.ts";
import { ownRedisAvailable, startRedis } from "./servers/redis.ts";
import { newSchema } from "./servers/schemas.ts";

/** All that can be opened. */
const KNOWN = '"memory:", "jsonl:directory", "sqlite:file.db", "postgres://user@host/database" or "redis://host:6379"';

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

test("a URL of Postgres opens its tables, in the schema that the options name", async () => {
  const checkpointer = await openCheckpointer(inject("postgresUrl"), { schema: await newSchema() });
  expect(checkpointer.backend.name).toMatch(/^postgres:127\.0\.0\.1:\d+\/postgres$/);
  await checkpointer.close();
});

test("options reach the backend", async () => {
  const checkpointer = await openCheckpointer(`jsonl:${await scratchDirectory()}`, { fsync: false });
  expect(checkpointer.backend.capabilities.durability).toBe("os");
  await checkpointer.close();
});

test.each([
  ["holdfast.db", KNOWN],
  ["", KNOWN],
  ["sqlite3:holdfast.db", 'Did you mean "sqlite:file.db"?'],
  ["SQLite:holdfast.db", 'Did you mean "sqlite:file.db"?'],
  ["json:dir", 'Did you mean "jsonl:directory"?'],
  ["mysql://localhost/x", `Known are ${KNOWN}.`],
  ["postgres:no url", "give a URL such as"],
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

test.each(["postgress://app:p@ss:word@db/agents", "pg://app:p@ss:word@db/agents"])(
  "a URL that is refused is told without its password: %s",
  async (url) => {
    const error = await openCheckpointer(url).catch((error: unknown) => error);
    expect(isHoldfastError(error, "INVALID_ARGUMENT")).toBe(true);
    const told = `${String(error)} ${JSON.stringify(error)}`;
    expect(told).toContain("//app:***@db/agents");
    expect(told).not.toContain("ss:word");
  },
);
