import { join } from "node:path";
import { isHoldfastError } from "holdfast";
import { openCheckpointer } from "holdfast/checkpointers";
import { expect, inject, test } from "vitest";
import { scratchDirectory } from "./backends/scratch.ts";
import { newSchema } from "./servers/schemas.ts";

test("a URL opens the checkpointer of its scheme", async () => {
  const directory = await scratchDirectory();
  const urls = ["memory:", `jsonl:${join(directory, "a: log")}`, `sqlite:${join(directory, "a:b.db")}`];
  for (const url of urls) {
    const checkpointer = await openCheckpointer(url);
    expect(checkpointer.backend.name).toBe(url);
    await checkpointer.close();
  }
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
  ["holdfast.db", '"memory:", "jsonl:directory", "sqlite:file.db" or "postgres://user@host/database"'],
  ["", '"memory:", "jsonl:directory", "sqlite:file.db" or "postgres://user@host/database"'],
  ["sqlite3:holdfast.db", 'Did you mean "sqlite:file.db"?'],
  ["SQLite:holdfast.db", 'Did you mean "sqlite:file.db"?'],
  ["json:dir", 'Did you mean "jsonl:directory"?'],
  [
    "mysql://localhost/x",
    'Known are "memory:", "jsonl:directory", "sqlite:file.db" or "postgres://user@host/database".',
  ],
  ["postgres:no url", "give a URL such as"],
  ["memory:x", 'Write "memory:"'],
  ["jsonl:", 'Write "jsonl:directory"'],
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
