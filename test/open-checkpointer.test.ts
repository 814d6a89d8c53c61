import { join } from "node:path";
import { isHoldfastError } from "holdfast";
import { openCheckpointer } from "holdfast/checkpointers";
import { expect, test } from "vitest";
import { scratchDirectory } from "./backends/scratch.ts";

test("a URL opens the checkpointer of its scheme", async () => {
  const directory = await scratchDirectory();
  const urls = ["memory:", `jsonl:${join(directory, "a: log")}`, `sqlite:${join(directory, "a:b.db")}`];
  for (const url of urls) {
    const checkpointer = await openCheckpointer(url);
    expect(checkpointer.backend.name).toBe(url);
    await checkpointer.close();
  }
});

test("options reach the backend", async () => {
  const checkpointer = await openCheckpointer(`jsonl:${await scratchDirectory()}`, { fsync: false });
  expect(checkpointer.backend.capabilities.durability).toBe("os");
  await checkpointer.close();
});

test.each([
  ["holdfast.db", '"memory:", "jsonl:directory" or "sqlite:file.db"'],
  ["", '"memory:", "jsonl:directory" or "sqlite:file.db"'],
  ["sqlite3:holdfast.db", 'Did you mean "sqlite:file.db"?'],
  ["SQLite:holdfast.db", 'Did you mean "sqlite:file.db"?'],
  ["json:dir", 'Did you mean "jsonl:directory"?'],
  ["postgres://localhost/x", 'Known are "memory:", "jsonl:directory" or "sqlite:file.db".'],
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
